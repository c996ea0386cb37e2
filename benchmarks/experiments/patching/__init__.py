"""LRP against activation patching: do coefficients predict the effect of replaced activations?"""
