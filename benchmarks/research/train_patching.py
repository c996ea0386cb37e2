"""``python -m benchmarks.research.train_patching FOLDER --norms before`` trains a small OPT.

With ``--norms after`` the same model has its norms after the sums that they normalise, and so two
models differ in nothing but that.  It takes 100 seconds of processor time.
"""

import argparse
import random
from pathlib import Path

import torch
from transformers import OPTForCausalLM

from lrp_axioms.benchmarks.experiments.causes.examples import DISTANCES, examples
from lrp_axioms.benchmarks.experiments.patching.pairs import network
from lrp_axioms.benchmarks.research.train_causes import HELD_OUT, batches, correct, learn, tokenizer

TASKS = ("agreement", "negation", "brackets", "recall")
STEPS, BATCH, WARM, DECAY = 3000, 32, 150, 0.05
RATES = {"before": 2e-3, "after": 1e-3}  # norms that come after need the smaller one


def train(model: OPTForCausalLM, *, rate: float, seed: int, steps: int = STEPS) -> None:
    """Trains by AdamW on the weighted cross-entropy of the next word, with a linear decay."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=DECAY
    )
    pace = lambda step: min((step + 1) / WARM, 1 - step / steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, pace)
    drawn = batches(random.Random(seed), BATCH, steps, dict.fromkeys(TASKS, 1.0))
    model.train()
    for _, (ids, weights) in zip(range(steps), drawn, strict=False):
        learn(model, ids, weights, optimizer, schedule)
    model.eval()


def main() -> None:
    """Trains with one thread, writes model and tokenizer, and prints the share of right answers."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--norms", choices=RATES, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = network(norms=options.norms, seed=options.seed)
    train(model, rate=RATES[options.norms], seed=options.seed)
    model.save_pretrained(options.folder)
    tokenizer().save_pretrained(options.folder)
    for task in TASKS:
        for distance in DISTANCES:
            share = correct(model, examples(task, distance, 200, seed=HELD_OUT)).mean()
            print(f"{task} {distance}: {share:.3f}")


if __name__ == "__main__":
    main()
