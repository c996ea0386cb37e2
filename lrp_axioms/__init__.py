"""Explains Transformers by Layer-wise Relevance Propagation, and proves guarantees of its rules.

The layers are ``lrp_axioms.axioms``, ``lrp_axioms.numeric`` and ``lrp_axioms.benchmarks``.
"""

from importlib import import_module
from pathlib import Path

TYPE_CHECKING = False  # for type checkers, which take it for true; to load typing takes time
if TYPE_CHECKING:
    from lrp_axioms.axioms import judge as judge
    from lrp_axioms.axioms.own_rules import rule as rule
    from lrp_axioms.axioms.own_rules import sign as sign
    from lrp_axioms.numeric.attribution import attribute as attribute
    from lrp_axioms.numeric.attribution import attribute_each as attribute_each
    from lrp_axioms.numeric.attribution import explain as explain
    from lrp_axioms.numeric.attribution import propagation as propagation
    from lrp_axioms.numeric.auditing.accounts import Audit as Audit
    from lrp_axioms.numeric.auditing.audit import audit as audit
    from lrp_axioms.numeric.auditing.testing import assert_conserves as assert_conserves
    from lrp_axioms.numeric.compiling import compiled as compiled
    from lrp_axioms.numeric.evaluation.faithfulness import evaluate as evaluate
    from lrp_axioms.numeric.generation.explaining import explain_generation as explain_generation
    from lrp_axioms.numeric.generation.explaining import explain_generations as explain_generations
    from lrp_axioms.numeric.generation.result import Generation as Generation
    from lrp_axioms.numeric.layer_mixes import sweep as sweep
    from lrp_axioms.numeric.pairs import interactions as interactions
    from lrp_axioms.numeric.planning import plan as plan
    from lrp_axioms.numeric.results.interactions import Interactions as Interactions
    from lrp_axioms.numeric.results.result import Attribution as Attribution
    from lrp_axioms.numeric.results.similarity import Similarity as Similarity
    from lrp_axioms.numeric.similarity import explain_similarity as explain_similarity

    __version__: str

if not Path(__path__[0], "numeric").is_dir():
    __path__.append(str(Path(__path__[0]).parent))  # a checkout has the layers in its root

HOME = {
    "assert_conserves": "numeric.auditing.testing",
    "attribute": "numeric.attribution",
    "attribute_each": "numeric.attribution",
    "Attribution": "numeric.results.result",
    "Audit": "numeric.auditing.accounts",
    "audit": "numeric.auditing.audit",
    "compiled": "numeric.compiling",
    "evaluate": "numeric.evaluation.faithfulness",
    "explain": "numeric.attribution",
    "explain_generation": "numeric.generation.explaining",
    "explain_generations": "numeric.generation.explaining",
    "explain_similarity": "numeric.similarity",
    "Generation": "numeric.generation.result",
    "interactions": "numeric.pairs",
    "Interactions": "numeric.results.interactions",
    "judge": "axioms",
    "plan": "numeric.planning",
    "propagation": "numeric.attribution",
    "rule": "axioms.own_rules",
    "sign": "axioms.own_rules",
    "Similarity": "numeric.results.similarity",
    "sweep": "numeric.layer_mixes",
}
__all__ = ["__version__", *HOME]

if not TYPE_CHECKING:  # or no name would be unknown

    def __getattr__(name):
        # Lazily, so that each layer can be imported without the libraries of the others.
        if name == "__version__":
            return import_module("importlib.metadata").version("lrp-axioms")
        if name in HOME:
            return getattr(import_module(f"lrp_axioms.{HOME[name]}"), name)
        raise AttributeError(f"module 'lrp_axioms' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
