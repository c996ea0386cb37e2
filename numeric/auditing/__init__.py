"""The relevance inside a model: its captured graph, the ledger, and the verdicts."""
