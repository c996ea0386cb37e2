"""Advice of the library in the words of a command: its options, and not arguments of Python."""

import re

from lrp_axioms.numeric.spelling import printable

WIDER = "pass another --method, or a wider --dtype"
INSTEAD = {
    "split or shorten it, or call attribute with tokenizer(text, truncation=True)": (
        "split or shorten it"
    ),
    "remove them from the text, or call attribute(model, inputs) with tokenizer(text, "
    "add_special_tokens=False)": "remove them from the text",
    "call attribute() for each token, on the text before it": (
        "explain each token by itself, as the next token of the text before it"
    ),
    "pass epsilon=1e-6, or load the model in float32": WIDER,
    "pass tokenizer, or at, its column, or set model.config.mask_token_id = "
    "tokenizer.mask_token_id": (
        "pass its --column; `explain --generate` explains a text that the model writes"
    ),
    "put a token in their place, removal=tokenizer.mask_token_id, or load the model in float32": (
        WIDER
    ),
    "load the model in float32": "pass a wider --dtype",
    "call model.float()": "start the program with --dtype float32",
    "pass the id of a token to put in place, removal=tokenizer.mask_token_id": (
        "pass a --method that leaves out no token"
    ),
    'pass pairs="exact"': "leave out --estimate",
    "pass a longer text, or by='token'": "pass a longer text, or --by token",
    "pass a larger budget, or larger groups": "pass a larger --budget",
    "pass method='loo'": "pass --method loo",
    "call lrp_axioms.audit() to see where it goes, or pass another method": (
        "`audit` shows where it goes; or pass another --method"
    ),
    "for another number, call attribute(model, inputs, of=NAMES, read=FUNCTION)": (
        "in Python, `lrp_axioms.attribute` explains any other number"
    ),
}
"""Advice -> advice of a command; the longest that fits is taken."""

EACH = r"(?:text|line) [^:]*: "  # of several texts
VALUES = {
    r"samples=(\d+): examples .* (\d+) tokens to hide; .* or keep tokens in view with fixed": (
        r"--method shapley takes \1 forward passes, too few for \2 tokens; pass a shorter text, or "
        "another --method"
    ),
    r"segments: (.*) of the prompt (.*) by name, each (a text that is in it once), or .*": (
        r"--segment: \1 of the text \2 as NAME=PART, each PART \3"
    ),
    r"such as span\((\d+), end\)": r"such as --span \1:",
    r"set model\.config\.(\w+)( = [\w.]+)?": r"set \1\2 in the model's config.json",
    r"\na target of this \w+ is .*\(lrp_axioms\.numeric\.targets\)": "",
    r"\bmax_new_tokens is": "--generate is",
    r"\b(?:decoder_)?input_ids changed": "the text changed",
    r"(?<=[:;] )(answer|contrast|method) is (?=.*, and was )": r"--\1 is ",
    rf"^({EACH})?(budget|contrast|examples|target)=": r"\1--\2 ",
    rf"^({EACH})?max_new_tokens=": r"\1--generate ",
    rf"^({EACH})?decoder_input_ids has (\d+) tokens; pass 1, .* to (\d+)": (
        r"\1the written text has \2 tokens, and the decoder \3 positions; pass a shorter --answer"
    ),
    rf"^({EACH})?by='segment': pass one of": (
        r"\1--by segment: no part of the text has a name; name it by --segment, or pass one of"
    ),
    r"tokenizer, or leave segments out": r"tokenizer, or leave --segment out",
}
"""Patterns of advice with values of its own, or that begins with the name of an option."""


def of_command(message: str) -> str:
    """Returns an error of the library with advice that a command can follow."""
    for advice, own in INSTEAD.items():
        message = message.replace(advice, own)
    for pattern, own in VALUES.items():
        message = re.sub(pattern, own, message, flags=re.MULTILINE)
    return message.replace("texts[0]=", "")  # a command explains one text at a time


def of_page(message: str) -> str:
    """Returns an error, or a note, with the names of the page's fields, in signs of UTF-8."""
    own = of_command(message).replace("pass --truncate to cut", "choose to cut")
    own = re.sub(r"--generate (?=\d)", "write ", own)
    own = re.sub(r"--(?=(answer|chat|column|contrast|method|target|truncate)\b)", "", own)
    return printable(own).encode(errors="replace").decode()
