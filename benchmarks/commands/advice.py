"""Advice of the library in the words of a command: its options, and not arguments of Python."""

import re

from lrp_axioms.numeric.spelling import printable

INSTEAD = {
    "split or shorten it, or call attribute with tokenizer(text, truncation=True)": (
        "split or shorten it"
    ),
    "remove them from the text, or call attribute(model, inputs) with tokenizer(text, "
    "add_special_tokens=False)": "remove them from the text",
    "call attribute() for each token, on the text before it": (
        "explain each token by itself, as the next token of the text before it"
    ),
    "pass epsilon=1e-6, or load the model in float32": "pass --dtype float32, or another --method",
    "put a token in their place, removal=tokenizer.mask_token_id, or load the model in float32": (
        "pass --dtype float32, or another --method"
    ),
    "load the model in float32": "pass --dtype float32",
    "call model.float()": "start the program with --dtype float32",
    "pass the id of a token to put in place, removal=tokenizer.mask_token_id": (
        "pass a --method that leaves out no token"
    ),
    'pass pairs="exact"': "leave out --estimate",
    "pass a longer text, or by='token'": "pass a longer text, or --by token",
    "another number is explained by attribute(model, inputs, of=NAMES, read=FUNCTION)": (
        "in Python, `lrp_axioms.attribute` explains any other number"
    ),
}
"""Advice -> advice of a command; the longest that fits is taken."""


def of_command(message: str) -> str:
    """Returns an error of the library with advice that a command can follow."""
    for advice, own in INSTEAD.items():
        message = message.replace(advice, own)
    return message.replace("texts[0]=", "")  # a command explains one text at a time


def of_page(message: str) -> str:
    """Returns an error, or a note, with the names of the page's fields, in signs of UTF-8."""
    own = re.sub(r"--(?=(target|contrast|column|method)\b)", "", of_command(message))
    return printable(own).encode(errors="replace").decode()
