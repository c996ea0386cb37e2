"""Earlier explanations change no result: it equals the result of a fresh process."""

from multiprocessing import get_context

import pytest
import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from axioms.composites import UnassignedOperation
from numeric.methods import meetings
from tests.support import cases
from tests.support.user_changes import CHANGES
from tests.support.uses import USES

OWN = (  # changes of one model that can be combined
    "a mean for a pooler", "LoRA", "an activation", "a layer twice", "a method for a forward",
    "a method for another method", "a hook", "a scale of attention", "chunks of the MLP",
)  # fmt: skip
SHARED = (  # changes of all models, until they are undone
    "a forward of a class, of BERT", "a forward of a class, of LLaMA", "a function of a file",
    "attention of a registered name",
)  # fmt: skip
METHODS = ("loo", "mask-relevance", "integrated-gradients", "attnlrp", "sweep")


def change(name, model, family, patch):
    """Changes ``model``, unless the change is for other families."""
    if family in CHANGES[name][0]:
        CHANGES[name][1](model, family, patch)


def patched(name):
    patch = pytest.MonkeyPatch()
    change(name, None, CHANGES[name][0][0], patch)
    return patch


def explained(model, inputs, method):
    """Relevance as bytes, or the type of the error."""
    torch.set_num_threads(1)
    try:
        return USES[method](model, inputs).detach().numpy().tobytes()
    except (ValueError, UnassignedOperation) as error:
        return type(error).__name__


def in_a_fresh_process(family, own, shared, method):
    model, inputs = cases.family(family)
    for name in own:
        change(name, model, family, None)
    for name in shared:
        patched(name)  # until the process ends
    return explained(model.eval(), inputs, method)


class History(RuleBasedStateMachine):
    """Explains models, changes them, and explains them again."""

    def __init__(self):
        super().__init__()
        self.models = []
        self.shared = {}

    @rule(family=st.sampled_from(["bert", "bert", "llama"]))
    def load(self, family):
        self.models.append((family, *cases.family(family), []))

    def drawn(self, data):
        return self.models[data.draw(st.integers(0, len(self.models) - 1))]

    @precondition(lambda self: self.models)
    @rule(data=st.data(), name=st.sampled_from(OWN))
    def alter(self, data, name):
        family, model, _, own = self.drawn(data)
        if name not in own:
            change(name, model, family, None)
            model.eval()
            own.append(name)

    @rule(name=st.sampled_from(SHARED))
    def patch_or_undo(self, name):
        if name in self.shared:
            self.shared.pop(name).undo()
            return
        self.shared[name] = patched(name)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), method=st.sampled_from(METHODS))
    def explain(self, data, method):
        family, model, inputs, own = self.drawn(data)
        want = FRESH[0](in_a_fresh_process, family, own, [*self.shared], method)
        assert explained(model, inputs, method) == want, (family, own, [*self.shared], method)

    def teardown(self):
        for patch in self.shared.values():
            patch.undo()


History.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=16,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # every step of shrinking would start a process
)
FRESH = []


def test_every_answer_is_that_of_a_fresh_process():
    context = get_context("forkserver")  # whose processes have only imported
    context.set_forkserver_preload(["tests.support.user_changes", "tests.support.uses"])
    with context.Pool(1, maxtasksperchild=1) as pool:
        FRESH[:] = [lambda task, *args: pool.apply(task, args)]
        run_state_machine_as_test(History, settings=History.TestCase.settings)


UNSEEN = (
    "a mean for a pooler", "a call of a module", "a function without a file",
    "an object for a function", "a partial method",
)  # fmt: skip


@pytest.mark.parametrize("name", UNSEEN)
def test_a_changed_model_is_refused_before_and_after_one_of_its_config_is_explained(
    name, monkeypatch
):
    def of_changed():
        model, inputs = cases.family("bert")
        with monkeypatch.context() as patch:
            change(name, model, "bert", patch)
            return explained(model.eval(), inputs, "mask-relevance")

    meetings.KNOWN.clear()
    first = of_changed()
    assert isinstance(explained(*cases.family("bert"), "mask-relevance"), bytes)
    assert meetings.KNOWN
    assert of_changed() == first == "ValueError"
