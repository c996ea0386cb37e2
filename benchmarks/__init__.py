"""Layer 3: the paper's measurements, and their times."""

if "." not in __name__:  # the short name in a checkout
    from lrp_axioms.short_names import share

    share(__name__)
