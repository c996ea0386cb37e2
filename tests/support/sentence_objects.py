"""Modules of the names and forms of sentence-transformers, which the tests do without."""

from torch import nn

from lrp_axioms.numeric.models.checks import SENTENCES


def named(name, *bases, **members):
    return type(name, bases or (nn.Module,), {"__module__": f"{SENTENCES}.x", **members})


Step = named("Transformer", nn.Sequential)
Mean = named("Pooling", pooling_mode="mean", forward=lambda _, x: x | {
    "sentence_embedding": x["token_embeddings"].mean(dim=1)})  # fmt: skip
Unit = named("Normalize", forward=lambda _, x: x | {
    "sentence_embedding": nn.functional.normalize(x["sentence_embedding"])})  # fmt: skip


def encode(self, texts, **_):
    (model,), *steps = self.eval()  # as the library does
    rows = model(**self.tokenizer(texts, return_tensors="pt")).last_hidden_state
    found = {"token_embeddings": rows[:, : self.cut]}
    for step in steps:
        found = step(found)
    return found["sentence_embedding"].detach()


Encoder = named("SentenceTransformer", nn.Sequential, encode=encode, cut=None, tokenizer=None)
Crossed = named("CrossEncoder", nn.Sequential, tokenizer=None)
