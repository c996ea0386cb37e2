"""Runs every command on every architecture: ``python -m tests.support.all_commands``.

A command ends with numbers, with one error that says the next step (exit code 2), or, if this
program has a bug, with a traceback.
"""

import argparse
import shlex
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from benchmarks.cli import app
from tests.census.build import ANSWERS, IMAGES, MASKED, TAGS, TASKS, architectures, build
from tests.census.measure import limit
from tests.census.sizes import END, MASK, PAD, START, VOCABULARY

SECONDS = 120
NUMBERS, REFUSED, TRACEBACK, UNBUILT = "numbers", "one error", "traceback", "could not be built"
TEXT = "w10 w11 w12 w13"
OF_TASK = {
    MASKED: ("w10 w11 <mask> w13", ""),
    TAGS: (TEXT, "--column 2"),
    ANSWERS: ("'w10 w11' 'w12 w13'", ""),
}
"""Task -> its text, and the option that chooses the target; other tasks need no option."""
COMMANDS = {
    "explain": "explain {model} {text} {option}",
    "explain --generate": "explain {model} {text} --generate 2",
    "audit": "audit {model} {text} {option}",
    "attribute": "attribute texts.txt --model {model} --output out",
    "evaluate": "evaluate maps.parquet --model {model} --measure r --output judged",
    "plan": "plan {model} {text}",
    "vocabulary": "vocabulary {model}",
}
Outcome = tuple[str, str]  # one of the four, and the output


def items() -> list[tuple[str, str]]:
    """Every architecture with every task on texts."""
    return [(name, task) for task in TASKS if task != IMAGES for name in architectures(task)]


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with the vocabulary of the tiny models."""
    known = {"<pad>": PAD, "<s>": START, "</s>": END, "<mask>": MASK}
    known |= {f"w{n}": n for n in range(len(known), VOCABULARY)}
    words = Tokenizer(WordLevel(known, unk_token="w5"))
    words.pre_tokenizer = WhitespaceSplit()
    special = [(name, known[name]) for name in ("<s>", "</s>")]
    words.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=special
    )
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w5", **names)


def ends(item: tuple[str, str], commands: tuple[str, ...] = tuple(COMMANDS)) -> dict[str, Outcome]:
    """How each of ``commands`` ends on a tiny model in a temporary folder."""
    name, task = item
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = Path(folder)
        try:
            _save(name, task, place)
        except Exception as error:  # the code of a model raises any type
            return dict.fromkeys(commands, (UNBUILT, f"{type(error).__name__}: {error}"))
        return {command: _end(COMMANDS[command], task, place) for command in commands}


def _save(name: str, task: str, place: Path) -> None:
    model = build(name, task).float()
    model.save_pretrained(place / "model")
    tokenizer().save_pretrained(place / "model")
    (place / "texts.txt").write_text(f"{TEXT}\nw20 w21\n")
    pq.write_table(
        pa.table({"text": [TEXT], "relevance": [[0.1, 0.2, 0.4, 0.3, -0.5, 0.6]]}),
        place / "maps.parquet",
    )


def _end(command: str, task: str, place: Path) -> Outcome:
    text, option = OF_TASK.get(task, (TEXT, ""))
    text = text if task == ANSWERS else shlex.quote(text)
    call = shlex.split(command.format(model="model", text=text, option=option))
    files = {"model", "texts.txt", "maps.parquet", "out", "judged"}
    call = [str(place / x) if x in files else x for x in call]
    with limit(SECONDS):
        done = CliRunner().invoke(app, [*call, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        last = traceback.extract_tb(done.exception.__traceback__)[-1]
        said = f"{type(done.exception).__name__}: {done.exception}"
        return TRACEBACK, f"{said} ({Path(last.filename).name}:{last.lineno})"
    return (REFUSED, done.stderr) if done.exit_code else (NUMBERS, done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these model types")
    parser.add_argument("--command", nargs="+", choices=COMMANDS, help="these commands")
    chosen = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for item in items():
        if chosen.only and item[0] not in chosen.only:
            continue
        for command, (end, said) in ends(item, tuple(chosen.command or COMMANDS)).items():
            counts[command, end] += 1
            if end != NUMBERS:
                print(f"{end}: {command}, {', '.join(item)}: {said[:200].strip()}", flush=True)
    for (command, end), count in sorted(counts.items()):
        print(f"{command}: {end} {count}")


if __name__ == "__main__":
    main()
