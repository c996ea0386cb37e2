"""Finds the place of a function call in a model: module, layer, and line of code."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType

from torch import nn

from lrp_axioms.axioms.composites import Composite, Operation

OURS = str(Path(__file__).parents[1])
LAYER = re.compile(r"(?:^|\.)(?:\w*layers?|h|blocks?)\.(\d+)(?=\.|$)")


class Places:
    """Finds the module whose code is running, from the calls that lead there.

    The model needs no hooks for that.  One look takes some microseconds, so that it is taken only
    on demand.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.paths: dict[int, list[str]] = {}
        self.around = 0

    def _frames(self) -> Iterator[FrameType]:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            yield frame
            frame = frame.f_back

    def _running(self) -> Iterator[nn.Module]:
        """Yields modules whose code is running, of this model or not, the innermost first."""
        for frame in self._frames():
            found = frame.f_locals.get("self")
            if isinstance(found, nn.Module):
                yield found

    def _at(self, module: nn.Module) -> list[str]:
        """Returns all paths of a module, several if the model shares it; none for others."""
        if not self.paths:
            for path, each in self.model.named_modules(remove_duplicate=False):
                self.paths.setdefault(id(each), []).append(path)
        return self.paths.get(id(module), [])

    def module(self) -> tuple[list[str], nn.Module]:
        """Returns the innermost module of the model that is running, and its paths."""
        for found in self._running():
            if paths := self._at(found):
                return paths, found
        return [""], self.model

    def call_of(self, module: nn.Module) -> FrameType | None:
        """Returns the outermost running call of ``module``."""
        found = [frame for frame in self._frames() if frame.f_locals.get("self") is module]
        return found[-1] if found else None

    def inside(self) -> bool:
        """Decides whether the innermost module that is running is one of this model."""
        found = next(self._running(), None)
        return found is not None and bool(self._at(found))

    def operations(self, kind: str) -> Sequence[Operation]:
        """Returns the running operation, once for each path of its module."""
        paths, _ = self.module()
        return [Operation(kind=kind, module=path, layer=layer_of(path)) for path in paths]

    def begin(self) -> None:
        """Counts the modules that run already; they are outside of the block that begins here."""
        self.around = sum(1 for _ in self._running())

    def in_another_run(self) -> bool:
        """Decides whether a hook has called a model in the middle of a run of this one."""
        running = list(self._running())
        inside = [x for x, _ in groupby(running[: len(running) - self.around])]
        if self.model not in inside:
            return False
        outermost = len(inside) - inside[::-1].index(self.model) - 1
        if self.model in inside[:outermost]:
            return True
        calls = pairwise(inside[: outermost + 1])  # mostly of a child, which needs no search
        return not all(x in outer._modules.values() or self._at(x) for x, outer in calls)

    def describe(self) -> str:
        """Names the path of the module, file and line of the model's code."""
        (path, *_), _ = self.module()
        return f"{path or '(root)'} ({self.line()})"

    def line(self) -> str:
        """Names the file and line of the model's code."""
        own = (f for f in self._frames() if not _is_ours(f.f_code.co_filename))
        frame = next(own, None)
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"


def layer_of(path: str) -> int | None:
    """Returns the number of the layer that a module is in, from 0; None outside of the layers."""
    found = LAYER.search(path)
    return int(found[1]) if found else None


def check_overrides(composite: Composite, operations: Iterable[Operation]) -> None:
    """Raises ValueError for layers and modules of ``composite`` without an operation.

    And for a module without an operation of any kind in its table, and for a layer if no layer has
    one: a layer of another sort than its neighbours may lack them.
    """
    layers: dict[int, set[str]] = {}
    found: dict[str, set[str]] = {}
    for op in operations:
        found.setdefault(op.module, set()).add(op.kind)
        if op.layer is not None:
            layers.setdefault(op.layer, set()).add(op.kind)
    unknown = [f"layer {layer}" for layer in composite.layers if layer not in layers]
    everywhere = set[str]().union(*layers.values())
    unknown += [
        f"{' and '.join(table)} in layer {n}"
        for n, table in composite.layers.items()
        if table and n in layers and everywhere.isdisjoint(table)
    ]
    unknown += [f"module {path!r}" for path in composite.modules if path not in found]
    unknown += [
        f"{' and '.join(table)} of module {path!r}"
        for path, table in composite.modules.items()
        if table and found.get(path, set(table)).isdisjoint(table)
    ]
    if unknown:
        raise ValueError(
            f"composite {composite.name!r} overrides {', '.join(unknown)}, which the model does "
            "not have; "
            + (f"its layers are 0 to {max(layers)}" if layers else "its layers have no numbers")
        )


def numbered_layers(model: nn.Module) -> list[str]:
    """Lists paths of numbered layers, without layers within layers; ValueError for none."""
    lists = (nn.ModuleList, nn.ModuleDict)
    known = [path for path, module in model.named_modules() if not isinstance(module, lists)]
    found = [path for path in known if (x := LAYER.search(path)) and x.end() == len(path)]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no layers with numbers; call attribute() in Python, with "
            "the paths of its modules as `at`"
        )
    return found


def _is_ours(file: str) -> bool:
    return "/torch/" in file or file.startswith(OURS)
