"""Model folders as ``save_pretrained`` writes them, and ways to spoil one."""

import hashlib
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import BertTokenizerFast

from tests.support import cases

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "dull", "soup", "."]


def tiny(folder, **options):
    """A random BERT of three classes, whose tokenizer knows WORDS."""
    cases.tiny_bert(vocab_size=len(WORDS), **options).float().save_pretrained(folder)
    vocabulary = folder.with_suffix(".txt")
    vocabulary.write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(vocabulary)).save_pretrained(folder)
    return folder


def copy(folder, to, *changes):
    """``folder`` again, with each of ``changes`` made to it in turn."""
    shutil.copytree(folder, to)
    for change in changes:
        change(to)
    return to


def put(file, content):
    """Replaces a file; None removes it."""

    def change(folder):
        (folder / file).unlink(missing_ok=True)
        if content is not None:
            (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def settings(file="config.json", **new):
    """Adds keys to a JSON file."""

    def change(folder):
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | new))

    return change


def weights(change_of):
    """Replaces every tensor of the weights."""

    def change(folder):
        path = folder / "model.safetensors"
        found = {name: change_of(tensor) for name, tensor in load_file(path).items()}
        save_file(found, path, metadata={"format": "pt"})

    return change


def pickled(content):
    """Puts a pickle in the place of the weights."""

    def change(folder):
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return change


def indexed(index):
    """The weights under another name, and an index of shards."""

    def change(folder):
        (folder / "model.safetensors").rename(folder / "shard.safetensors")
        (folder / "model.safetensors.index.json").write_text(index)

    return change


def in_hub(home, kind, name, revision, folder):
    """Keeps ``folder`` as the Hub's libraries do: blobs, a snapshot of links to them, and refs."""
    repository = home / "hub" / f"{kind}s--{name.replace('/', '--')}"
    commit = "0" * 40 if revision == "main" else revision
    for file in (path for path in folder.rglob("*") if path.is_file()):
        blob = repository / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        link = repository / "snapshots" / commit / file.relative_to(folder)
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
