"""Models that are explained at named tensors: dual encoders, sounds, and modules of one's own.

``python -m tests.census.named`` writes their part of docs/MODELS.md.
"""

import re
from collections.abc import Callable, Iterable
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from numeric import attribute, audit
from tests.census.build import CLASSES, NAMED, SOUNDS, architectures, build, inputs
from tests.census.measure import COLUMNS as MEASURED
from tests.census.measure import Found, conditions, reason, without_shifts
from tests.census.page import cell, line, misses, refusals, table
from tests.census.sizes import SIZE
from tests.support.cases import first
from tests.support.own_modules import MODULES, make, read

PAGE = Path(__file__).resolve().parents[2] / "docs" / "MODELS.md"
OWN = "modules of one's own"
KINDS = (*NAMED, OWN)
TITLE = "## At named tensors\n"
HEAD = f"""\
{TITLE}
`python -m tests.census.named` makes this part. These models are explained by `of=` and `read=`: two
images and two texts at the embeddings of both encoders, for the logit of each pair; two sounds at
their samples or features, for the second class; and modules that are no models of Transformers, in
the shape of well-known ones. **explained**, **conserves** and **audited** are as above. Named
tensors have no tokens and patches to leave out.
"""
EMBEDDINGS = re.compile(r"(text_model|vision_model)(\.\w+)?\.embeddings")


class Case(NamedTuple):
    """A model with its inputs, the names of the explained tensors, and its readout."""

    model: nn.Module
    batch: dict[str, Tensor]
    of: list[str]
    read: Callable[..., Tensor]


def names(kind: str) -> list[str]:
    return list(MODULES) if kind == OWN else architectures(kind)


def case(name: str, kind: str) -> Case:
    """Makes a small random model in float64, with inputs of two examples."""
    if kind == OWN:
        cls, given, of = MODULES[name]
        model = make(cls).double()
        first = next(iter(signature(model.forward).parameters))
        batch = given if isinstance(given, dict) else {first: given}
        wide = lambda x: x.double() if x.is_floating_point() else x
        return Case(model, tree_map(wide, batch), of, read)
    model = build(name, kind)
    return _with_sounds(model) if kind == SOUNDS else _with_pairs(model)


def _with_pairs(model: nn.Module) -> Case:
    takes = signature(model.forward).parameters
    texts = {key: x for key, x in inputs(model, CLASSES).items() if key in takes}
    size = getattr(getattr(model.config, "vision_config", model.config), "image_size", SIZE)
    images = _drawn(2, 3, size, size)
    of = [path for path, _ in model.named_modules() if EMBEDDINGS.fullmatch(path)]
    return Case(model, texts | {"pixel_values": images}, of, _pairs)


def _pairs(output) -> Tensor:
    return output.logits_per_image.diagonal()


def _with_sounds(model: nn.Module) -> Case:
    config, name = model.config, model.main_input_name
    fields = ("num_mel_bins", "feature_projection_input_dim")
    bands = next((getattr(config, x) for x in fields if hasattr(config, x)), 0)
    shapes = {
        "audio-spectrogram-transformer": (getattr(config, "max_length", 0), bands),
        "wav2vec2-bert": (40, bands),
        "whisper": (bands, 2 * getattr(config, "max_source_positions", 0)),
    }
    sounds = _drawn(2, *shapes.get(config.model_type, (4000,)))
    return Case(model, {name: sounds}, [name], lambda output: output.logits[:, 1])


def _drawn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def explained(found: Case) -> float:
    """0 if AttnLRP gives finite relevance that is not all 0, else 1."""
    a = attribute(found.model, found.batch, "attnlrp", of=found.of, read=found.read)
    return float(not (a.relevance.isfinite().all() and a.relevance.any()))


def conserved(found: Case) -> float:
    """The part of the number that CP-LRP loses when nothing is added anywhere."""
    with without_shifts(found.model):
        a = attribute(found.model, found.batch, "cp-lrp", of=found.of, read=found.read)
    return (a.residual / a.logit).abs().max().item()


def keeps(found: Case) -> str:
    """The causes of CP-LRP's loss when nothing is added."""
    with without_shifts(found.model):
        a = audit(found.model, first(found.batch), "cp-lrp", of=found.of, read=found.read)
    least = MEASURED["conserves"][1] * abs(a.logit)
    return ", ".join(cause for cause, amount in a.by_cause().items() if abs(amount) > least)


def audited(found: Case) -> float:
    """How far rules are from NumPy's on the recorded operations, or causes from the residual."""
    errors = []
    for method in ("attnlrp", "cp-lrp"):
        a = attribute(found.model, first(found.batch), method, of=found.of, read=found.read)
        b = audit(found.model, first(found.batch), method, of=found.of, read=found.read)
        gap = (torch.from_numpy(b.relevance) - a.relevance[0]).abs().max()
        errors.append((gap / a.relevance.abs().max()).item())
        errors.append(abs(sum(b.by_cause().values()) - b.residual) / abs(b.logit))
    return max(errors)


COLUMNS = {"explained": explained, "conserves": conserved, "audited": audited}


def measure(item: tuple[str, str]) -> Found:
    """The columns of one model; errors of its own code become reasons."""
    name, kind = item
    try:
        with conditions():
            found = case(name, kind)
            with torch.no_grad():
                found.read(found.model(**found.batch))
    except Exception as error:
        return Found(name, kind, refusal=reason(error))
    errors = {}
    for column, of in COLUMNS.items():
        try:
            with conditions():
                errors[column] = of(found)
        except Exception as error:
            errors[column] = reason(error)
    lost = errors["conserves"]
    if isinstance(lost, str) or lost <= MEASURED["conserves"][1]:
        return Found(name, kind, errors=errors)
    with conditions():
        return Found(name, kind, errors=errors, keeps=keeps(found))


def row(found: Found) -> str:
    cells = [cell(column, found.errors.get(column, "")) for column in COLUMNS]
    return line([f"`{found.architecture}`", *cells, "; ".join([*misses(found), *refusals(found)])])


def section(found: Iterable[Found]) -> str:
    """The part of the page, with a table for each kind."""
    parts, found = [HEAD], list(found)
    for kind in KINDS:
        rows = [row(x) for x in sorted(found, key=lambda x: x.architecture) if x.task == kind]
        parts += [f"### {kind[0].upper()}{kind[1:]}", ""]
        parts += table(["model", *COLUMNS, "what stands in the way"], rows)
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Measures all of them, and writes their part of the page."""
    found = [measure((name, kind)) for kind in KINDS for name in names(kind)]
    before = PAGE.read_text("utf-8").partition(TITLE)[0].rstrip()
    PAGE.write_text(f"{before}\n\n{section(found)}", encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
