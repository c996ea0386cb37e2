"""``python -m benchmarks.research.train_english FOLDER`` trains the embedded model of English."""

import argparse
import random
from pathlib import Path

import torch
from tokenizers import decoders
from tokenizers.pre_tokenizers import Whitespace

from lrp_axioms.benchmarks.research import english
from lrp_axioms.benchmarks.research.train_causes import (
    as_tensors,
    correct,
    descent,
    learn,
    network,
    tokenizer,
)

SEED, STEPS, BATCH, RATE = 0, 3000, 32, 1e-3
EVERY, LEAST = 250, 0.15  # steps, then kinds are drawn by their wrong answers; added to each
REPEATS = 0.6  # share of the first texts that teach to copy, which is 0 after half of the steps
OTHER = 0.05  # weight of words that are no answers: most are drawn at random
HELD_OUT = 10**6  # the seed of the accuracy's stories
ID = {word: number for number, word in enumerate(english.VOCABULARY)}


def reader():
    """Makes a tokenizer of words and signs, which writes no space before a sign."""
    found = tokenizer(ID, Whitespace)
    found.backend_tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return found


def accuracies(model, count: int, *, seed: int = HELD_OUT) -> dict[str, float]:
    """Returns kind of story -> share of fresh stories whose answer is the likeliest next word."""
    rng = random.Random(seed)
    drawn = {kind.__name__: [kind(rng) for _ in range(count)] for kind in english.KINDS}
    return {name: correct(model, stories, ID).mean().item() for name, stories in drawn.items()}


def main() -> None:
    """Trains with one thread, prints how far it is, and writes model and tokenizer."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng, model = random.Random(SEED), network(len(ID))
    optimizer, schedule = descent(model, STEPS, RATE)
    shares = {kind.__name__: 1.0 for kind in english.KINDS}
    for step in range(STEPS):
        repeats = REPEATS * max(0, 1 - 2 * step / STEPS)
        copies = sum(rng.random() < repeats for _ in range(BATCH))
        texts = [english.repeated(rng) for _ in range(copies)]
        texts += [english.text(rng, shares) for _ in range(BATCH - copies)]
        ids, weights = as_tensors(texts, ID, OTHER)
        loss = learn(model, ids, weights, optimizer, schedule)
        if step % EVERY == EVERY - 1:
            found = accuracies(model, 100, seed=step)
            shares = {kind: LEAST + 1 - right for kind, right in found.items()}
            shown = " ".join(f"{kind} {right:.2f}" for kind, right in found.items())
            print(f"{step + 1}, loss {loss.item():.3f}: {shown}", flush=True)
    model.eval().to(torch.float16).save_pretrained(options.folder)
    reader().save_pretrained(options.folder)
    for name, share in accuracies(model.float(), 1000).items():
        print(f"{name}: {share:.4f}")


if __name__ == "__main__":
    main()
