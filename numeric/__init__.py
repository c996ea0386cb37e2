"""Layer 2: relevance of real models (NumPy, PyTorch, Transformers)."""

from importlib import import_module

TYPE_CHECKING = False  # for type checkers, which take it for true; to load typing takes time
if TYPE_CHECKING:
    from lrp_axioms.numeric.attribution import (
        attribute,
        attribute_each,
        explain,
        propagation,
    )
    from lrp_axioms.numeric.auditing.audit import Audit, audit
    from lrp_axioms.numeric.auditing.testing import assert_conserves
    from lrp_axioms.numeric.compiling import compiled
    from lrp_axioms.numeric.evaluation.faithfulness import evaluate
    from lrp_axioms.numeric.generation.explaining import explain_generation
    from lrp_axioms.numeric.generation.result import Generation
    from lrp_axioms.numeric.layer_mixes import sweep
    from lrp_axioms.numeric.planning import plan
    from lrp_axioms.numeric.results.result import Attribution

_HOME = {
    "Attribution": "lrp_axioms.numeric.results.result",
    "attribute": "lrp_axioms.numeric.attribution",
    "attribute_each": "lrp_axioms.numeric.attribution",
    "Audit": "lrp_axioms.numeric.auditing.audit",
    "audit": "lrp_axioms.numeric.auditing.audit",
    "assert_conserves": "lrp_axioms.numeric.auditing.testing",
    "compiled": "lrp_axioms.numeric.compiling",
    "evaluate": "lrp_axioms.numeric.evaluation.faithfulness",
    "explain": "lrp_axioms.numeric.attribution",
    "explain_generation": "lrp_axioms.numeric.generation.explaining",
    "Generation": "lrp_axioms.numeric.generation.result",
    "plan": "lrp_axioms.numeric.planning",
    "propagation": "lrp_axioms.numeric.attribution",
    "sweep": "lrp_axioms.numeric.layer_mixes",
}
__all__ = [
    "Attribution",
    "Audit",
    "Generation",
    "assert_conserves",
    "attribute",
    "attribute_each",
    "audit",
    "compiled",
    "evaluate",
    "explain",
    "explain_generation",
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
