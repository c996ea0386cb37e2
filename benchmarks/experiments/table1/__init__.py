"""Table 1: one function, two factorizations, on handwritten digits and on 14×14 MNIST."""
