"""How a file is to be read, as a person said it: kept as a small JSON file that pages and command line both take."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, field
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from screening.datasets.columns import ColumnMapping, normalised_name
from screening.datasets.refused import FileRefused
from screening.labels import Label
from screening.text.conversation import Role
from screening.text.unique_keys import RepeatedKey, unique_keys

_VERSION = 1


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class FileMapping:
    """The columns, what the values of the label column stand for (None: no reference), and the sheet of a workbook;
    what is left out is proposed.
    """

    columns: ColumnMapping | None = None
    labels: Mapping[str, Label | None] = field(default_factory=dict)
    sheet: str | None = None


_FILE = TypeAdapter(FileMapping)
COLUMNS = TypeAdapter(ColumnMapping)


def mapping_json(mapping: FileMapping) -> str:
    """The mapping as JSON, in ASCII so that every name comes back exactly.

    >>> read_mapping(mapping_json(FileMapping(labels={"Ideation": Label.UNSAFE}))).labels
    {'Ideation': <Label.UNSAFE: 'unsafe'>}
    """
    body = {"second_look_mapping": _VERSION} | asdict(mapping)
    return json.dumps(body, indent=2) + "\n"


def read_mapping(content: str | bytes) -> FileMapping:
    """Read a mapping that was saved. FileRefused for anything else, with what is wrong and where."""
    try:
        found = json.loads(content, object_pairs_hook=unique_keys)
        if not isinstance(found, dict) or found.pop("second_look_mapping", None) != _VERSION:
            raise FileRefused(f'This is no saved mapping: it does not begin with "second_look_mapping": {_VERSION}.')
        mapping = _FILE.validate_python(found)
    except (ValueError, RecursionError, RepeatedKey) as wrong:
        raise FileRefused(f"This is no saved mapping: {_why(wrong)}.") from None
    if Label.ESCALATE in mapping.labels.values():
        raise FileRefused("This is no saved mapping: a reference label is safe or unsafe.")
    return mapping


def column_mapping(kept: Mapping[str, Any]) -> ColumnMapping:
    """A mapping of columns as `dataclasses.asdict` and JSON leave it. ValueError for anything else."""
    return COLUMNS.validate_python(json.loads(json.dumps(kept)))


def _why(wrong: Exception) -> str:
    if not isinstance(wrong, ValidationError):
        return "a name stands in it twice" if isinstance(wrong, RepeatedKey) else "it is not JSON"
    first = wrong.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"


def find_column(name: str, columns: Iterable[str]) -> str:
    """The column that is meant: by its exact name, else the only one of that name but for case and spaces around it.

    Raises FileRefused where there is none or several.
    """
    every = tuple(columns)
    if name in every:
        return name
    fits = [one for one in every if normalised_name(one) == normalised_name(name)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise FileRefused(f"{len(fits)} columns are called {name!r}; say which: {', '.join(map(repr, fits))}.")
    raise FileRefused(f"The file has no column {name!r}.")


def speakers_said(words: str) -> tuple[tuple[str, Role | None], ...]:
    """What ``ANNA=user,BEN=assistant`` says. ValueError for an unknown role.

    >>> speakers_said("Anna=user, Dr. B=assistant")
    (('Anna', <Role.USER: 'user'>), ('Dr. B', <Role.ASSISTANT: 'assistant'>))
    """
    return tuple(
        (name, None if role == "none" else Role(role)) for name, role in pairs(words, (*Role, "none"), "speakers")
    )


def pairs(words: str, meanings: Collection[str], option: str) -> Iterator[tuple[str, str]]:
    """What ``A=x,B, or so=y`` says, meanings in lower case; a comma ends a pair only after its meaning. ValueError for
    what is no such pair.
    """
    pair = re.compile(rf"\s*(.+?)\s*=\s*({'|'.join(map(str, meanings))})\s*(?:,|$)", re.IGNORECASE)
    at = 0
    while at < len(words):
        if (found := pair.match(words, at)) is None:
            shown = ", ".join(f"NAME={meaning}" for meaning in meanings)
            raise ValueError(f"{option}: {words[at:].strip()!r} is none of {shown}")
        yield found[1], found[2].casefold()
        at = found.end()
