"""Where in a model a function is called: the module, its layer, and the line of its code."""

import re
import sys

from torch import nn

from axioms.composites import Operation

LAYER = re.compile(r"(?:^|\.)(?:\w*layers?|h|blocks?)\.(\d+)(?=\.|$)")


class Places:
    """Finds the module whose code is running, from the calls that lead there.

    The model needs no hooks for that.  One look takes some microseconds, so that it is taken only
    where somebody asks.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.paths: dict[int, str] = {}

    def _frames(self):
        frame = sys._getframe(2)
        while frame is not None:
            yield frame
            frame = frame.f_back

    def module(self) -> tuple[str, nn.Module]:
        """The innermost module of the model that is running, and its path."""
        if not self.paths:
            self.paths = {id(module): path for path, module in self.model.named_modules()}
        for frame in self._frames():
            found = frame.f_locals.get("self")
            if isinstance(found, nn.Module) and id(found) in self.paths:
                return self.paths[id(found)], found
        return "", self.model

    def operation(self, kind: str) -> Operation:
        path, _ = self.module()
        return Operation(kind=kind, module=path, layer=layer_of(path))

    def describe(self) -> str:
        """Path of the module, file and line of the model's code, in words."""
        path, _ = self.module()
        own = (f for f in self._frames() if not _is_ours(f.f_code.co_filename))
        frame = next(own, None)
        line = f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}" if frame else "?"
        return f"{path or '(root)'} ({line})"


def layer_of(path: str) -> int | None:
    """The number of the layer that a module is in, from 0; None outside of the layers."""
    found = LAYER.search(path)
    return found and int(found[1])


def _is_ours(file):
    return "/torch/" in file or "/numeric/fast/" in file
