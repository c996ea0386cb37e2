"""Scans of state space models in the code of Transformers, and what they select by.

h_t = A_t h_(t-1) + B_t x_t and y_t = C_t h_t, with A_t, B_t and C_t chosen by the tokens.  This
recurrence is a function of its own there, whose arguments have names.
"""

import sys
from types import FrameType

from torch import nn

SELECTS: dict[str, tuple[str, ...]] = {
    "mamba_selective_scan": ("dt", "B", "C"),
    "mamba2_chunk_scan": ("dt", "B", "C"),
}
"""By function: the arguments that choose what its recurrence keeps, takes in and reads out."""
OWNER = "transformers.models."
BETWEEN = ("torch.", "numeric.")
"""Whose code may stand between a torch function and the code of the model that calls it."""


def scans(model: nn.Module) -> bool:
    """Whether a module's own file has a scan; to ask who calls a function takes time."""
    files = {type(module).__module__ for module in model.modules()}
    return any(hasattr(sys.modules.get(file), name) for file in files for name in SELECTS)


def selecting() -> set[int]:
    """The identities of what the scan selects by that calls a torch function now, if one does."""
    scan = _scan()
    return {id(scan.f_locals[name]) for name in SELECTS[scan.f_code.co_name]} if scan else set()


def _scan() -> FrameType | None:
    """The scan whose code calls a torch function, by itself or in a function of its own."""
    near, frame = 0, sys._getframe(1)
    while frame.f_back is not None and near < 2:
        frame = frame.f_back
        owner = frame.f_globals.get("__name__", "")
        if owner.startswith(BETWEEN):
            continue
        if frame.f_code.co_name in SELECTS and owner.startswith(OWNER):
            return frame
        near += 1
    return None
