"""Places of models, texts and images, with their revisions, from ``configs/sources.toml``."""

from pathlib import Path
from typing import Any

from lrp_axioms.axioms import schema

PINS = schema.read(
    Path(__file__).parents[1] / "configs" / "sources.toml", dict[str, dict[str, Any]], "sources"
)
