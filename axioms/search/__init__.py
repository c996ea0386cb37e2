"""Every propagation rule of a template that obeys some axioms."""
