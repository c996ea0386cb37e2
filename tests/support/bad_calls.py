"""Calls of ``attribute`` that a user can mend, each with the one message that says how.

A call begins with a BERT of three classes, two layers and nine positions, and its batch of two
texts; then changes are made to it in turn.  One that names no method is refused by all.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional
from transformers import BertForTokenClassification, BertModel

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation, bypass_softmax
from numeric.methods.catalogue import METHODS
from numeric.models.heads import NoLogits
from tests.support import cases
from tests.support.changes import (
    ACT,
    LAYER,
    POOLER,
    Own,
    change_of,
    compiled,
    cumulative,
    entry,
    every,
    filled,
    given,
    inferring,
    made,
    on,
    placed,
    put,
    scripted,
    shared,
    then,
    unmasked,
)
from tests.support.sentence_objects import Encoder, Mean, Step


def without(kind, rule=None):
    rules = {k: r for k, r in ATTNLRP.rules.items() if k != kind}
    return Composite(f"without {kind}", rules | ({kind: rule} if rule else {}))


HOOKS = {
    "that scale gradients": lambda m: m.register_full_backward_hook(lambda _m, into, _: into),
    "of the old kind": lambda m: m.register_backward_hook(lambda *_: None),
    "before the way back": lambda m: m.register_full_backward_pre_hook(lambda _m, of: of),
}

KEYS = "; it may have input_ids, attention_mask, token_type_ids"
NAMES = f"the methods are {', '.join(METHODS)}"
IG = "integrated-gradients"
NO_RULE = "BertForSequenceClassification calls functions that have no propagation rule:"
TABLE = "numeric/engine/operations.py"
NORMS = (
    "bert.embeddings", LAYER(0) + ".attention.output", LAYER(0) + ".output",
    LAYER(1) + ".attention.output", LAYER(1) + ".output",
)  # fmt: skip

CALLS = {
    # inputs
    "an id too large": (entry("input_ids", (1, 2), 11),
        "token id out of range...first 11 at example 1, token 2; the model has 0 to 10: is this"),
    "an id below 0": (entry("input_ids", (0, 3), -1),
        "first -1 at example 0, token 3; ...model's own tokenizer?"),
    "a type too large": (entry("token_type_ids", (0, 1), 2),
        "token type...2 at example 0, token 1...0 to 1"),
    "a long text": (every(lambda x: x.repeat(1, 2)),
        "text of 12 tokens is longer than the model's 9 positions; split or shorten it...trunc"),
    "no tokens": (every(lambda x: x[:, :0]), "no token in examples [0, 1]; leave them out"),
    "no examples": (every(lambda x: x[:0]), "empty batch...pass at least one text"),
    "all masked": (entry("attention_mask", 1, 0), "no token in examples [1]; leave them out"),
    "left padding": (every(lambda x: x.flip(1)), "masked out in examples [1]...padding_side"),
    "a mask of 2": (entry("attention_mask", (0, 1), 2), "the value 2; it must be 0 or 1"),
    "shapes that differ": (put(attention_mask=torch.ones(2, 5)), "(2, 5) but input_ids (2, 6)"),
    "one text and no batch": (every(lambda x: x[0]),
        "input_ids has shape (6,); it must be (batch, token)\nattention_mask\ntoken_type_ids"),
    "lists": (every(torch.Tensor.tolist),
        'input_ids is a list...return_tensors="pt"\nattention_mask is a list\ntoken_type_ids is a'),
    "floats": (put(input_ids=torch.ones(2, 6)), "input_ids has dtype torch.float32; pass int64"),
    "no ids": (lambda call: call["inputs"].pop("input_ids"),
        "no input_ids; pass the tokenizer's batch"),
    "unknown keys": (put(labels=torch.zeros(2)), "inputs has 'labels'" + KEYS),
    "embeddings": (put(inputs_embeds=torch.zeros(2, 6, 8)), "inputs has 'inputs_embeds'" + KEYS),
    "a single token": ((given("loo"), entry("attention_mask", (1, slice(1, None)), 0)),
        "one token only in examples [1]: ...leave these texts out"),
    # targets, and several mistakes at once, each in a line
    "too many targets": (given(target=[0, 1, 2]), "3 entries for 2 examples; pass one per example"),
    "too few targets": (given(target=[0]), "1 entries for 2 examples; pass one per example"),
    "several keys": (
        (on(nn.Module.train, ""), put(labels=0, token_type_ids=[[0]])),
        "train mode: 51 modules, first (root): ...call model.eval()\n'labels'\ntoken_type_ids is a",
    ),
    "several values": ((every(lambda x: x.repeat(1, 2)), entry("input_ids", (0, 0), 99),
        entry("token_type_ids", (0, 0), 9), entry("attention_mask", 1, 0), given(target=1.5)),
        "12 tokens\nfirst 99 at\nfirst 9 at\nno token in examples [1]\ntarget=1.5"),
    # methods and options
    "no such method": (given("lrp"), f"unknown method 'lrp'; {NAMES}, or a Composite"),
    "layers that are not there": (given(bypass_softmax([1, 2, 7])),
        "overrides layer 2, layer 7, which...layers are 0 to 1"),
    "a module that is not there": (given(Composite("typo", ATTNLRP.rules,
        modules={"bert.poler": {}})),
        "composite 'typo' overrides module 'bert.poler', which the model does not have"),
    "kinds that are not there": (given(Composite("typo", ATTNLRP.rules,
        modules={POOLER: {kinds.SOFTMAX: kinds.CONSTANT}})),
        f"overrides softmax of module '{POOLER}', which the model does not have"),
    "channels of no module": (given("cp-lrp", channels=True), "channels=True splits up what `at`"),
    "options of another method": (given("loo", epsilon=0.1, stepz=3),
        "'loo' has no option 'epsilon', 'stepz'; it has batch_size=128...epsilon is of attnlrp, cp",
        TypeError),
    "a composite as an option": (given("attnlrp", composite=ATTNLRP),
        "no option 'composite'; it has epsilon=0.0, share='embedding'", TypeError),
    "no rule for norms": (given(without(kinds.LAYER_NORM)),
        "\n".join(("'without layer_norm' has no rule for 5 of",
        *(f"{path}.LayerNorm" for path in NORMS), "It has rules for",
        "Add an entry for: layer_norm (held-deviation")), UnassignedOperation),
    # models
    "words left through NumPy": ((given("attnlrp"), placed(cases.ThroughNumpy(), "dropout")),
        "do not depend on the words in any way that torch shows"),
    "attention without a mask": (made(unmasked), "'without a mask'...MaskInterface.register("),
    "attention without a mask, nothing masked": ((made(unmasked), every(lambda x: x[:1]),
        given("loo")), "'without a mask'...register("),
    "logits of tokens": (made(cases.perturbed, BertForTokenClassification),
        "every token has a tag: pass at\nBertForTokenClassification is logit(tag, at=column)"),
    "no logits": (made(cases.perturbed, BertModel),
        "BertModel gives last_hidden_state...and no logits", NoLogits),
    "an object that pools": (lambda call: call.update(model=Encoder(Step(call["model"]), Mean())),
        "SentenceTransformer computes Pooling of the output...call explain_similarity(model,"),
    "an object of modules that are not known": (
        lambda call: call.update(model=Encoder(Step(call["model"]), nn.GELU(), Mean(), nn.ELU())),
        "SentenceTransformer has modules other than...1: GELU, 3: ELU; pass the Transformers"),
    "compiled in place": (on(compiled, LAYER(1)),
        f"compiled: 1 modules, first {LAYER(1)}: ...before model.compile()"),
    "TorchScript": (lambda call: placed(torch.jit.script(nn.Linear(8, 8)), POOLER)(call),
        f"TorchScript: 1 modules, first {POOLER}: ...before torch.jit"),
    "train mode": (on(nn.Module.train, LAYER(1) + ".output.dropout"),
        f"train mode: 1 modules, first {LAYER(1)}.output.dropout: ...call model.eval() first"),
    "made in inference mode": (made(inferring), "made in inference mode"),
    "weights that are not finite": (on(partial(filled, (1, 0), torch.nan), "classifier"),
        "non-finite logits in examples [0, 1]: ...nan...check the weights"),
    "relevance that is not finite": (  # inputs contribute exactly 0 to a logit that is all bias
        (
            on(partial(filled, 1, 0), "classifier"),
            given(without(kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS), target=1),
        ),
        "non-finite relevance in examples [0, 1]: ...pass epsilon=1e-6",
    ),
    "one module with two rules": ((shared, given(bypass_softmax([1]))),
        f"'bilinear-epsilon' and 'constant' for scores of one...{LAYER(0)}.attention.self, "
        f"{LAYER(1)}.attention.self; give"),
    "two limits": (given("budgeted-loo", budget=0, tolerance=-1), "budget=0: \ntolerance=-1: "),
    "several wrong numbers": (given("shapley", samples=1.5, seed=-1, fixed=3),
        "samples=1.5: \nseed=-1: \nfixed is int"),
    "fixed tokens of another shape": (given("shapley", fixed=torch.ones(2, 5).bool()),
        "fixed is torch.bool of shape (2, 5); ...(2, 6)"),
    "fixed tokens that are numbers": (given("shapley", fixed=torch.ones(2, 6)),
        "fixed is torch.float32 of shape"),
    "a tiny stabiliser": (given("attnlrp", epsilon=1e-300),
        "eps=1e-300: in float64 ...at least...pass eps=0 for the limit"),
    "a tiny stabiliser of float32": ((on(nn.Module.float, ""), given("attnlrp", epsilon=1e-36)),
        "eps=1e-36: in float32 ...at least...pass eps=0 for the limit"),
}  # fmt: skip

BYTES, COPIES = 'pass a number of bytes, or "auto"', "pass a whole number of copies, at least 1"
GIVEN = [  # a method, wrong values of an option, and the advice
    ("attnlrp", "share", ["position"], "pass one of embedding, word"),
    ("attnlrp", "positions", ["sign", True, 1, ""], "pass one of None, 'signed', 'absolute'"),
    ("attention-rollout", "variant", ["raw"], "pass one of paper, abnar-zuidema"),
    (IG, "steps", [0, True], "pass a whole number of...at least 1"),
    (IG, "baseline", ["mean"], "pass one of zero, pad"),
    (IG, "tolerance", [0.0, "x", {}, torch.ones(2)], "pass a number of logits above 0, or None"),
    (IG, "memory", [0, "much", True], BYTES),
    (IG, "batch_size", [0, 1.5], COPIES),
    ("loo", "patch", [8], "inputs has no image; leave it out"),
    ("loo", "removal", ["zeroing", "", "[MASK]", "Deletion", -1, 11, True, False, None, 1.0],
        "pass one of attention-mask, deletion...(0 to 10)"),
    ("loo", "dtype", ["half", "int8", "", 16], "pass None or one of ...bfloat16"),
    ("loo", "memory", [0, -1, 1.5, True, None, "much"], BYTES),
    ("loo", "memory", [100], "one copy of the longest text needs about"),
    ("loo", "batch_size", [0, -1, 1.5, None], COPIES),
    ("atman", "factor", [0, -0.5, 1.5, True, "0.9", torch.nan], "...above 0 and at most 1"),
    ("gim", "temperature", [0, -1, torch.inf, True, "2"], "pass a finite number above 0"),
    ("mask-relevance", "midpoint", [-1, 1.0, True], "...of passes at half masks, such as 1"),
    ("budgeted-loo", "budget", [0, 1.5], "pass None or a number of forward passes, at least 1"),
    ("budgeted-loo", "tolerance", [-0.1, torch.inf, True, "small"],
        "pass None or an error in logits"),
    ("shapley", "samples", [0], "pass a whole number of forward passes, 1 to 65536"),
    ("shapley", "samples", [19], "examples [0] have up to 5...at least 20"),
    ("shapley", "batch_size", [0], COPIES),
]  # fmt: skip
for method, option, values, advice in GIVEN:
    for value in values:
        change = given(method, **{option: value})
        CALLS[f"{method} with {option}={value!r}"] = change, f"{option}={value!r}: {advice}"
for size in (0, -1, 1.5, None):  # `each` has a check of its own
    CALLS[f"{size} copies that are told"] = (
        given("loo", batch_size=size, each=print), f"batch_size={size}: {COPIES}"
    )  # fmt: skip
for value in ("maybe", ["held"]):
    says = f"deviations={value!r}: pass one of true, held\nmidpoint=-1: pass 0"
    CALLS[f"deviations {value!r}"] = given("mask-relevance", deviations=value, midpoint=-1), says
for option, value in (("at", POOLER), ("positions", "signed")):
    says = f"checkpoint=True ...cannot give {option}={value!r}: leave one of them out"
    CALLS[f"checkpoints with {option}"] = given("attnlrp", checkpoint=True, **{option: value}), says

for inputs in ("a fine film", ["a fine film"], torch.tensor([[1, 1]]), None):
    says = f"inputs is a {type(inputs).__name__}; pass the tokenizer's batch, such as tokenizer("
    CALLS[f"inputs {inputs!r}"] = given(inputs=inputs), says
for value in (-1e9, torch.nan):
    says = f"the value {value}; it must be 0 or 1\nno token in examples [0, 1]"
    CALLS[f"a mask of {value}"] = put(attention_mask=torch.full((2, 6), value)), says
for key in ("input_ids", "attention_mask", "token_type_ids"):
    for kind, change in {
        "a sparse tensor": torch.Tensor.to_sparse, "of torch.complex64": lambda x: x + 0j,
        "without values": lambda x: x.to("meta"),
    }.items():  # fmt: skip
        says = f"{key} is a ...{kind.removeprefix('a ')}...; pass"
        CALLS[f"{key} {kind}"] = change_of(key, change), says
for method in METHODS.values():
    for option, default in method.options.items():
        values, says = (2**70,), "pass a number of at most 64 bits"
        if type(default) is bool:
            values, says = (torch.ones(()), None, 1, "yes"), "pass True or False"
        for value in values if isinstance(default, int | float) or "budget" in option else ():
            change = given(method.name, **{option: value})
            CALLS[f"{method.name} {option}={value!r}"] = change, f"{option}={value!r}: {says}"
CALLS["a tensor as a path"] = given("attnlrp", at=torch.tensor(1)), "at=tensor(1) is no mo\npass"
for target, wrong in ((3, [3]), ([0, -1], [-1]), ([5, 7], [5, 7])):
    says = f"target {wrong} out of range; the model has classes 0 to 2"
    CALLS[f"target {target}"] = given(target=target), says
for target in (1.0, torch.tensor([0.0, 1.0]), True, [None, 1], [[0, 1]], [], [None, "LABEL_1"]):
    says = f"target={target!r}: pass None, an int or a name, or one per example"
    CALLS[f"target {target!r}"] = given(target=target), says
for eps in (-1.0, torch.nan, torch.inf, "1e-6", None, True):
    says = f"eps={eps!r} ({type(eps).__name__}): the stabiliser must be finite and >= 0; pass eps=0"
    CALLS[f"checkpoints, epsilon {eps!r}"] = given("attnlrp", checkpoint=True, epsilon=eps), says
    for method in ("attnlrp", ATTNLRP):
        CALLS[f"{method!s:.7} with epsilon {eps!r}"] = given(method, epsilon=eps), says
for name, hook in HOOKS.items():
    says = f"backward hooks on 2 modules, {LAYER(1)}.output.dense, {POOLER}: ...handle.remove()"
    CALLS[f"hooks {name}"] = on(hook, POOLER, LAYER(1) + ".output.dense"), says
for method in ("attnlrp", "gradient-x-input"):
    changes = on(then(cumulative), LAYER(0) + ACT), on(then(Own.apply), LAYER(1) + ACT)
    says = f"{NO_RULE}\ncumprod...{LAYER(0)}{ACT} (changes.py\nOwnBackward\ncumprod: \n{TABLE}"
    CALLS[f"{method} without rules"] = (given(method), *changes), says, UnassignedOperation
    dropped = on(then(functional.dropout), LAYER(0) + ACT, "bert.embeddings.position_embeddings")
    says = (
        f"{NO_RULE}\ndropout that is not switched off...position_embeddings (changes.py\n"
        f"dropout that is not...{LAYER(0)}{ACT} (\npass would be...training=self.training\n{TABLE}"
    )
    CALLS[f"{method} with dropout"] = (given(method), dropped), says, UnassignedOperation
    changes = on(then(scripted), LAYER(0) + ACT)
    says = (
        f"{NO_RULE}\na result of code that torch...{LAYER(0)}.output.dense (\n"
        f"torch.jit run past the rules\n{TABLE}"
    )
    CALLS[f"{method} past TorchScript"] = (given(method), changes), says, UnassignedOperation
    changes = on(then(scripted), "classifier")
    says = f"{NO_RULE}\na result of code that torch...(root)\ntorch.jit run past the rules\n{TABLE}"
    CALLS[f"{method} of a script"] = (given(method), changes), says, UnassignedOperation
for function in (torch.log_softmax, torch.prod, torch.logsumexp):
    last = partial(function, dim=-1)
    changes = given("attnlrp"), on(then(lambda x, last=last: x + last(x).sum()), POOLER)
    says = f"{NO_RULE}\n{function.__name__}...{POOLER} (...\n{function.__name__}: \n{TABLE}"
    CALLS[function.__name__] = changes, says, UnassignedOperation
for before in (functional.gelu, torch.clone):
    for path in (LAYER(1) + ACT, "classifier"):
        changes = given("attnlrp"), on(then(before), path), on(then(Own.apply), path)
        says = f"{NO_RULE}\nOwnBackward, code that torch does not show\n{TABLE}"
        CALLS[f"hidden behind {before.__name__} in {path}"] = changes, says, UnassignedOperation
