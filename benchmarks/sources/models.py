"""Models by name: the embedded classifier, a folder, or an id on the Hugging Face Hub."""

import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from lrp_axioms.benchmarks.errors import UnavailableError, first_line
from lrp_axioms.benchmarks.sources import sizes
from lrp_axioms.benchmarks.sources.pins import PINS
from lrp_axioms.numeric.models import digests, heads
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.texts import is_panic
from lrp_axioms.numeric.spelling import closest, did_you_mean

LONG = "sequence-length-is-longer-than-the-specified-maximum"  # a warning of Transformers
ASSETS = Path(__file__).parents[1] / "assets"
EMBEDDED = {
    "embedded": ASSETS / "bert12-sst2",
    "embedded-lm": ASSETS / "lm-causes",
    "embedded-english": ASSETS / "lm-english",
}


@dataclass(frozen=True)
class Classifier:
    """A text model in eval mode with its tokenizer, and digests of all that answers depend on."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    sha256: str  # of the weights
    tokenizer_sha256: str
    config_sha256: str

    def about(self) -> dict[str, str]:
        """Returns name and digests, for the record of a measurement."""
        keys = ("tokenizer_sha256", "config_sha256")
        own = {"model": self.name, "model_sha256": self.sha256}
        return own | {key: getattr(self, key) for key in keys}

    @property
    def explains(self) -> str:
        """Returns the kind of a target, such as "class", or "next token" for a language model."""
        return HEADS[facts_of(self.model).head][0]

    def label(self, target: int) -> str:
        if self.explains.endswith("token"):
            return self.tokenizer.decode([target])
        return str(self.model.config.id2label.get(target, target))


@dataclass(frozen=True)
class ImageClassifier:
    """A model in eval mode with its image processor."""

    model: PreTrainedModel
    processor: object  # called as processor(image, return_tensors="pt")
    name: str
    explains: str = "class"

    def label(self, target: int) -> str:
        return str(self.model.config.id2label.get(target, target))


def load(
    name: str = "embedded",
    *,
    device: str = "cpu",
    revision: str | None = None,
    attention: str | None = None,
    writes: bool = False,
    dtype: str = "float32",
) -> Classifier:
    """Loads the text model ``name`` in a dtype: one of ``EMBEDDED``, a folder, or a Hub id.

    It has the head that its config names; if it names none, it is a sequence classifier.
    ``writes``: it is a language model, with an encoder or without.
    ``attention`` is an implementation such as "eager"; the default is the model's.
    Raises UnavailableError that names the missing files, the place, and models that work offline.
    """
    check_device(device)
    revision = revision or PINS["models"].get(name)
    head = _that_writes if writes else _head
    model, tokenizer = _loaded(name, head, AutoTokenizer, revision, attention, dtype)
    tokenizer.deprecation_warnings[LONG] = True  # commands say it of each text, or cut the text
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # Transformers makes one up
        raise ValueError(
            f"model {name!r} has no tokenizer: every word would be unknown; save it beside the "
            "model with tokenizer.save_pretrained"
        )
    return Classifier(
        model.to(device),
        tokenizer,
        name,
        sha256=digests.of_model(model),
        tokenizer_sha256=digests.of_tokenizer(tokenizer),
        config_sha256=digests.of_config(model.config),
    )


HEADS = {
    heads.CLASSES: ("class", AutoModelForSequenceClassification),
    heads.NEXT: ("next token", AutoModelForCausalLM),
    heads.MASKED: ("masked token", AutoModelForMaskedLM),
    heads.TAGS: ("tag", AutoModelForTokenClassification),
    heads.ANSWER: ("answer", AutoModelForQuestionAnswering),
}
"""Kind of head -> its target, and the class of Transformers that loads it."""


def _head(config):
    return HEADS[heads.kind_of(config.get("architectures") or ())][1]


def _that_writes(config):
    return AutoModelForSeq2SeqLM if config.get("is_encoder_decoder") else AutoModelForCausalLM


def check_device(device: str) -> None:
    """Raises ValueError for a device that is not there, or that computes nothing, such as meta."""
    try:
        if torch.device(device).type == "cpu" and torch.device(device).index:
            raise RuntimeError("all cores are one device")
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ValueError(
            f"device {device!r} is not available here ({first_line(error)}); use cpu"
        ) from error


def takes_images(name: str) -> bool:
    """Whether the model ``name`` says that it classifies images; raises as ``load``."""
    with _loading(name) as source:
        config, _ = PreTrainedConfig.get_config_dict(source, revision=PINS["models"].get(name))
        return any("ForImageClassification" in cls for cls in config.get("architectures") or ())


def load_for_images(name: str, *, attention: str | None = None) -> ImageClassifier:
    """Loads the image classifier ``name`` in float32, a folder or a Hub id; raises as ``load``."""
    head = lambda _: AutoModelForImageClassification
    return ImageClassifier(*_loaded(name, head, AutoImageProcessor, None, attention), name)


def _loaded(name, head, reader_class, revision, attention, dtype="float32"):
    """Loads a model in eval mode, and its input reader, without running code of the folder.

    ``head`` returns the class that loads a configuration.
    """
    options = {"revision": revision, "trust_remote_code": False}  # else standard input is asked
    with _loading(name) as source:
        config, _ = PreTrainedConfig.get_config_dict(source, revision=revision)
        programs = list(_programs(config))
    if programs:
        raise ValueError("\n".join(f"model {name!r}, config.json: {said}" for said in programs))
    sizes.check_counts(name, config, source)
    if isinstance(source, Path) and name not in EMBEDDED:
        with _loading(name), torch.device("meta"):
            known = AutoConfig.from_pretrained(source, **options)
            empty = head(config).from_config(known, trust_remote_code=False)
        sizes.check_bytes(name, empty, source)
    with _loading(name) as source:
        # The embedded weights are stored in float16, which would otherwise be the dtype.
        model, info = head(config).from_pretrained(
            source,
            dtype=getattr(torch, dtype),
            attn_implementation=attention,
            output_loading_info=True,
            weights_only=True,  # a pickle can do anything
            **options,
        )
        reader = reader_class.from_pretrained(source, **options)
        if model.main_input_name == "input_ids":
            reader(["."])  # its settings are first read now
    sizes.check_names(name, model, info, config)
    return model.eval(), reader


def _programs(config):
    """Yields programs that a config, or one inside it, would have fetched and run."""
    for key, value in config.items():
        if "implementation" in key and "/" in str(value):
            yield f"{key} = {value!r} is a program on the Hub; take that line out"
        elif key == "quantization_config" and value:
            yield f"{key}: pass the model as it was before its weights were quantised"
        elif isinstance(value, dict):
            yield from _programs(value)


@contextmanager
def _loading(name):
    """Yields the place of ``name``, quietly; turns errors of Transformers into advice."""
    source = _source(name)
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # its loading bar would break ours
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield source
    except BaseException as error:  # readers of a broken folder raise any type
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise UnavailableError(_advice(name, source, error)) from error
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def vocabulary(name: str) -> list[str]:
    """Returns the tokens of a model's tokenizer, by id; raises as ``load``."""
    with _loading(name) as source:
        given = {"revision": PINS["models"].get(name), "trust_remote_code": False}
        known = AutoTokenizer.from_pretrained(source, **given).get_vocab()
    return sorted(known, key=known.get)


def _source(name):
    if name in EMBEDDED:
        return EMBEDDED[name]
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise UnavailableError(
                f"model folder {name!r} has no config.json; pass a folder written by "
                "save_pretrained, or 'embedded'"
            )
        return Path(name)
    if Path(name).exists():
        raise UnavailableError(f"model {name!r} is a file; pass the folder that it is in")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UnavailableError(
            f"model folder {name!r} does not exist; pass an existing folder, a Hub id such as "
            f"textattack/bert-base-uncased-SST-2, or 'embedded'{_hint(name)}"
        )
    meant = did_you_mean([name], [*EMBEDDED, *PINS["models"]], alike=0.8)
    if meant and name not in PINS["models"]:  # the Hub would be asked for half a minute
        raise UnavailableError(f"unknown model {name!r}{meant}")
    return name


def _hint(name):
    """Suggests the folder that a misspelt path may mean."""
    found = Path()
    for part in Path(name).expanduser().parts:
        if not (found / part).is_dir():
            beside = found.iterdir() if os.access(found, os.R_OK) else ()
            part = closest(part, [x.name for x in beside if x.is_dir()])
            if part is None:
                return ""
        found /= part
    return f"; did you mean {str(found)!r}?" if (found / "config.json").is_file() else ""


def _advice(name, source, error):
    kind = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
    what = f"model {name!r} could not be loaded: {kind}{first_line(error)}\n"
    if isinstance(source, Path):
        return what + (
            f"{source} must hold what save_pretrained writes for a model and its tokenizer: "
            "config.json, model.safetensors, tokenizer.json (for images, its processor: "
            "preprocessor_config.json); get it again, or use the model embedded."
        )
    if getattr(error, "filename", None):
        return what + "Point HF_HOME at a folder that can be written: downloads are kept there."
    return what + (
        "It was looked for as a local folder and on the Hugging Face Hub. Without a network, pass "
        f"embedded as the model, or download it elsewhere and pass its folder{_hint(name) or '.'}"
    )
