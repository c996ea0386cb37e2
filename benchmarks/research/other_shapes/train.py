"""``python -m benchmarks.research.other_shapes.train FOLDER`` trains small classifiers of SST-2.

They have the shapes of RoBERTa and LLaMA, start from random weights, and learn the logits that the
embedded model gives to the training sentences.  Whatever is chosen with that model at hand can be
checked on them, seed by seed.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    LlamaConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaConfig,
)

from lrp_axioms.axioms.writing import write_atomically
from lrp_axioms.benchmarks.research.train_causes import descent
from lrp_axioms.benchmarks.sources import data, models

EPOCHS, BATCH, RATE = 3, 128, 1e-3
WARM = 0.05  # share of the steps until the full rate
TOGETHER = 50  # batches that are drawn together, so that their texts are alike in length
HIDDEN_WORDS = 0.1  # share of the tokens of a text that are masked in training
LABELS = 0.5  # weight of the cross-entropy of labels beside the squared error of logits
SIZE = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "num_labels": 2,
    "id2label": {0: "negative", 1: "positive"},
    "label2id": {"negative": 0, "positive": 1},
}


def tokenizer() -> PreTrainedTokenizerBase:
    """Loads the tokenizer of the embedded classifier, without token types."""
    return AutoTokenizer.from_pretrained(
        models.EMBEDDED["embedded"], model_input_names=["input_ids", "attention_mask"]
    )


SHAPES = {
    "roberta": (
        RobertaConfig,
        {"intermediate_size": 256, "type_vocab_size": 1, "attention_probs_dropout_prob": 0.0},
    ),
    # Three matrices of 176 hold about as much as two of 256.
    "llama": (LlamaConfig, {"intermediate_size": 176}),
}
"""An encoder with norms behind its blocks, and GELU; and causal attention, RMSNorm before the
blocks and gated MLPs, read at the last token."""


def untrained(shape: str, seed: int) -> PreTrainedModel:
    """Makes a model of a shape with random weights."""
    torch.manual_seed(seed)
    words, (configuration, sizes) = tokenizer(), SHAPES[shape]
    special = {
        "vocab_size": len(words),
        "pad_token_id": words.pad_token_id,
        "bos_token_id": words.cls_token_id,
        "eos_token_id": words.sep_token_id,
    }
    return AutoModelForSequenceClassification.from_config(configuration(**SIZE, **special, **sizes))


def encode(texts: Sequence[str], words: PreTrainedTokenizerBase) -> list[Tensor]:
    return [torch.tensor(ids) for ids in words(list(texts), truncation=True)["input_ids"]]


def padded(ids: Sequence[Tensor], pad: int) -> dict[str, Tensor]:
    rows = pad_sequence(list(ids), batch_first=True, padding_value=pad)
    return {"input_ids": rows, "attention_mask": (rows != pad).long()}


@torch.no_grad()
def logits(model: PreTrainedModel, ids: Sequence[Tensor], pad: int) -> Tensor:
    """Computes logits (text, class) in batches of texts of similar length."""
    order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
    found = torch.empty(len(ids), model.config.num_labels)
    for start in range(0, len(order), 256):
        part = order[start : start + 256]
        found[part] = model.eval()(**padded([ids[n] for n in part], pad)).logits
    return found


def batches(ids: Sequence[Tensor], rng: torch.Generator) -> Iterator[list[int]]:
    """Yields all texts once, in batches of similar length and random order."""
    order = torch.randperm(len(ids), generator=rng).tolist()
    for start in range(0, len(order), BATCH * TOGETHER):
        drawn = sorted(order[start : start + BATCH * TOGETHER], key=lambda n: len(ids[n]))
        parts = [drawn[n : n + BATCH] for n in range(0, len(drawn), BATCH)]
        yield from (parts[n] for n in torch.randperm(len(parts), generator=rng).tolist())


def train(
    model: PreTrainedModel,
    ids: Sequence[Tensor],
    taught: Tensor,
    labels: Tensor,
    *,
    words: PreTrainedTokenizerBase,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> None:
    """Trains by AdamW on the squared error of logits and the cross-entropy, with a linear decay.

    taught: (text, class), logits of the teacher   labels: (text,)
    """
    rng = torch.Generator().manual_seed(seed)
    steps = epochs * -(-len(ids) // BATCH)
    optimizer, schedule = descent(model, steps, RATE, decay=0.05, warm=WARM * steps)
    special = torch.tensor(words.all_special_ids)
    start = time.process_time()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for part in batches(ids, rng):
            inputs = padded([ids[n] for n in part], words.pad_token_id)
            rows = inputs["input_ids"]
            lost = torch.rand(rows.shape, generator=rng) < HIDDEN_WORDS
            inputs["input_ids"] = rows.where(torch.isin(rows, special) | ~lost, words.mask_token_id)
            found = model(**inputs).logits
            loss = mse_loss(found, taught[part]) + LABELS * cross_entropy(found, labels[part])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(part)
        seconds = time.process_time() - start
        print(f"epoch {epoch + 1}: loss {total / len(ids):.3f}, {seconds:.0f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains with one thread, prints how far it is, and writes models and tokenizers."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    words = tokenizer()
    learned = data.load("sst2", data_dir=options.data_dir, training=True)
    held_out = data.load("sst2", data_dir=options.data_dir)
    ids = encode(learned.texts, words)
    labels = torch.tensor(learned.labels)
    taught = teacher(options.folder, learned.sha256, ids, words.pad_token_id)
    print(f"{len(ids)} texts; the teacher is right on {_right(taught, labels):.3f}", flush=True)
    for seed in options.seeds:
        for shape in SHAPES:
            folder = options.folder / f"{shape}-s{seed}"
            print(folder, flush=True)
            model = untrained(shape, seed)
            train(model, ids, taught, labels, words=words, epochs=options.epochs, seed=seed)
            model.eval().to(torch.float16).save_pretrained(folder)
            words.save_pretrained(folder)
            found = logits(model.float(), encode(held_out.texts, words), words.pad_token_id)
            share = _right(found, torch.tensor(held_out.labels))
            print(f"{folder}: right on {share:.4f} of {len(found)} dev sentences", flush=True)


def teacher(folder: Path, texts: str, ids: Sequence[Tensor], pad: int) -> Tensor:
    """Computes logits of the embedded classifier, (text, class); ``texts`` is their SHA-256.

    The folder keeps logits in a file for each classifier and for each set of texts.
    """
    classifier = models.load()
    path = folder / f"teacher-{classifier.sha256[:12]}-{texts[:12]}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save({"logits": logits(classifier.model, ids, pad)}))
    return load_file(path)["logits"]


def _right(found, labels):
    return (found.argmax(dim=1) == labels).double().mean().item()


if __name__ == "__main__":
    main()
