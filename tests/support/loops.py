"""Leave-One-Out as anyone would write it: a forward pass for each token that goes."""

import torch


def hide(batch, column):
    batch["attention_mask"][:, column] = 0


def replace(batch, column):
    batch["input_ids"][:, column] = 7


def delete(batch, column, read=0):
    """Takes a column out; the token that is read cannot go, and is hidden."""
    if column == read:
        hide(batch, column)
        return
    for key, x in batch.items():
        batch[key] = torch.cat([x[:, :column], x[:, column + 1 :]], dim=1)


@torch.no_grad()
def losses(batch, value, change, places):
    """(..., text, place): how far ``value(batch)``, (..., text), falls when a place is changed."""
    whole, found = value(batch), []
    for place in places:
        changed = {key: x.clone() for key, x in batch.items()}
        change(changed, *place)
        found.append(whole - value(changed))
    return torch.stack(found, dim=-1)


def left_out(batch, value, change=hide):
    """(..., text, token): how far ``value(batch)`` falls without each token; 0 for padding."""
    columns = [(column,) for column in range(batch["input_ids"].shape[1])]
    return losses(batch, value, change, columns) * batch["attention_mask"]


def logits_of(model, target):
    """The value of a classifier: the logits of one class, or of one class for each text."""
    texts = lambda logits: torch.arange(len(logits))
    return lambda batch: (found := model(**batch).logits)[texts(found), target]
