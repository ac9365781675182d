"""Labels that a data set keeps as numbers, with their names beside it, as the Hugging Face datasets library does."""

from collections.abc import Sequence


def class_names(feature: object) -> Sequence[str] | None:
    """The names of a class label, also of a list of them as each release of the library writes it; None for another
    kind of column.

    >>> class_names({"feature": {"names": ["no", "yes"], "_type": "ClassLabel"}, "_type": "Sequence"})
    ['no', 'yes']
    >>> class_names([{"names": ["no", "yes"], "_type": "ClassLabel"}])
    ['no', 'yes']
    """
    if isinstance(feature, list) and len(feature) == 1:
        return class_names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
        return [str(name) for name in feature["names"]]
    return class_names(feature.get("feature"))


def class_name(cell: object, names: Sequence[str] | None) -> object:
    """The names that class numbers stand for; -1 is no label, a number without a name stays one."""
    if names is None or cell is None:
        return cell
    if isinstance(cell, list):
        return [class_name(one, names) for one in cell]
    number = int(cell) if isinstance(cell, int | str) and str(cell).lstrip("-").isdecimal() else None
    if number is not None and 0 <= number < len(names):
        return names[number]
    return None if number == -1 else cell
