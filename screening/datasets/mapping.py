"""How a file is to be read, as a person said it: kept as a small JSON file that pages and command line both take."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from screening.datasets.columns import ColumnMapping, ConversationReading, Shape, normalised_name
from screening.datasets.refused import FileRefused
from screening.labels import Label
from screening.text.conversation import CONTEXT_TOKENS, Judged, Question, Role
from screening.text.unique_keys import RepeatedKey, unique_keys

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMapping:
    """The columns, what the values of the label column stand for (None: no reference), and the sheet of a workbook;
    what is left out is proposed.
    """

    columns: ColumnMapping | None = None
    labels: Mapping[str, Label | None] = field(default_factory=dict)
    sheet: str | None = None


class _Conversation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    shape: Shape
    judged: Judged = Judged.LAST_USER
    questions: Annotated[tuple[Question, ...], Field(min_length=1, max_length=2)] = (Question.TEXT,)
    role: str | None = None
    order: str | None = None
    time: str | None = None
    turn_id: str | None = None
    reply_label: str | None = None
    speakers: tuple[tuple[str, Role], ...] = ()
    context_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = CONTEXT_TOKENS


class _Columns(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    joined: list[str] = []
    id: str | None = None
    title: str | None = None
    reply: str | None = None
    label: str | None = None
    group: str | None = None
    where: str | None = None
    lists: bool = False
    conversation: _Conversation | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    second_look_mapping: Literal[1]
    columns: _Columns | None = None
    labels: dict[str, Literal["safe", "unsafe"] | None] = {}
    sheet: str | None = None


def mapping_json(mapping: FileMapping) -> str:
    """The mapping as JSON, in ASCII so that every name comes back exactly.

    >>> read_mapping(mapping_json(FileMapping(labels={"Ideation": Label.UNSAFE}))).labels
    {'Ideation': <Label.UNSAFE: 'unsafe'>}
    """
    columns = asdict(mapping.columns) if mapping.columns else None
    labels = {value: None if label is None else label.value for value, label in mapping.labels.items()}
    body = {"second_look_mapping": _VERSION, "columns": columns, "labels": labels, "sheet": mapping.sheet}
    return json.dumps(body, indent=2) + "\n"


def read_mapping(content: str | bytes) -> FileMapping:
    """Read a mapping that was saved. FileRefused for anything else, with what is wrong and where."""
    try:
        found = _File.model_validate(json.loads(content, object_pairs_hook=unique_keys))
    except (ValueError, RecursionError, RepeatedKey) as wrong:
        raise FileRefused(f"This is no saved mapping: {_why(wrong)}.") from None
    return FileMapping(
        columns=None if found.columns is None else _mapping(found.columns),
        labels={value: None if label is None else Label(label) for value, label in found.labels.items()},
        sheet=found.sheet,
    )


def column_mapping(kept: Mapping[str, Any]) -> ColumnMapping:
    """A mapping of columns as `dataclasses.asdict` and JSON leave it. ValueError for anything else."""
    return _mapping(_Columns.model_validate(json.loads(json.dumps(kept))))


def _mapping(columns: _Columns) -> ColumnMapping:
    fields = columns.model_dump() | {"joined": tuple(columns.joined)}
    reading = fields["conversation"]
    return ColumnMapping(**fields | {"conversation": ConversationReading(**reading) if reading else None})


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
