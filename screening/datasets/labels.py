"""Reference labels as files write them; what is not surely one of the two is shown, not guessed."""

import json
from collections.abc import Iterable, Mapping

from screening.datasets.listed import parsed_list
from screening.labels import Label

_KNOWN: dict[str, Label] = {
    "safe": Label.SAFE,
    "non-suicide": Label.SAFE,
    "non-suicidal": Label.SAFE,
    "not suicidal": Label.SAFE,
    "self.depression": Label.SAFE,
    "self.anxiety": Label.SAFE,
    "self.bipolar": Label.SAFE,
    "self.offmychest": Label.SAFE,
    "unsafe": Label.UNSAFE,
    "suicide": Label.UNSAFE,
    "suicidal": Label.UNSAFE,
    "self.suicidewatch": Label.UNSAFE,
}


def map_label(value: str | None, label_values: Mapping[str, Label | None] | None = None) -> Label | None:
    """The reference label a value stands for, or None when that is not certain.

    ``label_values`` is what a person confirmed for this file; its keys are values exactly as they stand there
    and come first (None: stands for no label). Ordinal scales ("low", "3") are only ever mapped that way.

    >>> map_label("SAFE"), map_label("unsfae"), map_label("1")
    (<Label.SAFE: 'safe'>, None, None)
    """
    if value is None:
        return None
    if label_values is not None and value in label_values:
        return label_values[value]
    return _KNOWN.get(value.strip().casefold().replace("_", "-"))


def propose_label_values(seen: Iterable[str]) -> dict[str, Label]:
    """Values of one file that stand for a label. What a number means only a person knows, or the file's own names.

    >>> propose_label_values(["0", "1", "safe"])
    {'safe': <Label.SAFE: 'safe'>}
    """
    mapped = {value: map_label(value) for value in sorted(value for value in seen if value.strip())}
    return {value: label for value, label in mapped.items() if label is not None}


def label_of(cell: str | None) -> str | None:
    """The label in a cell, also where it is written as a list or as Label Studio's choices; None for none, and for what
    is no label.

    >>> label_of('["safe"]'), label_of('{"choices": ["b", "a"]}'), label_of("[]"), label_of('[{"start": 0}]')
    ('safe', 'b, a', None, None)
    """
    bare = (cell or "").strip()
    if not bare.startswith(("[", "{")):
        return cell
    found: object = parsed_list(bare)
    if found is None:
        try:
            found = json.loads(bare)
        except (ValueError, RecursionError):
            return cell
    if isinstance(found, dict):
        found = found.get("choices")
    if not isinstance(found, list) or not all(isinstance(one, str | int | float) for one in found):
        return None
    return ", ".join(str(one) for one in found) or None
