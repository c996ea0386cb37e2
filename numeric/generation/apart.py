"""Rows of written tokens that are explained by the text before each alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from lrp_axioms.numeric.generation.contrasts import Explain
from lrp_axioms.numeric.generation.kept import Rows
from lrp_axioms.numeric.models.batches import DECODER
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.targets import Target

TEXTS = ("input_ids", DECODER)  # side by side


def of_columns(option: Any, inputs: Mapping[str, Tensor]) -> Any:
    """Cuts an option that has a value for each token, (1, token), to the tokens of ``inputs``."""
    if isinstance(option, Tensor) and option.ndim == 2:
        return option[:, : sum(inputs[key].shape[1] for key in TEXTS if key in inputs)]
    if isinstance(option, list | tuple):
        return [of_columns(x, inputs) for x in option]
    return option


def each_alone(explain: Explain, written: Sequence[int], targets: Sequence[Target]) -> Rows:
    """Returns a function that explains targets by the text before each, with 0 at later tokens."""
    places = {id(target): n for n, target in enumerate(targets, start=1)}

    def rows(few: Sequence[Target]) -> list[Attribution]:
        found = []
        for target in few:
            count = places[id(target)]
            (row,) = explain(written[:count], [target])
            behind, shape = (0, len(written) - count), row.relevance.shape
            more = {key: pad(x, behind) for key, x in row.details.items() if x.shape == shape}
            wide = pad(row.relevance, behind)
            found.append(replace(row, relevance=wide, details={**row.details, **more}))
        return found

    return rows
