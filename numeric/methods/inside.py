"""Reads relevance at the outputs of a model's modules, from its one backward pass."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from lrp_axioms.numeric.engine.marks import PRODUCT, Chain, Cut, carries, mark, marked
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.models.patches import is_of_transformers, twin

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Inside:
    """The outputs of the modules at some paths, call by call, as the model uses them.

    model: runs in place of ``model``: itself, or a twin of it with hooks if paths are given
    calls: path and tensor in the order of the modules' returns; None for a tensor without
        relevance
    """

    def __init__(self, model: "PreTrainedModel", at: str | Iterable[str] | None) -> None:
        self.paths = [] if at is None else paths(model, at)
        self.model = twin(model) if self.paths else model
        self.calls: list[tuple[str, Tensor | None]] = []
        self.problems: dict[str, str] = {}
        for path in self.paths:
            module = self.model.get_submodule(path)
            kept = [n for n, hook in module._forward_hooks.items() if is_of_transformers(hook)]
            module.register_forward_hook(partial(self._look, path))
            for number in kept:  # these keep for later the tensor that is looked at here
                module._forward_hooks.move_to_end(number)  # type: ignore[attr-defined]  # an OrderedDict

    def _look(self, path: str, _module: nn.Module, _arguments: Any, output: Any) -> Any:
        parts, form = tree_flatten(output)
        x = next((x for x in parts if isinstance(x, Tensor)), None)
        if not carries(x):
            self.calls.append((path, None))
            return output
        # A view is a use, so that waiting rules are settled.  The second copy keeps the first one
        # apart from in-place writes, and both from other uses of the module's inputs.
        seen = x.view(x.shape).clone()
        self.calls.append((path, seen))
        parts = [self._cut(path, seen.clone(), x) if part is x else part for part in parts]
        return tree_unflatten(parts, form)

    def _cut(self, path: str, copy: Tensor, x: Tensor) -> Tensor:
        reason = "returns a step of a function whose rule is for the whole"
        met = partial(self.problems.setdefault, path, reason)
        what = mark(x)
        is_function = type(what) is Chain and x._version == what.made
        return marked(copy, Cut(what, met)) if is_function else copy

    def tensors(self) -> list[Tensor]:
        return [x for _, x in self.calls if x is not None]

    def relevance(
        self, cotangents: Iterator[Tensor | None], *, channels: bool, image: Sequence[int] | None
    ) -> dict[str, Tensor]:
        """Returns relevance by path, or by path#0, path#1, ... for a module with several calls.

        ``cotangents`` belong to ``tensors()``, None where the logit does not depend on one.  Summed
        over the last axis, or the channel axis of maps of an ``image`` of this height and width,
        unless ``channels``.  Raises ValueError that lists all modules without relevance.
        """
        found: list[tuple[str, Tensor | None]] = []
        problems = self.problems
        for path, x in self.calls:
            c = None if x is None else next(cotangents)
            if mark(x) == PRODUCT:
                problems[path] = "returns a product of two activations, which its user splits"
            elif x is not None and c is not None:
                r = wide(x.detach()) * c
                found.append((path, r if channels else r.sum(dim=_channels(r.shape, image))))
                if not r.isfinite().all():
                    problems[path] = "has relevance that is not finite"
            else:
                found.append((path, None))
        called, reached = dict(self.calls), {path for path, r in found if r is not None}
        for path in self.paths:
            if path not in called:
                problems[path] = "is not called in this forward pass"
            elif path not in reached:
                problems.setdefault(path, "returns nothing that relevance reaches by these rules")
        if problems:
            listed = "".join(f"\n  {path or '(root)'} {what}" for path, what in problems.items())
            raise ValueError(f"no relevance can be read at these modules:{listed}\nleave them out")
        return _number_calls(found)


def _channels(shape: Sequence[int], image: Sequence[int] | None) -> int:
    """Finds the axis of channels: in an image's map (batch, channel, height, width) it is the first
    after the batch, unless only the two axes after the batch have the image's proportions."""
    if image is None or len(shape) != 4:
        return -1
    height, width = image
    as_image: Callable[[int, int], bool] = lambda rows, columns: rows * width == columns * height
    return -1 if as_image(*shape[1:3]) and not as_image(*shape[2:]) else 1


def paths(model: nn.Module, at: str | Iterable[str]) -> list[str]:
    """Returns paths of ``model.named_modules()`` matched by ``at``; ``*`` is any one name.

    Raises ValueError that lists all names without a module, each with names spelled alike.
    """
    asked = [at] if isinstance(at, str | Tensor) or not isinstance(at, Iterable) else list(at)
    known = [path for path, _ in model.named_modules(remove_duplicate=False)]
    numbered = re.compile(r"\b\d+\b")
    alike = {numbered.sub("*", path): None for path in known}  # whole stacks of layers
    found: dict[str, None] = {}
    problems = [] if asked else ["at=[] names no module"]
    for each in asked:
        matching = [path for path in known if _matches(path, str(each))]
        if not matching or not isinstance(each, str):
            spelled = alike if "*" in str(each) else known
            near = " or ".join(map(repr, difflib.get_close_matches(str(each), spelled)))
            meant = f"; did you mean {near}?" if near else ""
            problems.append(f"at={each!r} is no module of {type(model).__name__}{meant}")
        found |= dict.fromkeys(matching)
    if problems:
        problems.append("pass paths of model.named_modules(), in which * stands for any one name")
        raise ValueError("\n".join(problems))
    return list(found)


def _matches(path: str, pattern: str) -> bool:
    """Compares part by part, because a regular expression may backtrack for ever."""
    names, parts = path.split("."), pattern.replace("[", "[[]").replace("?", "[?]").split(".")
    return len(names) == len(parts) and all(map(fnmatchcase, names, parts))


def _number_calls(found: Sequence[tuple[str, Tensor | None]]) -> dict[str, Tensor]:
    """Names the relevance of each call; calls without relevance count, too."""
    calls = Counter(path for path, _ in found)
    seen: Counter[str] = Counter()
    numbered = {}
    for path, r in found:
        if r is not None:
            numbered[path if calls[path] == 1 else f"{path}#{seen[path]}"] = r
        seen[path] += 1
    return numbered
