"""What a user passes in, checked once, before anything runs."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_backward_hooks, _global_backward_pre_hooks
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from numeric import batches, heads
from numeric.batches import DECODER, KEYS, PIXELS, Batch, made
from numeric.fast import families, patches
from numeric.targets import problems as target_problems

WRAPPERS = {
    "torch._dynamo.eval_frame.OptimizedModule": "model._orig_mod",
    "torch.nn.parallel.data_parallel.DataParallel": "model.module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "model.module",
    "peft.peft_model.PeftModel": "model.get_base_model(), which keeps adapters such as LoRA",
}
"""Modules around a model, by class and place of it -> what to pass instead."""
HEAD = re.compile("For[A-Z]")
"""In names of classes with logits, of which some say that they are their own base model."""
Modules = list[tuple[str, nn.Module]]  # each with its path


def check_model(model: nn.Module) -> Modules:
    """The modules of ``model`` with their paths, for ``prepare`` to look at instead of a search.

    Raises ValueError that lists all for which ``prepare`` refuses the model.
    """
    modules = _modules(model)
    problems = list(_model_problems(model, modules))
    if problems:
        raise ValueError("\n".join(problems))
    return modules


def check_code(model: nn.Module) -> None:
    """Raises ValueError unless the code of ``model`` can be seen and is the same at every run."""
    if not isinstance(model, PreTrainedModel):
        raise ValueError(_no_model(model, "a Transformers model"))
    if problems := list(_code_problems(_modules(model))):
        raise ValueError("\n".join(problems))


def prepare(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    *,
    targets: Sequence = (),
    modules: Modules | None = None,
) -> Batch:
    """``inputs`` as a Batch, or one ValueError that lists everything that is wrong.

    Refuses a model in train mode, missing or unknown keys, wrong shapes, ids outside the
    vocabulary, more tokens than the model has positions, examples without tokens, a mask over
    the token that the model reads, and ``targets`` that are none for any model.  ``modules`` are
    those of the model, if they are known from ``check_model``.
    """
    modules = _modules(model) if modules is None else modules
    structure = STRUCTURE.get(getattr(model, "main_input_name", ""), _structure_problems)
    problems = [*_model_problems(model, modules), *structure(model, inputs)]
    if not problems:
        batch = made(model, inputs)
        problems = [] if batch.input_ids is None else list(_value_problems(model, batch, modules))
        problems += _written_problems(model, batch)
        problems += target_problems(targets, len(batch.attention_mask))
    if problems:
        raise ValueError("\n".join(problems))
    return batch


def _modules(model):
    """What ``named_modules()`` gives, in a third of its time."""
    found: dict[nn.Module, str] = {}
    waiting = [("", model)] if isinstance(model, nn.Module) else []
    while waiting:
        path, module = waiting.pop()
        if module not in found:
            found[module] = path
            start = path and path + "."
            inside = reversed(module._modules.items())
            waiting += [(start + name, child) for name, child in inside if child is not None]
    return [(path, module) for module, path in found.items()]


def read_tokens(model: nn.Module, batch: Batch) -> Tensor | None:
    """The token of every example whose row the model reads its logits from: (batch,).

    None of classifiers without a record in ``numeric.fast.families``.
    """
    reads, mask = families.reads(model), batch.attention_mask
    if batch.decoder_input_ids is not None or families.is_causal(model):
        return last(batch.predicting[1] == 1)
    if reads == families.FIRST:
        return mask.new_zeros(len(mask), dtype=torch.int64)
    if reads is None:
        return None
    pad = model.config.get_text_config().pad_token_id
    return last(torch.ones_like(mask) if pad is None else batch.input_ids != pad)


def last(present: Tensor) -> Tensor:
    """The last column of every row in which there is something."""
    return (torch.arange(present.shape[1], device=present.device) * present).argmax(dim=1)


def _model_problems(model, modules):
    name = type(model).__name__
    headless = getattr(model, "base_model", None) is model and not HEAD.search(name)
    if not isinstance(model, PreTrainedModel) or headless:
        yield _no_model(model, "a Transformers sequence classifier")
        return
    yield from _code_problems(modules)
    if not getattr(model.config, "return_dict", True):
        yield "config.return_dict=False: logits have no name; set model.config.return_dict = True"
    parameters = patches.own_parameters([m for _, m in modules])
    if [x for x in parameters if x.is_inference()]:
        yield "model was made in inference mode and has no gradients; load it outside of that"


def _no_model(model, wanted):
    classes = [f"{cls.__module__}.{cls.__name__}" for cls in type(model).__mro__]
    within = next((WRAPPERS[name] for name in classes if name in WRAPPERS), wanted)
    return f"model is a {type(model).__name__}; pass {within}"


def _code_problems(modules):
    training = [path or "(root)" for path, m in modules if m.training]
    if training:
        yield (
            f"train mode: {len(training)} modules, first {training[0]}: dropout would make "
            "relevance random; call model.eval() first"
        )
    compiled = [path or "(root)" for path, m in modules if m._compiled_call_impl]
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


def mask_problems(model: nn.Module):
    """What is wrong where Transformers drops the attention mask, silently."""
    name = model.config.get_text_config()._attn_implementation
    if name not in ALL_MASK_ATTENTION_FUNCTIONS:
        yield (
            f"attention {name!r} has no mask function, without which Transformers drops "
            f"attention_mask; call transformers.AttentionMaskInterface.register({name!r}, f), "
            "with f such as transformers.masking_utils.eager_mask"
        )


def _structure_problems(model, inputs):
    if not isinstance(inputs, Mapping):
        yield (
            f"inputs is a {type(inputs).__name__}; pass the tokenizer's batch, such as "
            'tokenizer(["a fine film"], padding=True, return_tensors="pt")'
        )
        return
    keys = (*KEYS, DECODER) if _has_decoder(model) else KEYS
    unknown = [key for key in inputs if key not in keys]
    if unknown:
        yield f"inputs has {', '.join(map(repr, unknown))}; it may have {', '.join(keys)}"
    ids = inputs.get("input_ids")
    if ids is None:
        yield "inputs has no input_ids; pass the tokenizer's batch"
    for key, value in inputs.items():
        if key in keys and value is not None:
            yield from _tensor_problems(key, value, ids)


def _has_decoder(model):
    """Whether a model reads a text, and what a decoder has written of another one."""
    if not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return False
    return DECODER in signature(model.forward).parameters


def _tensor_problems(key, value, ids):
    if not isinstance(value, Tensor):
        yield f'{key} is a {type(value).__name__}; call the tokenizer with return_tensors="pt"'
    elif key != "attention_mask" and value.dtype not in (torch.int64, torch.int32):
        yield f"{key} has dtype {value.dtype}; pass int64"
    elif value.ndim != 2:
        yield f"{key} has shape {tuple(value.shape)}; it must be (batch, token)"
    elif key == DECODER and isinstance(ids, Tensor) and value.shape[0] != ids.shape[0]:
        yield f"{key} has {len(value)} examples, and input_ids {len(ids)}"
    elif key != DECODER and isinstance(ids, Tensor) and value.shape != ids.shape:
        yield f"{key} has shape {tuple(value.shape)} but input_ids {tuple(ids.shape)}"


def _value_problems(model, batch, modules):
    limit = partial(getattr, model.config)
    tokens, most = batch.input_ids.shape[1], _positions(model, modules)
    if tokens > most:
        yield (
            f"text of {tokens} tokens is longer than the model's {most} positions; "
            "split or shorten it, or pass attribute what the tokenizer leaves (truncation=True)"
        )
    yield from _range_problems("token id", batch.input_ids, limit("vocab_size", 1 << 62))
    if batch.token_type_ids is not None and limit("type_vocab_size", None) is None:
        yield f"{type(model).__name__} has no token types; leave token_type_ids out of the inputs"
    elif batch.token_type_ids is not None:
        yield from _range_problems("token type", batch.token_type_ids, limit("type_vocab_size", 1))
    odd = batch.attention_mask[(batch.attention_mask != 0) & (batch.attention_mask != 1)]
    if len(odd):
        yield f"attention_mask has the value {odd[0].item()}; it must be 0 or 1"
    absent = batch.attention_mask != 1
    if absent.any():
        yield from mask_problems(model)
    empty = absent.all(dim=1).nonzero()[:, 0].tolist()
    if empty:
        yield f"empty text: no token in examples {empty}; leave them out of the batch"
    if not len(batch.input_ids):
        yield "empty batch: input_ids has no examples; pass at least one text"
    if families.reads(model) == families.LAST:
        yield from _last_token_problems(model, batch, empty)
    headless = [row for row in range(len(absent)) if row not in empty and absent[row, 0]]
    if headless and families.reads(model) == families.FIRST:
        yield (
            f"first token masked out in examples {headless}, although the model reads its logits "
            'there; pad on the right (tokenizer.padding_side = "right")'
        )


def _written_problems(model, batch):
    """What is wrong with what a decoder has written so far."""
    written = batch.decoder_input_ids
    if written is None:
        if _has_decoder(model) and model.can_generate() and heads.kind(model) == heads.CLASSES:
            yield (
                f"a {type(model).__name__} reads one text and writes another: pass {DECODER}, what "
                "it has written so far, or call numeric.explain_generation"
            )
        return
    yield from _range_problems("token id", written, getattr(model.config, "vocab_size", 1 << 62))
    most = getattr(model.config, "max_target_positions", None) or positions(model)
    if not 0 < written.shape[1] <= most:
        yield f"{DECODER} has {written.shape[1]} tokens; pass 1, with which it starts, to {most}"


STRUCTURE = {PIXELS: batches.image_problems, batches.SOUND: batches.sound_problems}
"""By the main input of a model, where that is no text."""


def positions(model: nn.Module) -> int:
    """The longest text that the model has positions for: rotation has no end."""
    return _positions(model, _modules(model))


def _positions(model, modules):
    if getattr(model.config, "rope_parameters", None):
        return 1 << 62
    padding = families.padding_position([module for _, module in modules])
    taken = 0 if padding is None else padding + 1  # none of these is for a token
    most = getattr(model.config, "max_position_embeddings", None)
    return (1 << 62) if most is None or most < 0 else most - taken  # XLNet says -1


def _last_token_problems(model, batch, empty):
    pad = model.config.get_text_config().pad_token_id
    if pad is None and len(batch.input_ids) > 1:
        yield (
            f"batch of {len(batch.input_ids)} texts, but the config has pad_token_id=None, by "
            "which the model finds the last token of each; set model.config.pad_token_id to the "
            "tokenizer's, or pass one text at a time"
        )
        return
    read = batch.attention_mask.gather(1, read_tokens(model, batch)[:, None])[:, 0]
    hidden = [row for row in (read != 1).nonzero()[:, 0].tolist() if row not in empty]
    if hidden:
        yield (
            f"examples {hidden}: the model reads the last token whose id is not pad_token_id="
            f"{pad}, and attention_mask hides it; pad with that id"
        )


def _range_problems(name, ids, size):
    wrong = ((ids < 0) | (ids >= size)).nonzero().tolist()
    if wrong:
        example, token = wrong[0]
        yield (
            f"{name} out of range at {len(wrong)} places, first {ids[example, token].item()} at "
            f"example {example}, token {token}; the model has 0 to {size - 1}: is this the "
            "model's own tokenizer?"
        )
