"""Small classifiers of other architectures, to check a choice between methods."""
