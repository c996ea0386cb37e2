"""Functions without a rule, and the reasons: one closed table, and one error that lists all."""

from torch import nn


class OfRules(str):
    """A reason to refuse a function by rules, but not by the plain gradient."""

    __slots__ = ()


RANDOM = "{} that is not switched off"
BY_THE_INPUT = "{} by weights that depend on the input"
BY_A_MATRIX = OfRules(BY_THE_INPUT)  # the matrix of the system
OF_SEVERAL = "{} of {} activations"
OF_THE_BATCH = "{} by the statistics of the batch"
EXPONENTIAL = OfRules("exp, outside of a softmax")
STALE = "{}, whose input or output is written to before it is read"
HELD_PART = "what a norm divides by, written into a part of an activation"
PRODUCT_PART = "a write into a part of a product of two activations"
IN_VMAP = "{} inside torch.vmap or torch.func"
FOREIGN = "{}, code that torch does not show{}"
NO_GRADIENT = "{} where gradients are switched off"
WRITTEN = "{} into an activation where gradients are switched off"
UNSEEN = "a result of code that torch does not show"
_LOGARITHM = (
    "it adds −log Σ exp to every logit, and no share of that belongs to one of them; let the model "
    "return its logits, and ask for log_probability() of lrp_axioms.numeric.targets"
)
REASONS: dict[str, str] = {
    RANDOM: "every pass would be explained differently; call it with training=self.training",
    BY_THE_INPUT: "neither factor is fixed, and no theorem says what share each should have",
    OF_SEVERAL: "no rule says what share each has in what is no sum and no product of two",
    OF_THE_BATCH: "each example would depend on the others; use the running statistics",
    EXPONENTIAL: "a softmax that is taken apart is explained in another way than the whole "
    "(theorem 44); call torch.softmax",
    STALE: "the rule of a function needs its input and its output as they were",
    HELD_PART: "one tensor would be held in part; let the model return a new one",
    PRODUCT_PART: "one tensor would be a product in part; let the model return a new one",
    IN_VMAP: "rules do not see what carries relevance there; call it without them",
    FOREIGN: "its gradient is its author's, and is no rule",
    NO_GRADIENT: "nothing says what its weights are to the logit",
    WRITTEN: "relevance would come to the overwritten values; write with gradients on",
    UNSEEN: "functions of torch.jit run past the rules; call the Python functions instead",
    "prod": "R/n to each of n factors (theorem 5) is implemented for two factors at a time",
    "cumprod": "each factor is in products of many degrees, which share differently (theorem 12)",
    "log_softmax": _LOGARITHM,
    "logsumexp": _LOGARITHM,
    "lstm": "its kernel hides the gates, whose products share relevance",
    "gru": "its kernel hides the gates, whose products share relevance",
}
"""Reasons of refusals, by name."""


class Refusals:
    """The functions without a rule that one forward pass met."""

    def __init__(self) -> None:
        self.all: dict[str, str | None] = {}  # in words, with its place -> why

    def note(self, what: str, words: tuple[object, ...], place: str) -> None:
        said = what.format(*words)
        why = REASONS.get(what) if what != FOREIGN else None  # its words are advice already
        self.all[f"{said:<28} {place}"] = why and f"{said}: {why}."

    def message(self, model: nn.Module) -> str:
        listed = "".join(f"\n  {line}" for line in self.all)
        reasons = "".join(f"\n{why}" for why in dict.fromkeys(self.all.values()) if why)
        return (
            f"{type(model).__name__} calls functions that have no propagation rule:{listed}"
            f"{reasons}\nA function gets its rule in numeric/engine/operations.py; until then, "
            "explain a model that does without."
        )
