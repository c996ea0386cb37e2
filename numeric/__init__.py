"""Layer 2: relevance of real models (NumPy, PyTorch, Transformers)."""

if "." not in __name__:  # the short name in a checkout
    from lrp_axioms.short_names import share

    share(__name__)

TYPE_CHECKING = False
if not TYPE_CHECKING:
    from lrp_axioms import __getattr__ as __getattr__  # such as explain and audit
