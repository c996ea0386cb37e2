"""What a language model writes, and which tokens it wrote each token because of."""
