"""Every public function and command uses one name, annotation and default for one thing."""

import inspect
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
import torch
import typer

import lrp_axioms
from axioms.composites import CP_LRP, Composite
from benchmarks import cli
from numeric import (
    assert_conserves,
    attribute,
    attribute_each,
    audit,
    compiled,
    evaluate,
    plan,
    propagation,
    sweep,
)
from numeric.evaluation.patching import patching
from numeric.evaluation.softmax_errors import softmax_errors
from numeric.methods.catalogue import METHODS, WITH_LEMMAS, WITH_RULES
from numeric.targets import Label, Target, logit
from numeric.targets.readout import read
from numeric.tools import pipelines
from tests.support import cases
from tests.support.sentences import faults

NONE = inspect.Parameter.empty
METHOD, TARGET = (str | Composite, "attnlrp"), (Label | Target, None)
WORDS = {
    "model": ["PreTrainedModel", NONE],
    "inputs": [Mapping[str, torch.Tensor], NONE],
    "method": [*METHOD],
    "methods": [Sequence[str | Composite], NONE],
    "target": [*TARGET],
    "tokenizer": ["PreTrainedTokenizerBase | None", None],
    "epsilon": [float, 0.0],
    "memory": [int | str, "auto"],
    "batch_size": [int, 128],
    "budget": [int | None, None],
    "seed": [int, 0],
    "at": ["str | Iterable[str] | None", None],
}
"""Argument -> its annotation, or the end of its annotation, and its default."""
SYNONYMS = {
    "composite", "composites", "rules", "label", "labels", "eps", "batch", "text", "sentences",
    "layer", "layers", "module", "n_steps", "device_map", "memory_budget",
}  # fmt: skip
ITS_OWN = {
    ("explain", "tokenizer"), ("explain_generation", "tokenizer"),
    ("explain_generations", "tokenizer"), ("explain_similarity", "tokenizer"),  # all require it
    ("interactions", "tokenizer"), ("interactions", "text"),  # one text
    ("interactions", "model"),
    ("explain", "model"), ("explain_similarity", "model"),  # objects of sentence-transformers, too
    ("patching", "methods"),  # a mapping by name
    ("pipelines", "text"),  # one text or one chat
    ("plan", "model"), ("plan", "inputs"), ("propagation", "model"),  # any torch module
}  # fmt: skip
"""Function and argument that differ for a reason."""


def functions():
    public = {name: getattr(lrp_axioms, name) for name in lrp_axioms.HOME}
    found = {name: f for name, f in public.items() if inspect.isfunction(f)}
    found |= {"patching": patching, "softmax_errors": softmax_errors, "read": read}
    found |= {"pipelines": pipelines.explain}
    return found | {name: getattr(x.run, "func", x.run) for name, x in METHODS.items()}


def said(annotation):
    """Writes an annotation without the modules of its classes."""
    plain = isinstance(annotation, type) and not hasattr(annotation, "__origin__")
    text = annotation.__name__ if plain else str(annotation)
    return " | ".join(
        part.rpartition(".")[2] if "[" not in part else part.rpartition("abc.")[2]
        for part in text.split(" | ")
    )


def differences(name, function):
    bound = {"batch", "composite"} if name in METHODS else set()  # `attribute` passes these
    for word, given in inspect.signature(function).parameters.items():
        if (name, word) in ITS_OWN or word in bound:
            continue
        if word in SYNONYMS:
            yield f"{name}: {word}"
        if word in WORDS and [said(given.annotation), given.default] != [
            WORDS[word][0] if isinstance(WORDS[word][0], str) else said(WORDS[word][0]),
            WORDS[word][1],
        ]:
            yield f"{name}: {word}: {given.annotation} = {given.default}"


@pytest.mark.parametrize("name", functions())
def test_a_function_calls_each_thing_by_its_word(name):
    assert list(differences(name, functions()[name])) == []


def test_another_word_and_another_default_are_noticed():
    def odd(model, composite: str = "x", epsilon: float = 1e-6):
        pass

    assert len(list(differences("odd", odd))) == 3


# Commands


OPTIONS = {
    "model": "embedded", "method": "attnlrp", "target": None, "column": None, "epsilon": 0.0,
    "device": "cpu", "seed": 0, "html": None, "json": False, "quiet": False, "full": False,
}  # fmt: skip
DEFAULTS = dict.fromkeys(
    [("attribute", "device"), ("reproduce", "device"), ("attribute", "method")]
)  # the device of a cluster; several methods
COMMANDS = typer.main.get_command(cli.app).commands
CHOICES = {"audit": WITH_LEMMAS, "plan": WITH_RULES, "explain": METHODS, "attribute": METHODS}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_calls_each_thing_by_its_word(name):
    options = {x.name: x for x in COMMANDS[name].params if x.param_type_name == "option"}
    assert SYNONYMS.isdisjoint(options)
    for word in options.keys() & OPTIONS.keys():
        assert options[word].default == DEFAULTS.get((name, word), OPTIONS[word]), word
        assert options[word].opts == [f"--{word}"]


@pytest.mark.parametrize("name", CHOICES)
def test_a_command_takes_the_methods_that_its_function_takes(name, run, tmp_path):
    texts = tmp_path / "a.txt"
    texts.write_text("a film\n")
    of = {"attribute": [texts], "plan": ["embedded"]}.get(name, ["embedded", "a film"])
    code, _, err = run(name, *of, "--method", "nonsense")
    assert (code, err.partition("; did")[0].strip()) == (
        2, f"error: --method nonsense: pass {', '.join(CHOICES[name])}",
    )  # fmt: skip


# Equal forms


def by_graphs(model, inputs, method):
    with compiled(model, method, disable=True) as explain:
        return explain(inputs)


BY_METHOD = {
    "attribute": attribute, "audit": audit, "plan": plan, "compiled": by_graphs,
    "assert_conserves": partial(assert_conserves, tol=1e9),
    "propagation": lambda model, _, method: propagation(model, method),
    "sweep": lambda model, inputs, method: sweep(model, inputs, [method]),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_METHOD)
def test_a_method_is_a_name_or_a_composite(name):
    model, inputs = cases.tiny_bert(), cases.first(cases.tiny_batch())
    model.set_attn_implementation("eager")
    for method in ("cp-lrp", CP_LRP):
        BY_METHOD[name](model, inputs, method)
    for method in ("cplrp", 3, None):
        with pytest.raises(ValueError, match=rf"method {method!r}.* or a Composite"):
            BY_METHOD[name](model, inputs, method)


BY_TARGET = {
    "attribute": attribute, "audit": audit,
    "attribute_each": lambda *given, target: attribute_each(*given, targets=[target])[0],
    "sweep": lambda *given, target: sweep(*given, ["attnlrp"], target),
    "softmax_errors": softmax_errors,
    "evaluate": lambda *given, target: evaluate(*given, torch.ones(1, 6), target=target),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_TARGET)
def test_a_target_is_a_number_or_a_name(name):
    model = cases.tiny_bert()
    model.set_attn_implementation("eager")
    model.config.id2label = {0: "negative", 1: "own", 2: "positive"}
    explain, batch = BY_TARGET[name], cases.first(cases.tiny_batch())
    number = lambda target: getattr(explain(model, batch, target=target), "logit", None)
    names = ["own", ["own"], logit("own"), torch.tensor([1]), logit(1)]
    for target in names:
        assert number(target) == number(1)
    for target in ("negativ", logit("negativ")):
        with pytest.raises(
            ValueError, match=r"target='negativ': no class has this name.*you mean 'neg"
        ):
            number(target)


def test_a_contrast_of_names_is_that_of_their_numbers():
    model, batch = cases.tiny_bert(), cases.tiny_batch()
    model.config.id2label = {0: "negative", 1: "neutral", 2: "positive"}
    of = lambda target: attribute(model, batch, target=target).relevance
    assert torch.equal(of(logit("positive") - logit("negative")), of(logit(2) - logit(0)))
    assert torch.equal(of(["positive", "neutral"]), of([2, 1]))
    with pytest.raises(ValueError, match="target has 1 entries for 2 examples"):
        of(["positive"])


ONCE = [
    (name, x.opts[0], x.is_flag)
    for name, command in COMMANDS.items()
    for x in command.params
    if x.param_type_name == "option" and not x.multiple
]


@pytest.mark.parametrize(("name", "option", "flag"), ONCE)
def test_an_option_that_takes_one_value_is_given_once(name, option, flag, run):
    given = [option] if flag else [option, "1"]
    code, out, err = run(name, *given, *given)
    assert (code, out) == (2, "")
    assert f"{option}: given twice; pass it once" in " ".join(err.split())


@pytest.mark.parametrize(
    "text",
    [
        "What a model reads.", "Of all layers.", "Those with a bias.", "The same for a text.",
        "Relevance and that of the bias.", "The layer at which relevance starts.",
        "Returns what the head reads.",
    ],
)  # fmt: skip
def test_a_sentence_that_points_at_a_thing_is_found(text):
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    ["Returns the bias that absorbs it.", "A part of the same row.", "By ``what``, a table."],
)
def test_a_sentence_that_names_its_things_is_left_alone(text):
    assert not faults(text)
