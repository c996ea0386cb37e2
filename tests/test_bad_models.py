"""Every model that cannot be explained is refused with all the places named, and left alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.module import register_module_full_backward_hook
from transformers import (
    AttentionInterface,
    BertForTokenClassification,
    BertModel,
    MPNetConfig,
    MPNetForSequenceClassification,
    OPTConfig,
    OPTForSequenceClassification,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation, bypass_softmax
from benchmarks.architectures.measure import without_shifts
from numeric import attribute, audit, compiled, propagation, sweep
from numeric.attribution import METHODS
from tests import cases
from tests.traces import contains, refused


def with_own_activation():
    class Swish(nn.SiLU):
        pass

    model = cases.tiny_bert()
    model.bert.encoder.layer[1].intermediate.intermediate_act_fn = Swish()
    return model.eval()


def with_function_as_activation():
    model = cases.tiny_bert()
    for layer in model.bert.encoder.layer:
        del layer.intermediate.intermediate_act_fn
        layer.intermediate.intermediate_act_fn = nn.functional.gelu
    return model


def with_replaced_forward():
    model = cases.tiny_bert()
    norm = model.bert.embeddings.LayerNorm
    forward = norm.forward
    norm.forward = lambda x: 2 * forward(x)
    return model


def with_parametrization():
    model = cases.tiny_bert()
    nn.utils.parametrizations.orthogonal(model.bert.pooler.dense)
    return model.eval()


SIZES = dict(
    vocab_size=11, hidden_size=8, num_attention_heads=2, max_position_embeddings=9,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, num_hidden_layers=2,
)  # fmt: skip


def mpnet():
    return MPNetForSequenceClassification(MPNetConfig(intermediate_size=12, **SIZES)).eval()


def opt():
    config = OPTConfig(ffn_dim=12, word_embed_proj_dim=8, **SIZES)
    return OPTForSequenceClassification(config).eval()


LAYERS = "bert.encoder.layer.{}.{}".format


class Own(torch.autograd.Function):
    """Code that no torch function shows."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, c):
        return 2 * c


class OfUnknownFunctions(nn.Module):
    """In the first layer a function without a rule, in the second code that torch does not show."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return Own.apply(x) if self.number else torch.cumprod(x, dim=-1)


def with_unknown_functions():
    model = cases.tiny_bert()
    for number, layer in enumerate(model.bert.encoder.layer):
        layer.intermediate.intermediate_act_fn = OfUnknownFunctions(number)
    return model.eval()


@pytest.mark.parametrize("before", [functional.gelu, torch.square, torch.clone, torch.relu])
def test_code_that_torch_does_not_show_is_found_out_wherever_it_is(batch, before):
    """Behind a function whose rule waits for its use, and as the last of all."""
    for path in ("bert.encoder.layer.1.intermediate.intermediate_act_fn", "classifier"):
        model = cases.tiny_bert()
        module = model.get_submodule(path)
        stock = module.forward
        module.forward = lambda x, stock=stock: Own.apply(before(stock(x)))
        contains(refused(UnassignedOperation, model, batch), "OwnBackward")


def test_functions_without_a_rule_are_all_listed(batch):
    for method in ("attnlrp", "gradient-x-input"):
        message = refused(UnassignedOperation, with_unknown_functions(), batch, method)
        contains(message, "cumprod", LAYERS(0, "intermediate.intermediate_act_fn"))
        contains(message, "OwnBackward", LAYERS(1, "output.dense"), "numeric/fast/operations.py")
        contains(message, "test_bad_models.py:")


UNUSUAL = {
    "cross-attention that is not asked": lambda: cases.tiny_bert(
        is_decoder=True, add_cross_attention=True
    ),
    "MPNet": lambda: mpnet().double(),
    "OPT": lambda: opt().double(),
    "own activation": with_own_activation,
    "function as activation": with_function_as_activation,
    "replaced forward": with_replaced_forward,
    "parametrized weight": with_parametrization,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_however_a_model_is_written_cp_lrp_conserves_without_shifts(batch, name):
    del batch["token_type_ids"]
    model = UNUSUAL[name]()
    with without_shifts(model):
        found = attribute(model, batch, "cp-lrp")
    assert found.residual.abs().max() < 1e-9 * found.logit.abs().max()
    assert found.relevance.abs().max() > 1e-4


def test_a_token_classifier_has_no_one_logit(batch):
    model = cases.perturbed(BertForTokenClassification)
    contains(refused(ValueError, model, batch), "logits have shape (2, 6, 3)", "classifiers")


def test_a_logit_that_no_known_way_joins_to_the_words_is_refused(batch):
    model = cases.tiny_bert()
    model.dropout = cases.ThroughNumpy()
    contains(refused(ValueError, model.eval(), batch), "do not depend on the words")


HOOKS = {
    "scales gradients": lambda m: m.register_full_backward_hook(lambda _m, into, _: into),
    "of the old kind": lambda m: m.register_backward_hook(lambda *_: None),
    "before the way back": lambda m: m.register_full_backward_pre_hook(lambda _m, of: of),
}


@pytest.mark.parametrize("name", HOOKS)
def test_backward_hooks_are_refused_and_all_listed(tiny, batch, name):
    for module in (tiny.bert.pooler.dense, tiny.bert.encoder.layer[1].output.dense):
        HOOKS[name](module)
    for method in METHODS:
        message = refused(ValueError, tiny, batch, method)
        contains(message, "backward hooks on 2 modules", "bert.pooler.dense", "handle.remove()")
        contains(message, LAYERS(1, "output.dense"))
    for other in (audit, lambda *given: sweep(*given, [ATTNLRP]), compiled_once):
        with pytest.raises(ValueError, match="hooks on 2 modules"):
            other(tiny, batch)
    with pytest.raises(ValueError, match="hooks on 2 modules"):
        propagation(tiny)


def test_backward_hooks_of_all_modules_are_refused(tiny, batch):
    with register_module_full_backward_hook(lambda _m, into, _: into):
        contains(refused(ValueError, tiny, batch), "backward hooks on 1 modules, (all modules)")
    attribute(tiny, batch)


def compiled_once(model, batch):
    with compiled(model, disable=True) as explain:
        return explain(batch)


def test_attention_for_which_transformers_drops_the_mask_is_refused(batch):
    AttentionInterface.register("without a mask", sdpa_attention_forward)
    model = cases.tiny_bert(attn_implementation="without a mask")
    alone = {key: x[:1] for key, x in batch.items()}
    for method in METHODS:
        contains(refused(ValueError, model, batch, method), "'without a mask'", "register(")
    contains(refused(ValueError, model, alone, "loo"), "'without a mask'", "register(")
    want = attribute(cases.tiny_bert(), alone).relevance
    torch.testing.assert_close(attribute(model, alone).relevance, want)  # nothing is masked


@pytest.mark.parametrize("method", ["loo", "integrated-gradients"])
@pytest.mark.parametrize("cls", [BertForTokenClassification])
def test_logits_of_tokens_are_refused(batch, cls, method):
    message = refused(ValueError, cases.perturbed(cls), batch, method)
    contains(message, "(2, 6, 3)", "(batch, class)")


def test_a_model_without_logits_is_refused(batch):
    message = refused(ValueError, cases.perturbed(BertModel), batch, "loo")
    contains(message, "model is a BertModel", "pass a Transformers sequence classifier")


def test_what_is_no_transformers_model_is_refused(tiny, batch):
    for model, name in ((nn.Sequential(tiny), "Sequential"), ("bert-base-uncased", "str")):
        with pytest.raises(ValueError, match=f"model is a {name}; pass a Transformers"):
            attribute(model, batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile's own modules
def test_a_compiled_wrapper_is_refused(tiny, batch):
    with pytest.raises(ValueError, match=r"model is a OptimizedModule; pass model\._orig_mod"):
        attribute(torch.compile(tiny), batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_compiled_in_place_are_refused(tiny, batch):
    # Code that was compiled before the rules came keeps running without some of them.
    for module, path in ((tiny.bert.encoder.layer[1], LAYERS(1, "")[:-1]), (tiny, "(root)")):
        module.compile(backend="eager")
        contains(refused(ValueError, tiny, batch), "compiled", path, "before model.compile()")


def test_train_mode_is_refused_wherever_it_is(tiny, batch):
    tiny.bert.encoder.layer[1].output.dropout.train()
    message = refused(ValueError, tiny, batch, "loo")
    contains(message, "1 modules", LAYERS(1, "output.dropout"), "model.eval()")


def test_a_model_made_in_inference_mode_is_refused(batch):
    with torch.inference_mode():
        model = cases.tiny_bert()
    with pytest.raises(ValueError, match="made in inference mode"):
        attribute(model, batch)


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_are_not_finite_are_found(tiny, batch, method):
    with torch.no_grad():
        tiny.classifier.weight[1, 0] = torch.nan
    message = refused(ValueError, tiny, batch, method)
    contains(message, "non-finite logits in examples [0, 1]", "nan", "check the weights")


def test_relevance_that_is_not_finite_is_found(tiny, batch):
    # The classifier's inputs contribute exactly 0 to a logit that is all bias.
    with torch.no_grad():
        tiny.classifier.weight[1] = 0
    rules = ATTNLRP.rules | {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}
    message = refused(ValueError, tiny, batch, Composite("without bias", rules), target=1)
    contains(message, "non-finite relevance in examples [0, 1]", "pass epsilon=1e-6")


def test_one_shared_module_with_two_rules_is_refused(tiny, batch):
    tiny.bert.encoder.layer[1] = tiny.bert.encoder.layer[0]
    message = refused(ValueError, tiny, batch, bypass_softmax([1]))
    contains(message, "scores", LAYERS(1, "attention.self"), "constant", "bilinear-epsilon")
