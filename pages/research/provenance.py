"""Where a batch's original labels come from, in words for everything that is measured against them."""

from collections.abc import Mapping
from typing import Any

from screening.text.display import visible


def provenance(intake: Mapping[str, Any]) -> str:
    """Where the file said it, and who gave the labels; plain text with nothing hidden in it, never markup.

    >>> provenance({"label_column": "y"}), provenance({"provenance": "a jury of three"})
    ('column "y" of your file (source not stated)', 'a jury of three')
    """
    source = str(intake.get("provenance") or "source not stated")
    column = intake.get("label_column")
    return visible(f'column "{column}" of your file ({source})' if column else source)
