"""State space models are explained by MambaLRP: the selection of a scan is held."""

from importlib import import_module
from inspect import signature
from types import FunctionType

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.models.mamba import modeling_mamba as stock

from axioms.composites import CP_LRP, MAMBA_LRP, UnassignedOperation
from numeric import attribute, audit
from numeric.engine.operations import SCAN as ROLE
from numeric.engine.operations import TABLE
from numeric.models import scans
from numeric.planning import plan
from tests.census.build import CAUSAL, with_inputs
from tests.census.measure import COLUMNS, measure
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import contains, refused

SCAN = "mamba_selective_scan"
EXACT = 1e-10  # of the largest relevance, in float64
pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture
def mamba():
    return with_inputs("mamba", CAUSAL)


# Jafari et al. (2024, Sec. 4): detached by hand, and then input times gradient


def ratio(x):
    """SiLU with its ratio y/x detached."""
    return x * torch.sigmoid(x).detach()


def half(a, b):
    """A gate with half of its gradient detached."""
    product = a * b
    return product / 2 + product.detach() / 2


def norm(module, x):
    square = x.square().mean(-1, keepdim=True)
    return module.weight * x * torch.rsqrt(square + module.variance_epsilon).detach()


def recurrence(v, dt, a, b, c):
    """y_t = C_t h_t of h_t = A_t h_(t-1) + B_t v_t: v and dt are (token, channel)."""
    h, found = torch.zeros_like(a), []
    for t in range(len(v)):
        h = torch.exp(dt[t, :, None] * a) * h + dt[t, :, None] * b[t] * v[t, :, None]
        found.append(h @ c[t])
    return torch.stack(found)


def mixed(mixer, x):
    inner, gate = mixer.in_proj(x).chunk(2, dim=-1)
    v = mixer.conv1d(inner.T)[:, : len(x)].T
    v = ratio(v)
    rank, states = mixer.time_step_rank, mixer.ssm_state_size
    dt, b, c = mixer.x_proj(v).split([rank, states, states], dim=-1)
    dt, a = functional.softplus(mixer.dt_proj(dt)), -torch.exp(mixer.A_log)
    y = recurrence(v, dt.detach(), a, b.detach(), c.detach()) + mixer.D * v
    return mixer.out_proj(half(y, ratio(gate)))


def by_hand(model, ids, label):
    """Relevance of the tokens of one text, and the logit."""
    words = model.backbone.embeddings(ids).detach().requires_grad_()
    x = words
    for block in model.backbone.layers:
        x = x + mixed(block.mixer, norm(block.norm, x))
    logit = model.lm_head(norm(model.backbone.norm_f, x))[-1, label]
    (gradient,) = torch.autograd.grad(logit, words)
    return (words * gradient).sum(-1).detach(), logit.detach()


def differs(model, batch, method="cp-lrp"):
    """How far the relevance of the first text, which has no padding, is from that by hand."""
    found = attribute(model, batch, method)
    want, logit = by_hand(model, batch["input_ids"][0], found.target[0])
    close(found.logit[0], logit)
    return ((found.relevance[0] - want).abs().max() / want.abs().max()).item()


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", MAMBA_LRP])
def test_relevance_is_input_times_the_gradient_of_the_detached_model(mamba, method):
    assert differs(*mamba, method) < EXACT


@pytest.mark.parametrize("free", ["B", "C"])
def test_it_is_another_one_if_what_selects_is_not_held(mamba, free, monkeypatch):
    monkeypatch.setitem(scans.SELECTS, SCAN, tuple({"dt", "B", "C"} - {free}))
    assert differs(*mamba) > 1e-3


def test_without_the_step_size_held_the_decay_is_refused_by_name(mamba, monkeypatch):
    monkeypatch.setitem(scans.SELECTS, SCAN, ("B", "C"))
    said = refused(UnassignedOperation, *mamba, "cp-lrp")
    contains(said, "exp, outside of a softmax", "layers.1.mixer")


def test_a_scan_that_is_not_of_transformers_is_refused_by_name(mamba, monkeypatch):
    scan = getattr(stock, SCAN).__wrapped__
    other = FunctionType(scan.__code__, {**vars(stock), "__name__": "elsewhere"}, SCAN)
    other.__kwdefaults__, other.__defaults__ = scan.__kwdefaults__, scan.__defaults__
    monkeypatch.setattr(stock, SCAN, other)
    contains(refused(UnassignedOperation, *mamba, "cp-lrp"), "exp, outside of a softmax")


def test_a_scan_that_calls_its_arguments_otherwise_is_refused_by_name(mamba, monkeypatch):
    monkeypatch.setitem(scans.SELECTS, SCAN, ("step", "B", "C"))
    contains(refused(UnassignedOperation, *mamba, "cp-lrp"), "exp, outside of a softmax")


class Kernel(torch.autograd.Function):
    """Stands for a kernel, whose code torch does not show."""

    @staticmethod
    def forward(ctx, x, dt, a, b, c):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None, None, None


def test_a_kernel_in_the_place_of_the_scan_is_refused_by_name(mamba, monkeypatch):
    monkeypatch.setattr(stock, SCAN, lambda *given, **options: Kernel.apply(*given))
    mamba[0].config.use_cache = False
    contains(refused(UnassignedOperation, *mamba, "cp-lrp"), "KernelBackward", "does not show")


SCANS = {
    "mamba": SCAN,
    "mamba2": "mamba2_chunk_scan",
    "qwen3_next": "torch_chunk_gated_delta_rule",
    "kimi_linear": "chunk_kimi_delta_attention",
    "rwkv": "rwkv_linear_attention_cpu",
    "xlstm": "wrap_chunkwise_arbitrary_sequence_length",
}
"""An architecture with each scan."""


@pytest.mark.parametrize("name", SCANS)
def test_what_selects_is_held_as_if_the_model_detached_it(name, monkeypatch):
    found = attribute(*with_inputs(name, CAUSAL), "cp-lrp").relevance
    names = scans.SELECTS[SCANS[name]]
    module = import_module(f"transformers.models.{name}.modeling_{name}")
    scan = getattr(module, SCANS[name])

    def detached(*given, **options):
        every = signature(scan).bind(*given, **options)
        every.arguments.update({x: every.arguments[x].detach() for x in names})
        return scan(*every.args, **every.kwargs)

    monkeypatch.setattr(scans, "SELECTS", {})
    with pytest.raises(UnassignedOperation, match="exp, outside of a softmax"):
        attribute(*with_inputs(name, CAUSAL), "cp-lrp")
    monkeypatch.setattr(module, SCANS[name], detached)
    close(attribute(*with_inputs(name, CAUSAL), "cp-lrp").relevance, found)
    assert found.abs().max() > 0


def test_every_scan_is_tested():
    assert {*SCANS.values()} == {*scans.SELECTS} == {*TABLE[ROLE].functions.split()}


@pytest.mark.parametrize("name", ["mamba", "mamba2", "zamba", "qwen3_next", "kimi_linear"])
def test_it_conserves_agrees_with_numpy_and_leaves_out(name):
    """Zamba has attention, too, and Qwen experts; the value of a gate at 0 is a bias."""
    found = measure((name, CAUSAL))
    assert not found.refusal
    assert found.errors.keys() == COLUMNS.keys()
    off = [
        c for c, error in found.errors.items() if isinstance(error, str) or error > COLUMNS[c][1]
    ]
    gated = name in ("qwen3_next", "kimi_linear")
    assert off == ["conserves"] * gated, found.errors
    assert found.keeps.startswith("bias (add in ") == gated
    assert "linear" not in found.keeps


def test_the_gradient_of_the_selection_goes_along_where_no_rule_acts(mamba):
    model, batch = mamba
    found, one = attribute(model, batch, "gradient-x-input"), batch["input_ids"][:1]
    words = model.get_input_embeddings()(one).detach().requires_grad_()
    logit = model(inputs_embeds=words).logits[0, -1, found.target[0]]
    (gradient,) = torch.autograd.grad(logit, words)
    close(found.relevance[:1], (words * gradient).sum(-1).detach())
    assert differs(model, batch, "gradient-x-input") > 1e-3


@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_in_float32_the_model_is_what_it_was(name):
    model, batch = with_inputs(name, CAUSAL)
    model.float()
    weights = {key: x.clone() for key, x in model.state_dict().items()}
    with torch.no_grad():
        before = model(**batch).logits
        found = attribute(model, batch, "cp-lrp")
        after = model(**batch).logits
    assert before.equal(after)
    torch.testing.assert_close(found.logit[0], before[0, -1].max())
    assert all(x.equal(weights[key]) for key, x in model.state_dict().items())


def test_the_plan_has_linear_maps_in_the_place_of_the_selection(mamba):
    found = plan(*mamba, "cp-lrp")
    assert found.refusal is None
    assert {"matmul", "mul"} <= {op.function for op in found.operations if op.kind == "linear"}
    assert "exp" not in str(found)


def test_an_audit_says_what_is_held(mamba):
    model, batch = mamba
    found = audit(model, cases.first(batch), CP_LRP)
    assert [note for note in found.notes if note.startswith("what a scan selects by is held")]
    selects = [
        x for x in found.ledger.lines if x.node.origin.module.endswith(("x_proj", "dt_proj"))
    ]
    assert not selects


def test_a_module_that_only_selects_has_no_relevance(mamba):
    path = "backbone.layers.0.mixer.x_proj"
    assert isinstance(mamba[0].get_submodule(path), nn.Linear)
    contains(refused(ValueError, *mamba, "cp-lrp", at=path), path, "nothing that relevance reaches")
