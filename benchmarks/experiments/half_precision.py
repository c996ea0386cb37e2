"""How far relevance in bfloat16 is from that in float32 of the same weights.

``python -m benchmarks.experiments.half_precision`` prints the table of
docs/LONG_TEXTS.md, in ten minutes.  The error of the plain gradient x input says what of it is the
number format's.
"""

import copy
import random
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.experiments.causes.examples import DRAW, draw
from benchmarks.running.timing import random_text
from benchmarks.sources import data, models
from numeric import attribute

METHODS = ("gradient-x-input", "attnlrp", "cp-lrp")
LARGEST = 5
VOCABULARY = 1024
QWEN2_05B = dict(
    hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
    intermediate_size=4864, vocab_size=VOCABULARY,
)  # fmt: skip
"""The shape of Qwen2-0.5B, whose own vocabulary is larger and costs memory alone."""
Inputs = dict[str, Tensor]


def rounded(model, dtype: torch.dtype):
    """A copy with weights rounded to bfloat16, held and used in ``dtype``; no other tensor is.

    As ``from_pretrained(..., dtype=...)`` does it, which leaves the angles of positions alone.
    """
    other = copy.deepcopy(model)
    for weight in other.parameters():
        weight.data = weight.data.bfloat16().to(dtype)
    return other


def differences(found: Tensor, want: Tensor) -> tuple[float, float, float]:
    """Of two rows of relevance: the distance as a share of the norm, Pearson's r, and the share of
    the ``LARGEST`` tokens by absolute value that are the same."""
    found, want = found.double(), want.double()
    r = torch.corrcoef(torch.stack([found, want]))[0, 1]
    tops = [set(x.abs().topk(min(LARGEST, len(x))).indices.tolist()) for x in (found, want)]
    same = len(tops[0] & tops[1]) / len(tops[1])
    return ((found - want).norm() / want.norm()).item(), r.item(), same


def measured(model, texts: Iterable[Inputs]) -> dict[str, np.ndarray]:
    """By method: ``differences`` of bfloat16 from float32 (text, difference), one text at a time.

    The target is what the model predicts in float32.
    """
    exact, half = rounded(model, torch.float32), rounded(model, torch.bfloat16)
    rows: dict[str, list] = {method: [] for method in METHODS}
    for text in texts:
        for method in METHODS:
            want = attribute(exact, text, method)
            found = attribute(half, text, method, want.target)
            rows[method].append(differences(found.relevance[0], want.relevance[0]))
    return {method: np.array(values) for method, values in rows.items()}


def sentences(count: int) -> tuple[object, list[Inputs]]:
    """The embedded classifier and its first sentences."""
    found = models.load()
    texts = list(data.load().texts)[:count]
    return found.model, [dict(found.tokenizer(text, return_tensors="pt")) for text in texts]


def prompts(count: int) -> tuple[object, list[Inputs]]:
    """The embedded language model and prompts of its language, of all tasks in turn."""
    found, rng, tasks = models.load("embedded-lm"), random.Random(0), list(DRAW)
    texts = [" ".join(draw(tasks[n % len(tasks)], rng).words) for n in range(count)]
    return found.model, [dict(found.tokenizer(text, return_tensors="pt")) for text in texts]


def long_texts(count: int, tokens: int = 1024) -> tuple[object, list[Inputs]]:
    """A model of the shape of Qwen2-0.5B with random weights, and texts without meaning."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**QWEN2_05B)).eval()
    whole = random_text(model, batch=count, tokens=tokens)
    return model, [{key: x[n : n + 1] for key, x in whole.items()} for n in range(count)]


def table() -> Iterator[str]:
    """Lines in Markdown."""
    yield "| model | texts | method | distance | Pearson's r | largest five |"
    yield "|---|--:|---|--:|--:|--:|"
    for name, (model, texts) in {
        "embedded BERT, 12 layers": sentences(200),
        "embedded language model": prompts(200),
        "Qwen2-0.5B, random, 1,024 tokens": long_texts(2),
    }.items():
        for method, values in measured(model, texts).items():
            low, error, high = np.quantile(values[:, 0], (0.25, 0.5, 0.75))
            _, r, _ = np.median(values, axis=0)
            shown = f"{error:.3f} [{low:.3f}, {high:.3f}] | {r:.4f} | {values[:, 2].mean():.2f}"
            yield f"| {name} | {len(texts)} | {method} | {shown} |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
