"""Pairs of texts that differ in one word, the logits that tell them apart, and random models."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from lrp_axioms.benchmarks.experiments.causes.examples import examples
from lrp_axioms.benchmarks.experiments.causes.language import (
    ID,
    NO_ANSWER,
    TASKS,
    VOCABULARY,
    replacements,
)
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.targets import Target, logit

SEED = 3 * 10**6  # of the prompts; training, its accuracy and "causes" have other seeds
DISTANCES = ("near", "middle")
OPPOSITES = (
    "good bad", "great awful", "wonderful dreadful", "brilliant dull", "lovely ugly",
    "clever stupid", "funny boring", "best worst", "love hate", "beautiful ugly",
    "finest poorest", "marvellous terrible", "splendid wretched", "tender cold", "fresh stale",
    "never always", "moving boring", "better worse", "gripping tedious", "happy sad",
)  # fmt: skip
OPPOSITE = {b: a for a, b in map(str.split, OPPOSITES)} | dict(map(str.split, OPPOSITES))
"""Judging word -> its opposite; of several, the last one listed."""
Inputs = dict[str, torch.Tensor]


def network(*, norms: str, seed: int, init_std: float = 0.02) -> PreTrainedModel:
    """Makes an OPT of 4 layers with random weights, norms before or after attention and MLP."""
    from transformers import OPTConfig, OPTForCausalLM

    torch.manual_seed(seed)
    config = OPTConfig(
        vocab_size=len(VOCABULARY), hidden_size=64, word_embed_proj_dim=64, ffn_dim=128,
        num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=64, dropout=0.0,
        activation_function="gelu", init_std=init_std, do_layer_norm_before=norms == "before",
        tie_word_embeddings=False, pad_token_id=ID["<pad>"], bos_token_id=ID["<s>"],
        eos_token_id=ID["</s>"],
    )  # fmt: skip
    return OPTForCausalLM(config)


@dataclass(frozen=True)
class Pair:
    """A text, copies with one word replaced and with that word masked, and the target."""

    text: str
    clean: Inputs
    other: Inputs
    masked: Inputs | None  # None: the tokenizer has no mask
    target: Target


def text_pairs(classifier: Classifier, texts: Sequence[str], count: int) -> Iterator[Pair]:
    """Yields the ``count`` shortest texts with a word whose opposite has as many tokens.

    The target is the logit of the predicted class less the logit of the second class.
    """
    found = []
    for text in texts:
        word = next((x for x in re.finditer(r"[a-z]+", text) if x[0] in OPPOSITE), None)
        if word is not None:
            changed = text[: word.start()] + OPPOSITE[word[0]] + text[word.end() :]
            clean, other = (_encoded(classifier, x) for x in (text, changed))
            if clean["input_ids"].shape == other["input_ids"].shape:
                found.append((text, clean, other))
    found.sort(key=lambda x: x[1]["input_ids"].shape[1])
    mask = classifier.tokenizer.mask_token_id
    for text, clean, other in found[:count]:
        ids = clean["input_ids"]
        differ = ids != other["input_ids"]
        masked = None if mask is None else clean | {"input_ids": ids.masked_fill(differ, mask)}
        with torch.inference_mode():
            first, second = classifier.model(**clean).logits[0].topk(2).indices.tolist()
        yield Pair(text, clean, other, masked, logit(first) - logit(second))


def prompt_pairs(classifier: Classifier, count: int, *, right: bool = True) -> Iterator[Pair]:
    """Yields ``count`` prompts of the language of causes, with a word that carries the answer.

    Tasks and distances take turns.  The target is the logit of the answer less the logit of the
    other word's answer.  ``right``: of four times as many prompts, keeps pairs that the model
    answers right.
    """
    rng = random.Random(SEED)
    cells = [(task, distance) for task in TASKS for distance in DISTANCES]
    each = -(-4 * count // len(cells))
    drawn = [examples(task, distance, each, seed=SEED) for task, distance in cells]
    found = 0
    for example in (of_cell[n] for n in range(each) for of_cell in drawn):
        carrier = rng.choice(sorted(example.carriers))
        others = replacements(example.task, example.words, carrier)
        words, answer = rng.choice([x for x in others if x[1] not in (NO_ANSWER, example.answer)])
        clean, other = (_encoded(classifier, " ".join(x)) for x in (example.words, words))
        first, second = (ID[x] for x in (example.answer, answer))
        if right and [_predicted(classifier, x) for x in (clean, other)] != [first, second]:
            continue
        yield Pair(" ".join(example.words), clean, other, None, logit(first) - logit(second))
        found += 1
        if found == count:
            return


def _encoded(classifier: Classifier, text: str) -> Inputs:
    return dict(classifier.tokenizer(text, return_tensors="pt", return_token_type_ids=False))


def _predicted(classifier: Classifier, inputs: Inputs) -> int:
    with torch.inference_mode():
        return int(classifier.model(**inputs).logits[0, -1].argmax())
