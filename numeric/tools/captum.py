"""Offers methods of this project as classes of Captum, and its records of coloured text."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import lrp_axioms
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.methods.options import resolve
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.heads import CLASSES
from lrp_axioms.numeric.targets import Target, log_probability, logit
from lrp_axioms.numeric.targets.readout import read
from lrp_axioms.numeric.tools import require

with require("captum"):
    from captum.attr import Attribution, LayerGradientXActivation, visualization


class LRP(Attribution):
    """``lrp_axioms.attribute`` by the interface of Captum.

    ``method``, ``tokenizer``, ``options`` and errors as in ``lrp_axioms.attribute``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        method: str | Composite = "attnlrp",
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ) -> None:
        resolve(method, options)
        super().__init__(model)
        self.method, self.options = method, {"tokenizer": tokenizer, **options}

    @property
    def multiplies_by_inputs(self) -> bool:
        return True

    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        target: Any = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,  # noqa: FBT001, FBT002 (Captum's signature)
    ) -> Any:
        """Returns relevance of every token, (batch, token), in logits; of an image by position.

        ``inputs`` are ids or pixels, and ``additional_forward_args`` the further arguments of the
        model's ``forward`` in its own order, such as the attention mask.  ``target`` is a class or
        one per example; a pair (column, label), or one per example, for heads with a row per token;
        or a ``Target`` of ``lrp_axioms.numeric.targets``.  None is the model's prediction.
        With ``return_convergence_delta`` also the delta of ``compute_convergence_delta``.
        Raises ValueError for a text with an image, whose relevance has two shapes.
        """
        arguments = _name_arguments(self.forward_func, inputs, additional_forward_args)
        found = lrp_axioms.attribute(
            self.forward_func, arguments, self.method, target_of(target), **self.options
        )
        if found.patches is not None:
            raise ValueError(
                "a text with an image has relevance of tokens and of patches, and Captum takes "
                "one tensor: call lrp_axioms.attribute"
            )
        relevance = (found.relevance,) if isinstance(inputs, tuple) else found.relevance
        return (relevance, -found.residual) if return_convergence_delta else relevance

    def has_convergence_delta(self) -> bool:
        return True

    def compute_convergence_delta(
        self,
        attributions: Tensor | tuple[Tensor, ...],
        inputs: Tensor | tuple[Tensor, ...],
        target: Any = None,
        additional_forward_args: Any = None,
    ) -> Tensor:
        """Returns the sum of relevance minus the explained number, (batch,): minus the residual.

        The sign is as in Captum's Integrated Gradients.
        """
        arguments = _name_arguments(self.forward_func, inputs, additional_forward_args)
        parts = attributions if isinstance(attributions, tuple) else (attributions,)
        with torch.no_grad():
            output = self.forward_func(**_move(self.forward_func, arguments))
            how = {"tokenizer": self.options["tokenizer"]}
            number = read(self.forward_func, arguments, output, target_of(target), **how)
        return sum(part.flatten(1).sum(dim=1).to(number.device) for part in parts) - number


class LanguageModelLRP(LayerGradientXActivation):
    """A method of ``lrp_axioms.attribute`` that ``LLMGradientAttribution`` of Captum takes.

    Captum explains the log-probability of every token of an answer, given the prompt and earlier
    tokens; ``of=logit`` explains logits, which the rules of CP-LRP conserve up to biases.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        method: str | Composite = "attnlrp",
        *,
        of: Callable[[int], Target] = log_probability,
        **options: Any,
    ) -> None:
        resolve(method, options)
        super().__init__(model, model.get_input_embeddings())
        self.explained, self.method, self.of, self.options = model, method, of, options

    def attribute(
        self, inputs: Any, target: object = None, additional_forward_args: Any = None, **_: object
    ) -> Tensor:
        """Returns relevance of one token of an answer, (1, token, 1); Captum sums the last axis.

        ``additional_forward_args`` come from ``LLMGradientAttribution``: the prompt, the ids of
        the answer, and how many of these precede the token.
        """
        prompt, answer, before = additional_forward_args
        ids = prompt.to_model_input(inputs).to(self.explained.device)
        ids = torch.cat([ids, answer[None, :before].to(ids)], dim=1)
        number = self.of(int(answer[before]))
        found = lrp_axioms.attribute(
            self.explained, {"input_ids": ids}, self.method, number, **self.options
        )
        return found.relevance[..., None]


def records(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Mapping[str, Tensor],
    found: lrp_axioms.Attribution,
    true: Sequence[object] = (),
) -> list[Any]:
    """Makes the records of ``captum.attr.visualization.visualize_text``: one per example.

    Words are coloured by relevance over its largest magnitude, the score is the sum of relevance,
    and the convergence score is minus the residual, both in logits.  ``true`` are the true classes.
    Raises ValueError for other models than classifiers of whole texts, and for sums of classes.
    """
    if facts_of(model).head != CLASSES or model.config.num_labels == 1 or "input_ids" not in inputs:
        raise ValueError(f"{type(model).__name__}: pass a classifier of whole texts")
    if found.target.ndim != 1:
        raise ValueError("the explanation is of a sum; pass that of one class of each text")
    with torch.no_grad():
        logits = model(**_move(model, inputs)).logits
    several = getattr(model.config, "problem_type", None) == "multi_label_classification"
    probability, predicted = (logits.sigmoid() if several else logits.softmax(dim=1)).max(dim=1)
    labels: Any = model.config.id2label
    name: Callable[[Tensor], Any] = lambda label: labels.get(int(label), label)
    ids, made = inputs["input_ids"], []
    for n, present in enumerate(inputs.get("attention_mask", torch.ones_like(ids)) == 1):
        relevance = found.relevance[n][present]
        largest = relevance.abs().max().clamp(min=torch.finfo(relevance.dtype).tiny)
        made.append(
            visualization.VisualizationDataRecord(
                word_attributions=relevance / largest,
                pred_prob=probability[n].item(),
                pred_class=name(predicted[n]),
                true_class=true[n] if len(true) else "",
                attr_class=name(found.target[n]),
                attr_score=relevance.sum().item(),
                raw_input_ids=tokenizer.convert_ids_to_tokens(ids[n][present].tolist()),
                convergence_score=-found.residual[n].item(),
            )
        )
    return made


def target_of(target: Any) -> Any:
    """Converts a target of Captum to one of ``lrp_axioms.attribute``."""
    if isinstance(target, Tensor) and target.numel() == 1:
        return int(target)
    if isinstance(target, tuple):
        return _at(*target)
    if isinstance(target, list) and target and isinstance(target[0], tuple):
        return _at(*zip(*target, strict=True))
    return target


def _at(*indices: Any) -> Target:
    if len(indices) != 2:
        raise ValueError(f"target has {len(indices)} indices; pass (column, label)")
    column, label = indices
    return logit(label, at=column)


def _move(model: PreTrainedModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """Moves tensors to the device of the model, as ``attribute`` does."""
    return {k: x.to(model.device) if isinstance(x, Tensor) else x for k, x in given.items()}


def _name_arguments(
    model: PreTrainedModel, inputs: Tensor | tuple[Tensor, ...], additional: Any
) -> dict[str, Any]:
    """Names arguments by position as ``model.forward`` does; None is left out."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    if len(given) != 1:
        raise ValueError(
            f"inputs has {len(given)} tensors; pass the ids or pixels alone, and all else, such as "
            "the attention mask, in additional_forward_args"
        )
    additional = () if additional is None else additional
    given += additional if isinstance(additional, tuple) else (additional,)
    named = signature(model.forward).bind_partial(*given).arguments
    return {name: value for name, value in named.items() if value is not None}
