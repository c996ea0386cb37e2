"""Rows of written tokens that are explained by the text before each alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.generation.contrasts import Explain
from lrp_axioms.numeric.generation.kept import Rows
from lrp_axioms.numeric.methods.options import builtin, resolve
from lrp_axioms.numeric.models.batches import DECODER
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.targets import Target

LOST = ("at", "channels", "heads", "positions")
"""Options whose tensors are in the details of every row."""
TEXTS = ("input_ids", DECODER)  # side by side


def checked_options(
    method: str | Composite, options: Mapping[str, Any], *, told: bool
) -> dict[str, Any]:
    """Returns the options with plain numbers; raises ValueError for tensors that would be lost.

    A Generation has only sums of relevance.  told: whether each row is handed on with its details
    """
    resolve(method, options)
    if lost := [key for key in LOST if options.get(key) and not told]:
        raise ValueError(
            f"{', '.join(lost)}: a Generation has no place for it; pass `each` or `keep`, which "
            "get every row, or call attribute"
        )
    return {key: builtin(x) for key, x in options.items()}


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
