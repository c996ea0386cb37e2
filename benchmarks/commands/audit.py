"""``lrp-axioms audit``: where the relevance of one logit goes in a stock model, and why."""

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from lrp_axioms.benchmarks.commands.console import check_files, loading, mendable, problems
from lrp_axioms.benchmarks.commands.explain import is_text, pair
from lrp_axioms.benchmarks.commands.options import (
    Column,
    Contrast,
    MethodsOfAudits,
    ModelFirst,
    Page,
    Target,
    Truncate,
    names_of,
)
from lrp_axioms.benchmarks.commands.output import answer, present, write_each
from lrp_axioms.benchmarks.sources.faults import check_sentence
from lrp_axioms.numeric.methods.catalogue import WITH_LEMMAS

TEXT = "The plot is thin, but the acting is a quiet joy."
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")  # other formats may run programs: EPS is PostScript
PATTERN = "a small fixed pattern of this program (no --image was given)"


def audit(
    model: ModelFirst,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]",
            help=f'For a text model; default: "{TEXT}" A question and its context for one that '
            "finds answers.",
        ),
    ] = None,
    *,
    method: MethodsOfAudits = "attnlrp",
    epsilon: Annotated[float, typer.Option(help="Stabiliser of the rules; 0: the limit.")] = 0.0,
    target: Target = None,
    column: Column = None,
    contrast: Contrast = None,
    image: Annotated[
        Path | None, typer.Option(help="For an image model; default: a fixed pattern.")
    ] = None,
    html: Page = None,
    truncate: Truncate = False,
    worst: Annotated[int, typer.Option(help="How many of the worst operations to print.")] = 10,
):
    """Account for the relevance of one logit, operation by operation, with proofs."""
    with mendable():
        texts = texts or []
        check_texts(model, texts)
        methods = names_of("--method", [method], WITH_LEMMAS)
        _check(epsilon, worst)
        check_files(read={"image": image}, html=html)
        classifier = loaded(model, texts, image, attention="eager")
    with mendable(f"--image {image}" if image else ""):
        inputs, given = inputs_of(classifier, texts, image, truncate=truncate)
    with mendable(catch=(ValueError, OSError, LookupError, ZeroDivisionError)):
        from lrp_axioms.benchmarks.commands.targets import parse_target

        goal = parse_target(classifier, target, column, given["tokens"], contrast)
        how = {"target": goal, "epsilon": epsilon, "worst": worst}
        found = [_audited(classifier, inputs, given, name, **how) for name in methods]
    from lrp_axioms.numeric.auditing.page import page
    from lrp_axioms.numeric.auditing.terminal import comparison, summary, terminal

    # Before anything is printed, which a reader may stop.
    wrote = write_each("--html", html, found, lambda facts: page(facts).encode())
    several = {"method": ",".join(methods), "audits": found}
    answer(**(several if methods[1:] else found[0]), wrote=wrote)
    parts = [part for facts in found for part in terminal(facts)]
    present(parts, comparison(found) if methods[1:] else summary(found[0]), wrote=wrote)


def check_texts(model, texts):
    """Raises ValueError for a value that is no text, and for a text in place of the model."""
    if is_text(model):
        raise ValueError(f"model {model!r} is a text; pass a model first, such as embedded")
    for text in texts:
        check_sentence(text)
        if text.endswith(".json") and not re.search(r"\s", text):
            raise ValueError(f"{text} would be read as a text; to write it, pass --json > {text}")


def _check(epsilon, worst):
    if not 0 <= epsilon < math.inf:
        raise ValueError(
            f"--epsilon {epsilon}: the stabiliser must be finite and >= 0; pass 0 for the limit"
        )
    if worst < 0:
        raise ValueError(f"--worst {worst}: pass how many operations to print, 0 for none")


def loaded(model, texts, image=None, *, attention=None):
    """Loads a classifier of texts or of images; ValueError for inputs that it does not take."""
    with loading("the model"):
        from lrp_axioms.benchmarks.sources import models

        of_images = models.takes_images(model)
        if of_images and texts:
            raise ValueError(f"{model} takes images, not the text {texts[0]!r}; pass --image FILE")
        if image and not of_images:
            raise ValueError(f"{model} takes a text, not --image {image}; pass a sentence after it")
        load = models.load_for_images if of_images else models.load
        return load(model, attention=attention)


def inputs_of(classifier, texts, image=None, *, truncate):
    """Returns the inputs of a model, and a dict of their text, tokens and notes for the reader."""
    if hasattr(classifier, "processor"):
        return image_inputs(classifier, image)
    return text_inputs(classifier, texts, truncate=truncate)


def text_inputs(classifier, texts, *, truncate):
    if classifier.explains == "answer":
        text = pair(texts)
    elif len(texts) > 1:
        raise ValueError(f"{len(texts)} texts: pass one, in quotes if it has spaces")
    else:
        (text,) = texts or (TEXT,)
    from lrp_axioms.benchmarks.commands.cutting import read

    inputs, tokens, cut = read(classifier, text, truncate=truncate)
    said = text if isinstance(text, str) else " ".join(text)
    return inputs, {"input": said, "tokens": tokens, "notes": [cut] if cut else []}


def image_inputs(classifier, path):
    """Returns the pixels of an image; its tokens are [CLS], then the patches, row by row.

    Raises ValueError for a model that does not cut images into patches.
    """
    size = getattr(classifier.model.config, "patch_size", None)
    if type(size) is not int:
        raise ValueError(
            f"{type(classifier.model).__name__} does not cut images into patches; call "
            "lrp_axioms.audit(model, inputs) in Python"
        )
    inputs = classifier.processor(picture(path), return_tensors="pt")
    _, _, height, width = inputs["pixel_values"].shape
    patches = [f"{y},{x}" for y in range(height // size) for x in range(width // size)]
    return inputs, {"input": str(path or PATTERN), "tokens": ["[CLS]", *patches], "notes": []}


def picture(path: Path | None = None):
    """Opens an image file, or draws a fixed pattern; ValueError for an unreadable file."""
    from PIL import Image

    if path is None:
        return Image.fromarray(_pattern())
    try:
        with Image.open(path, formats=FORMATS) as file:
            return file.convert("RGB")
    except Exception as error:  # Pillow's readers raise errors of any type on broken files
        if isinstance(error, OSError) and error.strerror:
            raise
        raise ValueError(
            f"--image {path} is no image that can be read ({error}); pass a PNG or a JPEG"
        ) from error


def _pattern():
    """Draws a bright square on rising colours, 64 x 64 pixels."""
    import numpy as np

    y, x = np.mgrid[:64, :64]
    pixels = np.stack([4 * x, 4 * y, 2 * (x + y)], axis=-1)
    pixels[20:40, 12:36] = 255
    return pixels.astype(np.uint8)


def _audited(classifier, inputs, given, method, *, target, epsilon, worst):
    with problems.status(f"auditing {method}"):
        from lrp_axioms.numeric.auditing.audit import audit

        found = audit(classifier.model, inputs, method, target, epsilon=epsilon)
        return data_of(found, classifier, inputs, given, target, worst)


def data_of(found, classifier, inputs, given, target, worst=10):
    """Returns an audit as plain data, with the names of its model, input and label."""
    from lrp_axioms.benchmarks.commands.explained import explained_shares
    from lrp_axioms.benchmarks.commands.targets import said_of
    from lrp_axioms.numeric.auditing.data import Subject, plain

    subject = Subject(
        model=classifier.name,
        input=given["input"],
        tokens=tuple(given["tokens"]),
        label=said_of(classifier, found.target, given["tokens"]),
        explains=classifier.explains,
        explained=explained_shares(classifier, inputs, target, {"": found.relevance}).get(""),
    )
    facts = plain(found, subject, worst=worst)
    return facts | {"notes": [*facts["notes"], *given["notes"]]}
