"""Registers rules as attribution methods of inseq, when imported: "attnlrp" and "cp-lrp"."""

from typing import Any

from torch import Tensor

from lrp_axioms.numeric.tools import require
from lrp_axioms.numeric.tools.external_model import ExternalModel

with require("inseq"):
    from inseq.attr.attribution_decorators import set_hook
    from inseq.attr.feat import FeatureAttribution
    from inseq.data import FeatureAttributionStepOutput
    from inseq.utils import Registry


class _RuledAttribution(FeatureAttribution, Registry):
    """LRP of any function that inseq attributes, at the sum of word and position embeddings.

    The rules hold for the one forward pass of a step alone: other passes of it, such as passes for
    contrasts and step scores, are the model's own.
    """

    def __init__(self, attribution_model: Any, *, epsilon: float = 0.0, **kwargs: Any) -> None:
        self.epsilon = epsilon
        super().__init__(attribution_model, **kwargs)

    @set_hook
    def hook(self, **kwargs: Any) -> None:
        super().hook(**kwargs)
        model = self.attribution_model.model
        self.ruled = ExternalModel(model, self.method_name, epsilon=self.epsilon)

    def attribute_step(
        self, attribute_fn_main_args: dict[str, Any], attribution_args: object = None
    ) -> FeatureAttributionStepOutput:
        """Returns relevance of source and text written so far, (batch, token), 0 at padding."""
        whole: Any = self.attribution_model
        masks: list[Tensor] = []

        def under_rules(batch: Any, **_: object) -> Any:
            del whole.get_forward_output  # the object's own; its class's is back
            inputs, found = _inputs(batch, encoder_decoder=whole.is_encoder_decoder)
            masks.extend(found)
            return self.ruled(**inputs)

        whole.get_forward_output = under_rules
        try:
            arguments = attribute_fn_main_args["additional_forward_args"]
            number = whole(*attribute_fn_main_args["inputs"], *arguments)
        finally:
            vars(whole).pop("get_forward_output", None)
        found = self.ruled.relevance(number)
        found = [x * mask for x, mask in zip(found, masks, strict=True)]
        if not whole.is_encoder_decoder:
            return FeatureAttributionStepOutput(target_attributions=found[0], step_scores={})
        written = found[1] if len(attribute_fn_main_args["inputs"]) > 1 else None
        return FeatureAttributionStepOutput(
            source_attributions=found[0], target_attributions=written, step_scores={}
        )


class AttnLRP(_RuledAttribution):
    method_name = "attnlrp"


class CPLRP(_RuledAttribution):
    method_name = "cp-lrp"


def _inputs(batch: Any, *, encoder_decoder: bool) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Returns the model's arguments for ids, and the masks of its lookups in their order."""
    if not encoder_decoder:
        ids = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        return ids, [batch.attention_mask]
    ids = {
        "input_ids": batch.source_ids,
        "attention_mask": batch.source_mask,
        "decoder_input_ids": batch.target_ids,
        "decoder_attention_mask": batch.target_mask,
    }
    return ids, [batch.source_mask, batch.target_mask]
