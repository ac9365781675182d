"""Short texts, invented, for measuring the language check, the disguise check and false alarms of the detectors."""

import tomllib
from pathlib import Path

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ENGLISH, OTHER, ORDINARY, EVERYDAY = (
    tuple(TABLES[name].splitlines()) for name in ("english", "other", "ordinary", "everyday")
)
"""Informal English, other languages, and texts that use the words of attacks or of means and partings innocently."""
STATEMENTS = tomllib.loads(Path(__file__).with_name("statements.toml").read_text(encoding="utf-8"))
STATED = {text: kind for kind, texts in STATEMENTS["stated"].items() for text in texts}
