"""Checks the model that a user passes in, before anything runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _global_backward_hooks, _global_backward_pre_hooks
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.models import patches
from lrp_axioms.numeric.models.facts import ModelFacts, Modules, config_problems, modules_of

SENTENCES = "sentence_transformers"
STEPS = ("Transformer", "Pooling", "Dense", "Normalize")  # of its objects


def check_model(model: nn.Module) -> Modules:
    """Returns the modules of ``model`` with their paths, so that ``prepare`` need not search.

    Raises ValueError that lists all reasons of ``prepare`` to refuse the model.
    """
    modules = modules_of(model)
    problems = list(model_problems(model, modules))
    if problems:
        raise ValueError("\n".join(problems))
    return modules


def check_code(model: nn.Module) -> None:
    """Raises ValueError unless the code of ``model`` can be seen and is one at every run."""
    if not isinstance(model, nn.Module):
        raise ValueError(no_model(model))
    if problems := list(_code_problems(modules_of(model))):
        raise ValueError("\n".join(problems))


def model_problems(model: object, modules: Modules) -> Iterator[str]:
    """Yields the problems of a model, all of whose modules are ``modules``."""
    if not isinstance(model, PreTrainedModel):
        yield no_model(model)
        return
    yield from config_problems(model)
    yield from _code_problems(modules)
    named = getattr(model.config, "return_dict", True)
    if named is not True:
        said = f"config.return_dict={named}: the model returns logits without a name"
        yield f"{said}; set model.config.return_dict = True"
    parameters = patches.own_parameters([m for _, m in modules])
    if [x for x in parameters if x.is_inference()]:
        yield "model was made in inference mode and has no gradients; load it outside of that"


def check_no_wrapper(model: nn.Module) -> None:
    """Raises ValueError for a module around a Transformers model, whose words it does not name."""
    around = not isinstance(model, PreTrainedModel)
    if around and any(isinstance(x, PreTrainedModel) for _, x in modules_of(model)):
        raise ValueError(no_model(model))


def split_object(model: Any, tokenizer: Any) -> tuple[Any, Any, list[nn.Module]]:
    """Returns the model and tokenizer in an object of sentence-transformers, and later modules.

    Anything else is returned as it is.  Raises ValueError that lists modules it does not know.
    """
    if all(x.__module__.partition(".")[0] != SENTENCES for x in type(model).__mro__):
        return model, tokenizer, []
    steps = [(name, x) for name, x in model.named_children() if name.isdigit()]
    unknown = [f"{name}: {type(x).__name__}" for name, x in steps if type(x).__name__ not in STEPS]
    if unknown:
        raise ValueError(
            f"{type(model).__name__} has modules other than {', '.join(STEPS)}: "
            f"{', '.join(unknown)}; pass the Transformers model in it"
        )
    inside = next((x for _, x in modules_of(model) if isinstance(x, PreTrainedModel)), model)
    return inside, model.tokenizer if tokenizer is None else tokenizer, [x for _, x in steps[1:]]


def open_object(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Returns the model and tokenizer in a CrossEncoder; others as they are.

    Raises ValueError for an object that computes with the model's output, as a SentenceTransformer.
    """
    inside, tokenizer, after = split_object(model, tokenizer)
    if after:
        raise ValueError(
            f"{type(model).__name__} computes {', '.join(type(x).__name__ for x in after)} of the "
            "output of its model; call explain_similarity(model, None, a, b) for two texts, or "
            "pass the Transformers model in it"
        )
    return inside, tokenizer


def no_model(model: Any) -> str:
    said = f"model is a {type(model).__name__}; pass "
    inside = next((p for p, m in modules_of(model) if isinstance(m, PreTrainedModel)), None)
    if inside is None:
        own = isinstance(model, nn.Module)
        named = (
            ", or call attribute(module, inputs, of=NAME, read=FUNCTION), which takes any module"
        )
        return said + "a Transformers model" + named * own
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        return said + "a model without prompts of PEFT: its base model is another function"
    if hasattr(model, "get_base_model"):  # a model of PEFT
        return said + "model.get_base_model(); adapters such as LoRA stay in it"
    known = all(part.isidentifier() for part in inside.split("."))
    place = f"model.{inside}" if known else f"model.get_submodule({inside!r})"
    return said + f"the Transformers model in it, {place}"


def _code_problems(modules: Modules) -> Iterator[str]:
    training = [path or "(root)" for path, m in modules if m.training]
    if training:
        yield (
            f"train mode: {len(training)} modules, first {training[0]}: dropout would make "
            "relevance random; call model.eval() first"
        )
    compiled = [
        path or "(root)"
        for path, m in modules
        if m._compiled_call_impl
        or "_orig_mod" in m._modules
        or (
            hasattr(m.forward, "_torchdynamo_orig_callable")
            and not getattr(m.forward, "_torchdynamo_disable", False)
        )
    ]
    if compiled:
        yield (
            f"compiled: {len(compiled)} modules, first {compiled[0]}: compiled code may run past "
            "the propagation rules; pass the model as it was before model.compile()"
        )
    scripted = [path or "(root)" for path, m in modules if isinstance(m, torch.jit.ScriptModule)]
    if scripted:
        yield (
            f"TorchScript: {len(scripted)} modules, first {scripted[0]}: its code runs past the "
            "propagation rules; pass the model as it was before torch.jit"
        )
    hooked = [path or "(root)" for path, m in modules if m._backward_hooks or m._backward_pre_hooks]
    hooked += ["(all modules)"] * bool(_global_backward_hooks or _global_backward_pre_hooks)
    if hooked:
        yield (
            f"backward hooks on {len(hooked)} modules, {', '.join(hooked)}: relevance goes back in "
            "place of gradients, and is no more what such a hook expects; remove them for the call "
            "(handle.remove())"
        )


@contextmanager
def guarded_run(model: nn.Module, inputs: Any) -> Iterator[None]:
    """Turns autocast off; ValueError for errors that ``inputs.call(model)`` has without rules."""
    off = torch.autocast(inputs.device.type, enabled=False)
    try:
        with off:
            yield
    except (UnassignedOperation, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        # Models refuse a text whose placeholders are not as many as the features of its image.
        if isinstance(error, ValueError) and not getattr(inputs, "mixed", False):
            raise
        try:
            with off, outside(), torch.no_grad():
                inputs.call(model)
        except Exception as own:  # the code of a model raises any type
            raise ValueError(
                f"{type(model).__name__} itself fails on this input ({type(own).__name__}: {own}); "
                "check its config and the input, or pass a model that runs"
            ) from error
        raise


def mask_problems(facts: ModelFacts) -> Iterator[str]:
    """Yields a problem if Transformers drops the mask of this attention, silently."""
    name = facts.attention
    if name not in ALL_MASK_ATTENTION_FUNCTIONS:
        yield (
            f"attention {name!r} has no mask function, without which Transformers drops "
            f"attention_mask; call transformers.AttentionMaskInterface.register({name!r}, f), "
            "with f such as transformers.masking_utils.eager_mask"
        )
