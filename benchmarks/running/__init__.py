"""Work shared out to processes or a cluster, with what was finished kept."""
