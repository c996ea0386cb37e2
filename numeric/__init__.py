"""Layer 2: what is computed (NumPy, PyTorch, Transformers)."""

__all__ = ["Attribution", "attribute"]


def __getattr__(name):
    # Lazily, so that the NumPy reference can be imported without PyTorch.
    if name in __all__:
        from numeric import attribution

        return getattr(attribution, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
