"""Short texts, invented, for measuring the language check, the disguise check and false alarms of the detectors."""

import tomllib
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ENGLISH, OTHER, ORDINARY, EVERYDAY = (
    tuple(_TEXTS[name].splitlines()) for name in ("english", "other", "ordinary", "everyday")
)
"""Informal English, other languages, and texts that use the words of attacks or of means and partings innocently."""
STATEMENTS = tomllib.loads(Path(__file__).with_name("statements.toml").read_text(encoding="utf-8"))
SIGNS, MASKED = _TEXTS["signs"], _TEXTS["masked"]
"""Of each kind of sign of an injection one; and texts as they are once masked."""
STATED = {text: kind for kind, texts in STATEMENTS["stated"].items() for text in texts}
