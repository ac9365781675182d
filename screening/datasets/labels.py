"""Reference labels as files write them; what is not surely one of the two is shown, not guessed."""

from collections.abc import Iterable, Mapping

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
_BINARY = {"0": Label.SAFE, "1": Label.UNSAFE}


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
    """Values of one file that stand for a label; 0 and 1 do only where they are the only two values.

    >>> propose_label_values(["0", "1"]), propose_label_values(["0", "1", "2"])
    ({'0': <Label.SAFE: 'safe'>, '1': <Label.UNSAFE: 'unsafe'>}, {})
    """
    values = {value for value in seen if value.strip()}
    if {value.strip() for value in values} == set(_BINARY):
        return {value: _BINARY[value.strip()] for value in sorted(values)}
    mapped = {value: map_label(value) for value in sorted(values)}
    return {value: label for value, label in mapped.items() if label is not None}
