"""Small classifiers of other architectures, on which a choice between methods is checked."""
