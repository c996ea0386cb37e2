"""Keeps finished rows of a generation in a folder, so that a call that was killed can go on."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.writing import remove_drafts, write_atomically
from lrp_axioms.numeric.models import digests
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.targets import Target

CALL = "call.json"
LONG = 80  # letters of two values, such as digests
TOGETHER = 8  # rows that share a forward pass
PLAIN = (str, int, float, bool, type(None), Composite, Tensor)
Rows = Callable[[Sequence[Target]], list[Attribution]]
Each = Callable[[int, Attribution], object]


class Kept:
    """A folder of one call: its description, the written text, and a file for every row.

    Raises ValueError for a folder of another call, naming each difference, and for a folder with
    other files.  Deletes nothing but drafts of its own that a killed call left.
    """

    def __init__(self, folder: str | PathLike[str], call: Mapping[str, Any]):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_drafts(self.folder)
        self.call, self.file = dict(call), self.folder / CALL
        self.text: list[list[int]] | None = None
        if self.file.exists():
            self.text = self._read()
        elif other := sorted(x.name for x in self.folder.iterdir()):
            raise ValueError(
                f"{self.folder} holds {other[0]!r} and no {CALL}: pass a new or an empty folder"
            )

    def _read(self) -> Any:
        try:
            found = json.loads(self.file.read_bytes())
            call, text = found["call"], found["text"]
            ids = [x for part in text for x in part]
            if not isinstance(call, dict) or len(text) != 2 or {*map(type, ids)} - {int}:
                raise ValueError("it has no call, or its text is no ids")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.file} was changed ({error}): pass another folder") from error
        names = [x for x in {**self.call, **call} if call.get(x) != self.call.get(x)]
        if names:
            pairs = [(x, str(self.call.get(x)), str(call.get(x))) for x in names]
            said = [
                f"{x} is {new}, and was {old}" if len(new + old) < LONG else f"{x} changed"
                for x, new, old in pairs
            ]
            raise ValueError(
                f"{self.folder} keeps another call: {'; '.join(said)}. Pass another folder, or "
                "make the call that it keeps"
            )
        return text

    def answer(self, find: Callable[[], tuple[list[int], list[int]]]) -> list[list[int]]:
        """Returns ids before an answer and ids of the answer, kept ones or else by ``find``."""
        if self.text is None:
            self.text = [*find()]
            held = json.dumps({"call": self.call, "text": self.text}).encode()
            write_atomically(self.file, held, new=True)
        return self.text

    def row(self, number: int) -> Path:
        return self.folder / f"row-{number:06}.safetensors"

    def rows(self, count: int) -> list[Attribution]:
        """Reads the first rows, as many as are complete."""
        paths = [self.row(n) for n in range(count)]
        known = next((n for n, path in enumerate(paths) if not path.exists()), count)
        return [Attribution.load(path) for path in paths[:known]]


def explain_rows(
    explain: Rows, targets: Sequence[Target], kept: Kept | None, each: Each | None
) -> list[Attribution]:
    """Explains targets in groups, keeps each row and tells it, and reads rows that are kept.

    Raises ValueError if a kept row of the last group is not found again, bit for bit.
    """
    known = kept.rows(len(targets)) if kept else []
    tell = each or (lambda _number, _row: None)
    for number, row in enumerate(known):
        tell(number, row)
    found = known[: max(0, len(known) - 1) // TOGETHER * TOGETHER]
    while len(found) < len(targets):
        # A logit's last bit depends on the rows that are read with it, so groups stay as they were.
        for row in explain(targets[len(found) : len(found) + TOGETHER]):
            number = len(found)
            if number < len(known):
                _check_same(kept, number, known[number], row)
            else:
                if kept:
                    row.save(kept.row(number))
                tell(number, row)
            found.append(row)
    return found


def _check_same(kept: Kept | None, number: int, x: Attribution, y: Attribution) -> None:
    pairs = [(getattr(x, name), getattr(y, name)) for name in ("relevance", "logit", "residual")]
    if kept and not all(a.dtype == b.dtype and torch.equal(a.cpu(), b.cpu()) for a, b in pairs):
        raise ValueError(
            f"{kept.row(number)} is not the row that this call finds: the model's code, a hook, or "
            "the machine differs; pass another folder"
        )


def call_of(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Mapping[str, Tensor],
    how: Mapping[str, Any],
) -> dict[str, Any]:
    """Describes a call as plain data: digests of model and inputs, options, and versions.

    Raises ValueError for options that another process could not compare.
    """
    wrong = [f"{name}={x!r}" for name, x in how.items() if not _is_plain(x)]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: cannot be compared with a later call; leave `keep` out, or pass "
            "numbers, texts or tensors"
        )
    packages = {name: version(name) for name in ("lrp-axioms", "torch", "transformers")}
    return packages | {
        "model": type(model).__name__,
        "weights": digests.of_model(model),
        "config": digests.of_config(model.config),
        "tokenizer": digests.of_tokenizer(tokenizer),
        "dtype": str(model.dtype),
        "device": model.device.type,
        **{name: _told(x) for name, x in inputs.items()},
        **{name: _told(x) for name, x in how.items()},
    }


def _is_plain(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return all(map(_is_plain, x))
    if isinstance(x, Mapping):
        return all(map(_is_plain, x.values()))
    return isinstance(x, PLAIN)


def _told(x: Any) -> str:
    if isinstance(x, Tensor):
        values = x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        return f"{x.dtype} {tuple(x.shape)} {hashlib.sha256(values).hexdigest()}"
    if isinstance(x, list | tuple):
        return f"[{', '.join(map(_told, x))}]"
    if isinstance(x, Mapping):
        return f"{{{', '.join(f'{key!r}: {_told(y)}' for key, y in sorted(x.items()))}}}"
    return repr(x)
