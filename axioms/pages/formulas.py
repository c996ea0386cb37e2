"""Formulas in plain text, such as R_j (z_j - b_j)/(z_j + epsilon s_j), found and put as LaTeX."""

import re
from collections.abc import Iterator

ATOMS = {
    r"epsilon|eps": r"\\varepsilon",
    r"alpha|beta|gamma|Phi": r"\\\g<0>",
    r"infinity": r"\\infty",
    r"([uz])bar": r"\\bar \1",
    r"LOO_([a-z])": r"\\mathrm{LOO}_{\1}",
    r"O_without_([a-z])": r"O_{\\mathrm{without}\\,\1}",
    r"sum_([a-z])": r"\\sum_{\1}",
    r"sign|relu|sqrt|erf|exp|log|tanh|max|var|rms|sum|mean": r"\\mathrm{\g<0>}",
    r"([A-Za-z])_?([0-9]+)": r"\1_{\2}",
    r"(d?[A-Za-z])_([A-Za-z]{1,3})": r"\1_{\2}",
    r"d[a-z]|[A-Za-z]'?|QK'V|QK'?|K'V|AV|xW": r"\g<0>",
    r"[0-9]+|[0-9]+\.[0-9]+": r"\g<0>",
}
"""Words that a formula is made of, and how LaTeX has them."""

SIGNS = {
    "<=": r" \leq ", ">=": r" \geq ", "->": r" \to ", "<-": r" \leftarrow ", "*": r" \cdot ",
    **{sign: sign for sign in "=+-/<>|()[],"},
}  # fmt: skip

POWER = ("^", "**")
TOKEN = re.compile(
    r"(?:\^|\*\*)(?:-?(?:\d+\.\d+|\w+))?|\d+\.\d+|\w+'(?!\w)|\w+|<=|>=|->|<-|\s+|.", re.DOTALL
)
BINARY = {"=", "+", "-", "/", "<", ">", "*", "<=", ">=", "->", "<-", ","}
NUMBERS = re.compile(r"[\d.]+\s+[\d.]+")  # two of them, and not their product
CLOSES = {")": "(", "]": "["}
WORDS = re.compile(r"\\mathrm{[a-z]+}")
MARKED = re.compile(r"[-=+/<>|^\\_*']")
"""A sign of a formula: plain words have none once thin spaces and function names are removed."""


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The text in order: whether a piece is a formula, and then its LaTeX, or else plain text."""
    tokens, at = TOKEN.findall(text), 0
    while at < len(tokens):
        end = _end(tokens, at)
        formula = _latex(tokens[at:end])
        if MARKED.search(WORDS.sub("", formula).replace(r"\,", "")):
            yield True, formula
            at = end
        else:
            yield False, tokens[at]
            at += 1


def _end(tokens: list[str], at: int) -> int:
    """Where the longest balanced formula that begins at ``at`` ends; ``at`` if there is none."""
    opened: list[str] = []
    end = at
    for n, token in enumerate(tokens[at:], start=at):
        if token in CLOSES and (not opened or opened.pop() != CLOSES[token]):
            break
        if token in CLOSES.values():
            opened.append(token)
        twice = n > at + 1 and NUMBERS.fullmatch("".join(tokens[n - 2 : n + 1]))
        if twice or not _belongs(tokens, n, inside=bool(opened)):
            break
        whole = not opened and tokens[at : n + 1].count("|") % 2 == 0
        if whole and not (token.isspace() or token in BINARY):
            end = n + 1
    starts = end > at and not (tokens[at] in BINARY - {"-"} or tokens[at].isspace())
    return end if starts else at


def _belongs(tokens: list[str], n: int, *, inside: bool) -> bool:
    """Whether a token may be part of a formula, not a word, comma or hyphen of prose."""
    token = tokens[n]
    if token == ",":
        return inside
    if token == "-":
        return inside or n == 0 or tokens[n - 1].isspace()
    power = token.startswith(POWER) and token not in POWER  # a sign alone is prose
    return bool(atom(token)) or token in SIGNS or token.isspace() or power


def atom(token: str) -> str:
    """The LaTeX of a word of a formula; empty for any other word."""
    found = ((re.fullmatch(pattern, token), latex) for pattern, latex in ATOMS.items())
    return next((match.expand(latex) for match, latex in found if match), "")


def _latex(tokens: list[str]) -> str:
    parts = []
    for n, token in enumerate(tokens):
        if token.startswith(POWER):
            parts.append(f"^{{{token.lstrip('^*')}}}")
        elif token.isspace():
            beside = tokens[n - 1] in BINARY or tokens[n + 1] in BINARY
            parts.append("" if beside else r"\,")
        else:
            parts.append(atom(token) or SIGNS[token])
    return "".join(parts)
