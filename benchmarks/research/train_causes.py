"""``python -m benchmarks.research.train_causes FOLDER`` trains the embedded language model."""

import argparse
import random
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lrp_axioms.benchmarks.experiments.causes.examples import DISTANCES, draw, examples
from lrp_axioms.benchmarks.experiments.causes.language import ID, KIND, TASKS, VOCABULARY, answer

SEED, STEPS, BATCH, RATE = 0, 8000, 64, 1e-3
WARM, TOGETHER = 100, 8  # steps until the full rate; batches that are drawn together
SHORT, GROWN = 0.15, 0.4  # size of the first prompts; share of the steps until they are whole
OTHER = 0.02  # weight of words that are no answers: most are random
EVERY = 250  # steps, then tasks are drawn again in proportion to their wrong answers
LEAST = 0.15  # added to every task's share, so that no task is forgotten
LONGEST = 62  # words of a sentence
HELD_OUT = 10**6  # the seed of the accuracy's prompts


def tokenizer(ids: dict[str, int] = ID, splits=WhitespaceSplit) -> PreTrainedTokenizerFast:
    """Makes a fast tokenizer of words between spaces, which puts <s> before them."""
    words = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    words.pre_tokenizer = splits()
    words.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", ids["<s>"])])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def network(words: int = len(VOCABULARY)) -> LlamaForCausalLM:
    """Makes a small model of the LLaMA architecture with random weights."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        pad_token_id=ID["<pad>"],
        bos_token_id=ID["<s>"],
        eos_token_id=ID["</s>"],
    )
    return LlamaForCausalLM(config)


def sentence(task: str, rng: random.Random, *, size: float = 1.0) -> tuple[list[str], set[int]]:
    """Draws a prompt, its answer, further questions about its text, a full stop, and the end.

    Returns the words and the positions of all answers among them.
    """
    example = draw(task, rng, size=size)
    words, answers = [*example.words, example.answer], {len(example.words)}
    for asked, of in FURTHER.get(task, lambda *_: ())(example, rng):
        if len(words) + len(asked) > LONGEST:
            break
        words += [*asked, of]
        answers.add(len(words) - 1)
    return [*words, ".", "</s>"], answers


def _of_others(example, rng):
    """Asks about all other words of the question's kind in the text."""
    *text, _, asked = example.words
    others = [word for word in text if KIND.get(word) == KIND[asked] and word != asked]
    rng.shuffle(others)
    for word in others:
        yield [word], answer(example.task, (*text, ";", word))


def _copied_on(example, _rng):
    """Yields the words after the answer: each in turn has a known successor in the text."""
    *listed, _ = example.words
    rest = listed[max(example.carriers) + 1 :]
    return (([], word) for word in rest)


def _closed_on(example, _rng):
    """Yields the brackets that close the text after the answer."""
    text, closing = example.words[:-1], example.answer
    while closing:
        text = (*text, closing)
        if closing := answer("brackets", (*text, ";")):
            yield [], closing


FURTHER = {
    "recall": _of_others,
    "induction": _copied_on,
    "brackets": _closed_on,
    "negation": _of_others,
}
"""Task -> further questions about the text of an example, each with its answer."""


def batches(rng: random.Random, size: int, steps: int, shares: dict[str, float]):
    """Ids, (sentence, word), and the weights of their words in the loss; sentences alike in length.

    ``shares``, by task, says how often it is drawn, and may change meanwhile.  Prompts are short
    at first.
    """
    for step in range(0, steps, TOGETHER):
        length = min(1.0, SHORT + step / (GROWN * steps))
        tasks = rng.choices([*shares], [*shares.values()], k=size * TOGETHER)
        drawn = sorted(
            (sentence(task, rng, size=length) for task in tasks), key=lambda found: len(found[0])
        )
        parts = [drawn[n : n + size] for n in range(0, len(drawn), size)]
        rng.shuffle(parts)
        yield from map(as_tensors, parts)


def as_tensors(part, of_words=ID, other=OTHER):
    """Returns ids and weights of sentences; words that are no answers weigh ``other``."""
    shape = len(part), 1 + max(len(words) for words, _ in part)
    ids, weights = torch.full(shape, of_words["<pad>"]), torch.zeros(shape)
    for row, (words, answers) in enumerate(part):
        ids[row, : len(words) + 1] = torch.tensor([of_words["<s>"], *map(of_words.get, words)])
        weights[row, 1 : len(words) + 1] = other
        weights[row, [n + 1 for n in answers]] = 1
    return ids, weights


def accuracies(model, count: int, *, seed: int = HELD_OUT) -> dict[tuple[str, str], float]:
    """Returns (task, distance) -> share of fresh prompts whose answer is predicted."""
    return {
        (task, distance): correct(model, examples(task, distance, count, seed=seed)).mean().item()
        for task in TASKS
        for distance in DISTANCES
    }


def correct(model, prompts, of_words=ID) -> torch.Tensor:
    """Whether the most probable next word is the answer, by prompt: 0.0 or 1.0."""
    ids, _ = as_tensors([(prompt.words, ()) for prompt in prompts], of_words)
    last = torch.tensor([len(prompt.words) for prompt in prompts])
    with torch.no_grad():  # padding comes after the row that is read, which cannot see it
        logits = model(input_ids=ids).logits[torch.arange(len(ids)), last]
    answers = torch.tensor([of_words[prompt.answer] for prompt in prompts])
    return (logits.argmax(dim=1) == answers).float()


def learn(model, ids, weights, optimizer, schedule) -> torch.Tensor:
    """Takes a step on the weighted cross-entropy of the next word, and returns it."""
    logits = model(input_ids=ids[:, :-1]).logits
    losses = cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    loss = (losses * weights[:, 1:]).sum() / weights[:, 1:].sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return loss


def descent(model, steps: int, rate: float, *, decay: float = 0.1, warm: float = WARM):
    """Returns AdamW and its schedule: a rise to ``rate`` in ``warm`` steps, then a line to 0."""
    matrices = [x for x in model.parameters() if x.ndim > 1]
    others = [x for x in model.parameters() if x.ndim == 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    pace = lambda step: min((step + 1) / warm, 1 - step / steps)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, pace)


def train(model) -> None:
    """Trains by AdamW on the weighted cross-entropy of the next word, with a linear decay."""
    optimizer, schedule = descent(model, STEPS, RATE)
    shares = dict.fromkeys(TASKS, 1.0)
    start, drawn = time.perf_counter(), batches(random.Random(SEED), BATCH, STEPS, shares)
    for step, (ids, weights) in zip(range(STEPS), drawn, strict=False):
        model.train()
        loss = learn(model, ids, weights, optimizer, schedule)
        if step % EVERY == EVERY - 1:
            found = accuracies(model.eval(), 40, seed=step)
            for task in TASKS:
                shares[task] = LEAST + 1 - min(found[task, distance] for distance in DISTANCES)
            shown = " ".join(
                f"{task[:3]} " + "/".join(f"{found[task, d]:.2f}" for d in DISTANCES)
                for task in TASKS
            )
            seconds = time.perf_counter() - start
            print(f"{step + 1} {seconds:.0f} s, loss {loss.item():.3f}: {shown}", flush=True)


def main() -> None:
    """Trains with one thread, prints how far it is, and writes model and tokenizer."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = network()
    train(model)
    model.eval().to(torch.float16).save_pretrained(options.folder)
    tokenizer().save_pretrained(options.folder)
    for (task, distance), share in accuracies(model.float(), 1000).items():
        print(f"{task} {distance}: {share:.4f}")


if __name__ == "__main__":
    main()
