"""Small networks of the experiments, with their own rules: attention without softmax."""
