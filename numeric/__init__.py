"""Layer 2: relevance of real models (NumPy, PyTorch, Transformers)."""

from importlib import import_module

TYPE_CHECKING = False  # for type checkers, which take it for true; to load typing takes time
if TYPE_CHECKING:
    from numeric.attribution import (
        attribute,
        attribute_each,
        explain,
        propagation,
    )
    from numeric.auditing.audit import Audit, audit
    from numeric.auditing.testing import assert_conserves
    from numeric.compiling import compiled
    from numeric.evaluation.faithfulness import evaluate
    from numeric.generation.explaining import explain_generation
    from numeric.generation.result import Generation
    from numeric.layer_mixes import sweep
    from numeric.planning import plan
    from numeric.results.result import Attribution
    from numeric.results.similarity import Similarity
    from numeric.similarity import explain_similarity

_HOME = {
    "Attribution": "numeric.results.result",
    "attribute": "numeric.attribution",
    "attribute_each": "numeric.attribution",
    "Audit": "numeric.auditing.audit",
    "audit": "numeric.auditing.audit",
    "assert_conserves": "numeric.auditing.testing",
    "compiled": "numeric.compiling",
    "evaluate": "numeric.evaluation.faithfulness",
    "explain": "numeric.attribution",
    "explain_generation": "numeric.generation.explaining",
    "explain_similarity": "numeric.similarity",
    "Generation": "numeric.generation.result",
    "plan": "numeric.planning",
    "propagation": "numeric.attribution",
    "Similarity": "numeric.results.similarity",
    "sweep": "numeric.layer_mixes",
}
__all__ = [
    "Attribution",
    "Audit",
    "Generation",
    "Similarity",
    "assert_conserves",
    "attribute",
    "attribute_each",
    "audit",
    "compiled",
    "evaluate",
    "explain",
    "explain_generation",
    "explain_similarity",
    "plan",
    "propagation",
    "sweep",
]


if not TYPE_CHECKING:  # or no name would be unknown

    def __getattr__(name):
        # Lazily, so that the NumPy reference can be imported without PyTorch.
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
