"""A model that other code runs, and the relevance of whatever that code computes of its logits."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from axioms.composites import Composite
from numeric.attribution import propagation
from numeric.engine.engine import Propagation
from numeric.methods.lrp import read


class Ruled:
    """``model`` under the rules of ``method``, which end at its logits.

    What other code computes of the logits, such as a probability, has its own gradient, as the
    log-probabilities of ``attribute`` do.
    Raises what ``numeric.propagation`` raises.
    """

    def __init__(
        self, model: PreTrainedModel, method: str | Composite = "attnlrp", *, epsilon: float = 0.0
    ):
        self.model, self.method, self.epsilon = model, method, epsilon
        self.rules = self._block()

    def _block(self) -> Propagation:
        return propagation(self.model, self.method, epsilon=self.epsilon)

    def __call__(self, **inputs: Tensor) -> Any:
        """The output of the model, whose logits ``relevance`` can be asked of."""
        self.rules = self._block()
        with torch.enable_grad(), self.rules:
            output = self.model(**inputs)
            output.logits = self.rules.end(output.logits)
        return output

    def relevance(self, number: Tensor) -> list[Tensor]:
        """Relevance for the sum of ``number`` at every lookup of words, in order: (batch, token).

        An encoder–decoder model looks up its source, then what the decoder has written.
        """
        entries = self.rules.entries.found
        gradients = torch.autograd.grad(number.sum(), [entry.embedding for entry in entries])
        wholes = [entry.whole()["embedding"] for entry in entries]
        return [read(whole, c) for whole, c in zip(wholes, gradients, strict=True)]
