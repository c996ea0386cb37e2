"""The theorems: each marked test states one sentence and proves or refutes it."""
