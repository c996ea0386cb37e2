"""Where models, texts and images are, and at which revision: ``configs/sources.toml``."""

import tomllib
from pathlib import Path

PINS = tomllib.loads(
    (Path(__file__).parents[1] / "configs" / "sources.toml").read_text(encoding="utf-8")
)
