"""Runs every public computation with the model on another device.

``python -m tests.support.on_another_device`` prints a line of JSON per case, its name and its error
or "".  It is a program of its own because ``tests.support.second_device`` changes PyTorch for good.
"""

import copy
import json
import tempfile
import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest import mock

import torch
from transformers import BertForQuestionAnswering, LlamaForCausalLM

from axioms.composites import ATTNLRP, CP_LRP
from benchmarks.experiments import text
from benchmarks.experiments.rows import Row
from benchmarks.experiments.softmax_by_layer import layer_errors
from benchmarks.sources import data, models
from numeric import (
    attribute,
    attribute_each,
    audit,
    evaluate,
    explain_generation,
    interactions,
    sweep,
)
from numeric.evaluation.patching import patching
from numeric.evaluation.perturbation import perturbation_curves
from numeric.evaluation.softmax_errors import softmax_errors
from numeric.methods import prefix
from numeric.methods.catalogue import METHODS
from numeric.models.inputs import prepare
from numeric.models.places import numbered_layers
from numeric.targets import answer, log_probability, logit, span
from numeric.targets.chosen import WITHOUT_FLOAT64
from numeric.tools.quantus import FromEmbeddings
from tests.support import cases
from tests.support.cases import DECODERS, tokens_of
from tests.support.second_device import (
    ALLOWED,
    LACKING,
    MIXED,
    PLACE,
    REFUSED,
    Elsewhere,
    There,
)

EXACT = 1e-10  # of float64
SINGLE = 1000 * torch.finfo(torch.float32).eps  # of copies, whose errors a residual adds up


def explained(model, inputs, method="attnlrp", **options):
    found = attribute(model, inputs, method, **options)
    also = [*found.details.values(), *found.inside.values()]
    return [found.relevance, found.target, found.logit, found.residual, *also]


def of_another_class(model, inputs, method):
    """The explanation of a model that no record describes."""
    model.__class__ = type("Other", (type(model),), {})
    return explained(model, inputs, method)


def acting(model, _inputs, **options):
    """Explains which tokens act together, and makes the forms that show it."""
    tokenizer, words = tokens_of(6)
    found = interactions(model, tokenizer, words, target=1, **options)
    assert found.html()
    assert found.png()
    assert [*found.terminal()]
    return [found.relevance, found.target, found.logit, found.residual, *found.details.values()]


def of_words(model, inputs):
    """Logits of word embeddings that came as NumPy arrays."""
    module = FromEmbeddings(model)
    return module(torch.from_numpy(module.embeddings(inputs["input_ids"]))).detach()


def mixes(model, inputs):
    return list(vars(sweep(model, inputs, [ATTNLRP, CP_LRP])).values())


def curves(model, inputs):
    batch, found = prepare(model, inputs), attribute(model, inputs)
    maps = [found.relevance, -found.relevance]
    found = perturbation_curves(model, batch, maps, found.target, chunk=2)
    return [curve.logits for of_map in found for curve in of_map]


def judged(model, inputs):
    """All measures of a map, and effects of patching one text."""
    found = evaluate(model, inputs, attribute(model, inputs).relevance, subsets=4, samples=2)
    one = {key: x[:1, :6] for key, x in inputs.items()}
    patched = patching(model, one, None, {"attnlrp": "attnlrp"})
    kinds = [*patched.effect.values(), *patched.predicted["attnlrp"].values()]
    return [torch.as_tensor(x) for x in (*found["relevance"].values(), *kinds)]


def errors(model, inputs):
    return [torch.as_tensor(x) for x in vars(softmax_errors(model, inputs)).values()]


def audited(model, inputs):
    found = audit(model, cases.first(inputs))
    return [torch.as_tensor(found.relevance), torch.tensor(found.residual)]


PAIR = (logit([0, 2]) - logit(1), log_probability(1))


def several(model, inputs, make=None, targets=PAIR, method="attnlrp"):
    """Maps of several targets, of ``model`` or of a head that ``make`` puts on its config."""
    if make is not None:
        torch.manual_seed(0)
        config = type(model.config)(**model.config.to_dict() | {"num_labels": 2})
        model = make(config).double().eval().to(model.device)
    found = attribute_each(model, inputs, method, targets=targets)
    return [x for each in found for x in (each.relevance, each.target, each.logit)]


def shared(model, inputs):
    """Leave-One-Out of a language model, whose copies go on behind one prefix however short."""
    with mock.patch.object(prefix, "least", return_value=1):
        return several(model, inputs, LlamaForCausalLM, [logit(7, at=-3)], "loo")


def written(model, _inputs):
    """The text that a language model writes of its own accord, explained."""
    torch.manual_seed(0)
    writer = LlamaForCausalLM(model.config).double().eval().to(model.device)
    digits = SimpleNamespace(
        decode=lambda ids, **_: "".join(map(chr, ids)),
        convert_ids_to_tokens=lambda ids: ids,
        eos_token_id=None,
    )
    found = explain_generation(writer, digits, [2, 17, 41], max_new_tokens=3)
    return [found.relevance, found.logit, found.residual]


def resumed(model, _inputs):
    """A kept text of more rows than share a forward pass, explained again."""
    tokenizer, words = tokens_of(6)
    torch.manual_seed(0)
    writer = LlamaForCausalLM(model.config).double().eval().to(model.device)
    with tempfile.TemporaryDirectory() as folder:
        call = partial(explain_generation, writer, tokenizer, words, answer=words + words[2:])
        found, again = call(keep=folder), call(keep=folder)
    return [found.relevance, again.relevance, again.logit, again.residual]


def measured(model, _inputs):
    """The columns that rows keep of two sentences, by methods with and without a gap."""
    classifier = models.load(device=model.device)
    classifier = replace(classifier, model=classifier.model.double())
    few = data.load().first(2)
    variants = {name: {"method": name} for name in ("attnlrp", "integrated-gradients")}
    row = Row(name="all", table="table2", dataset=few.name, model="embedded", variants=variants)
    found = [of_text(row, classifier, few, [0, 1]) for of_text in (text.maps, layer_errors)]
    columns = [column for each in found for column in each.values()]
    return [torch.tensor(x) for column in columns for x in column if not isinstance(x, str)]


EVERYWHERE = {
    "attnlrp": explained,
    "cp-lrp": partial(explained, method="cp-lrp", target=[0, 2]),
    "loo": partial(explained, method="loo"),
}
FULLY = EVERYWHERE | {
    **{name: partial(explained, method=name) for name in METHODS if name not in EVERYWHERE},
    "embeddings": lambda model, inputs: [of_words(model, inputs)],
    "stabilised": partial(explained, epsilon=1e-3),
    "word": partial(explained, share="word"),
    "inside": lambda model, inputs: explained(model, inputs, at=numbered_layers(model)),
    "signed": partial(explained, positions="signed"),
    "absolute": partial(explained, positions="absolute"),
    "target": partial(explained, target=torch.tensor([0, 2])),
    "deletion": partial(explained, method="loo", removal="deletion"),
    "replacement": partial(explained, method="loo", removal=7),
    "copies in float32": partial(explained, method="loo", dtype="float32"),
    **{
        f"{name} of another class": partial(of_another_class, method=name)
        for name in ("loo", "integrated-gradients", "attention-rollout")
    },
    "padding as baseline": partial(explained, method="integrated-gradients", baseline="pad"),
    "sweep": mixes,
    "curves": curves,
    "softmax errors": errors,
    "several targets": several,
    "interactions": acting,
    "interactions, estimated": partial(acting, pairs="estimated"),
    "levels": partial(explained, method="loo", budget=5, groups=[3, 2]),
}


def without(*names):
    return {name: case for name, case in FULLY.items() if name not in names}


EAGER = ("audit", "rows", "written", "resumed")  # cases that need scores to be seen
NO_FLOAT64 = ("judged",)  # cases in float32, on a device without float64
NUMBERS = ("softmax errors", *NO_FLOAT64, *EAGER)  # cases that end in NumPy, and so on the CPU
OF_ENCODERS = ("softmax errors",)
OF_TEXT = (
    "loo", "embeddings", "deletion", "replacement", "copies in float32", "curves",
    "integrated-gradients",
    "padding as baseline", "mask-relevance", "budgeted-loo", "atman", "shapley",
    "interactions", "interactions, estimated", "levels",
    "loo of another class", "integrated-gradients of another class",
)  # fmt: skip
# GPT-2 runs these cases through the lines that LLaMA runs.
ALIKE = *OF_ENCODERS, *(x for x in OF_TEXT if x not in ("loo", "mask-relevance"))
BY_FAMILY = dict.fromkeys(cases.FAMILIES, EVERYWHERE)
BY_FAMILY |= {
    "bert": FULLY
    | {"audit": audited, "rows": measured, "judged": judged}
    | {"answers": partial(several, make=BertForQuestionAnswering, targets=[None, answer(1, 2)])},
    "gpt2": without(*OF_ENCODERS) | {"audit": audited},
    # Padding on its left makes stock eager LLaMA NaN.
    "llama": without(
        *OF_ENCODERS, *ALIKE, "attention-rollout", "attention-rollout of another class"
    )
    | {"audit": audited, "written": written, "resumed": resumed}
    | {
        "next tokens": partial(several, make=LlamaForCausalLM, targets=[logit(7, at=-2), span(-2)]),
        "shared prefix": shared,
    },
    "vit": without(*OF_TEXT) | {"audit": audited},
}


def outcome(case, name, family):
    """The error of a model elsewhere, compared with one here; "" if there is none."""
    model, inputs = cases.family(family, attn_implementation="eager" if name in EAGER else "sdpa")
    if family in DECODERS:  # padding on the left
        inputs = {key: x.flip(1) for key, x in inputs.items()}
    if name in NO_FLOAT64:
        model = model.float()
        LACKING.add(torch.float64)
        WITHOUT_FLOAT64.add(PLACE.type)
    want = attempt(case, model, inputs)
    try:
        with Elsewhere():
            found = attempt(case, copy.deepcopy(model).to(PLACE), inputs)
    finally:
        LACKING.clear()
        WITHOUT_FLOAT64.discard(PLACE.type)
    if isinstance(want, str) or isinstance(found, str):
        return f"{found}, and here {want}"
    if name not in NUMBERS and not all(isinstance(x, There) for x in found):
        return "the result is not where the model is"
    found = [x.held if isinstance(x, There) else x for x in found]
    tolerance = SINGLE if name in ("copies in float32", *NO_FLOAT64) else EXACT
    close = partial(torch.allclose, rtol=0, atol=tolerance, equal_nan=True)
    wrong = [n for n, (a, b) in enumerate(zip(want, found, strict=True)) if not close(a, b)]
    return f"other numbers in {wrong}" if wrong else ""


def attempt(case, *arguments):
    """The result of ``case``, or its error as text."""
    try:
        return case(*arguments)
    except Exception as error:  # any: each is an outcome
        return f"{type(error).__name__}: {error}"


def mixed(mixture):
    """The outcome of an operation on two vectors, one of them elsewhere."""
    here = torch.ones(3)
    with Elsewhere():
        return str(attempt(mixture, here, here.to(PLACE)))


def outcomes():
    for name, mixture in REFUSED.items():
        found = mixed(mixture)
        yield f"{name} of two devices", "" if MIXED in found or "to numpy" in found else found
    for name, mixture in ALLOWED.items():
        found = mixed(mixture)
        yield f"{name} for another device", "" if found.startswith("There(") else found
    for family, of_family in BY_FAMILY.items():
        for name, case in of_family.items():
            yield f"{family}, {name}", outcome(case, name, family)


def main():
    warnings.simplefilter("ignore")
    for line in outcomes():
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
