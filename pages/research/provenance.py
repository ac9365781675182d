"""Where a batch's reference labels come from, in words for everything that is measured against them."""

from collections.abc import Mapping
from typing import Any

from screening.text.display import visible
from storage.research.confusion import Labels

MOST_VALUES = 8
"""Values of the label column that are spelled out; the file's report holds all."""

_ACCEPTED = "clinicians' adjudications where there are any"


def provenance(intake: Mapping[str, Any], labels: Labels = "original") -> str:
    """Who gave the labels and how the file said it; plain text with nothing hidden in it, never markup.

    >>> provenance({"label_column": "y", "labels": {"1": "unsafe"}})
    'who gave the labels is not stated; column “y” of the file; “1” read as unsafe'
    >>> provenance({"provenance": "a jury of three"}, "adjudicated")
    "clinicians' adjudications where there are any, else: a jury of three"
    """
    parts = [str(intake.get("provenance") or "who gave the labels is not stated")]
    if column := intake.get("label_column"):
        parts.append(f"column “{column}” of the file")
    if isinstance(values := intake.get("labels"), Mapping) and values:
        parts.append(", ".join(f"“{value}” read as {label}" for value, label in list(values.items())[:MOST_VALUES]))
    accepted = f"{_ACCEPTED}, else: " if labels == "adjudicated" else ""
    return accepted + visible("; ".join(parts))


def provenance_of_both(intake: Mapping[str, Any]) -> str:
    """The same for figures against both kinds of labels side by side.

    >>> provenance_of_both({"provenance": "a jury"})
    "Original labels: a jury. With adjudications: clinicians' adjudications where there are any, else the original."
    """
    return f"Original labels: {provenance(intake)}. With adjudications: {_ACCEPTED}, else the original."
