"""Scans of state space models in the code of Transformers, and the arguments they select by.

h_t = A_t h_(t-1) + B_t x_t and y_t = C_t h_t, with A_t, B_t and C_t chosen by the tokens.  This
recurrence is a function of its own there, whose arguments have names.  A_t is diagonal in Mamba,
RWKV and xLSTM, and a_t (1 - b_t k_t k_t') by the delta rule, where keys k_t and queries select.
"""

import sys
from collections.abc import Sequence
from types import FrameType

from torch import nn

from lrp_axioms.numeric.models.facts import modules_of

STEPS = "dt", "B", "C"
DELTA_RULE = "query", "key", "g", "beta"
SELECTS: dict[str, tuple[str, ...]] = {
    "mamba_selective_scan": STEPS,
    "mamba2_chunk_scan": STEPS,
    "torch_chunk_gated_delta_rule": DELTA_RULE,
    "chunk_kimi_delta_attention": DELTA_RULE,
    "rwkv_linear_attention_cpu": ("key",),
    "wrap_chunkwise_arbitrary_sequence_length": ("query", "key", "igate", "fgate"),  # xLSTM's
}
"""By function: the arguments that its recurrence selects by: to keep, take in and read out."""
OWNER = "transformers.models."
BETWEEN = ("torch.", "lrp_axioms.")
"""Code that may stand between a torch function and the model's code that calls it."""


def scans(model: nn.Module) -> bool:
    """Decides whether a module's file has a scan; a look at the calling code would be slow."""
    files = {type(module).__module__ for _, module in modules_of(model)}
    return any(hasattr(sys.modules.get(x), name) for x in files for name in SELECTS)


def selector_ids() -> set[int]:
    """Returns identities of the tensors that a scan selects by, if one calls torch now."""
    near, frame = 0, sys._getframe(1)
    while frame.f_back is not None and near < 2:  # a scan, or a function of its own
        frame = frame.f_back
        owner, code = frame.f_globals.get("__name__", ""), frame.f_code
        if owner.startswith(BETWEEN):
            continue
        if code.co_name in SELECTS and owner.startswith(OWNER):
            return _argument_ids(frame, SELECTS[code.co_name])
        near += 1
    return set()


def _argument_ids(scan: FrameType, names: Sequence[str]) -> set[int]:
    """Returns identities; none if the scan names its arguments otherwise: refused later."""
    if not {*names} <= {*scan.f_code.co_varnames}:
        return set()
    found = scan.f_locals
    return {id(found[name]) for name in names if name in found}
