"""Layer 2: what is computed (NumPy, PyTorch, Transformers)."""

from importlib import import_module

_HOME = {
    "Attribution": "numeric.attribution",
    "attribute": "numeric.attribution",
    "attribute_each": "numeric.attribution",
    "Audit": "numeric.auditing.audit",
    "audit": "numeric.auditing.audit",
    "assert_conserves": "numeric.auditing.testing",
    "compiled": "numeric.compiling",
    "evaluate": "numeric.evaluation.faithfulness",
    "explain": "numeric.attribution",
    "explain_generation": "numeric.generation.explaining",
    "plan": "numeric.planning",
    "propagation": "numeric.attribution",
    "sweep": "numeric.layer_mixes",
}
__all__ = list(_HOME)


def __getattr__(name):
    # Lazily, so that the NumPy reference can be imported without PyTorch.
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
