"""Offers rules as an ``explain_func`` of Quantus, whose metrics change inputs as numbers."""

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import propagation
from lrp_axioms.numeric.engine.rules import wide


class FromEmbeddings(nn.Module):
    """A text classifier as a function of word embeddings, (batch, token, channel) -> logits.

    Texts have no padding, because the metrics of Quantus know no mask.
    """

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(inputs_embeds=x.to(self.model.device, self.model.dtype)).logits
        return logits

    def embeddings(self, input_ids: Tensor) -> np.ndarray:
        """Returns word embeddings of texts of one length, as inputs for Quantus."""
        with torch.no_grad():
            words = self.model.get_input_embeddings()(input_ids.to(self.model.device))
        return wide(words).cpu().numpy()


def explain(
    model: FromEmbeddings,
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    method: str | Composite = "attnlrp",
    epsilon: float = 0.0,
    device: object = None,
) -> np.ndarray:
    """Returns relevance of words for the class of each text, in logits: (batch, token, 1).

    It is the share of words, ``share="word"`` of ``lrp_axioms.attribute``, because Quantus gives
    and changes words.  Only methods by rules can explain embeddings.  ``device``, which Quantus
    passes on, is not used: the model is explained where it is.
    Raises TypeError for another model, and the errors of ``lrp_axioms.propagation``.
    """
    if not isinstance(model, FromEmbeddings):
        raise TypeError(
            f"model is a {type(model).__name__}; pass FromEmbeddings(model) of "
            "lrp_axioms.numeric.tools.quantus to Quantus, and its embeddings(input_ids) as x_batch"
        )
    here = {"device": model.model.device}
    x = torch.as_tensor(inputs, **here, dtype=model.model.dtype).clone().requires_grad_()
    labels = torch.as_tensor(targets, **here, dtype=torch.int64)
    with torch.enable_grad(), propagation(model.model, method, epsilon=epsilon):
        number = model(x).gather(1, labels[:, None]).sum()
        (c,) = torch.autograd.grad(number, x)
    return (wide(x.detach()) * c).sum(dim=2, keepdim=True).cpu().numpy()
