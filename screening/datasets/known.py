"""Published data sets, recognised by their columns and labels."""

from collections.abc import Iterable
from enum import StrEnum

from screening.datasets.columns import normalised_name


class KnownDataset(StrEnum):
    """The data sets of the paper."""

    AEGIS = "AEGIS 2.0"
    SWMH = "SWMH"


_AEGIS = frozenset({"prompt", "response", "prompt_label", "response_label", "violated_categories"})
_SWMH = frozenset({"self.suicidewatch", "self.depression", "self.anxiety", "self.bipolar", "self.offmychest"})


def recognise(columns: Iterable[str], label_values: Iterable[str]) -> KnownDataset | None:
    """Which published data set a file has the shape of, or None."""
    names = {normalised_name(column) for column in columns}
    values = {value.strip().casefold() for value in label_values if value.strip()}
    if names >= _AEGIS:
        return KnownDataset.AEGIS
    if {"text", "label"} <= names and values and values <= _SWMH:
        return KnownDataset.SWMH
    return None
