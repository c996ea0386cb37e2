"""Runs a model for other code, and returns relevance of any number computed of its logits."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import propagation
from lrp_axioms.numeric.engine.engine import Propagation


class ExternalModel:
    """Runs ``model`` under the rules of ``method``, which end at its logits.

    Numbers that other code computes of the logits, such as a probability, have their own gradient,
    like the log-probabilities of ``attribute``.
    Raises the errors of ``lrp_axioms.propagation``.
    """

    def __init__(
        self, model: PreTrainedModel, method: str | Composite = "attnlrp", *, epsilon: float = 0.0
    ):
        self.model, self.method, self.epsilon = model, method, epsilon
        self.rules = self._block()

    def _block(self) -> Propagation:
        return propagation(self.model, self.method, epsilon=self.epsilon)

    def __call__(self, **inputs: Tensor) -> Any:
        """Returns the model's output; ``relevance`` explains numbers computed of its logits."""
        self.rules = self._block()
        with torch.enable_grad(), self.rules:
            output = self.model(**inputs)
            output.logits = self.rules.end(output.logits)
        return output

    def relevance(self, number: Tensor) -> list[Tensor]:
        """Returns relevance for the sum of ``number`` at every lookup of words, (batch, token).

        An encoder–decoder model looks up its source, then the text that the decoder has written.
        """
        entries = self.rules.entries.found
        gradients = torch.autograd.grad(number.sum(), [entry.embedding for entry in entries])
        wholes = [entry.whole()["embedding"] for entry in entries]
        return [(whole * c).sum(dim=-1) for whole, c in zip(wholes, gradients, strict=True)]
