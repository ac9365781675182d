"""Which column is what, by name or as a person said."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, field, replace
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from screening.datasets.rows import (
    WORDS,
    ColumnsUnclear,
    Fields,
    FileRefused,
    FileRow,
    Nested,
    normalised_name,
    parts_of,
)
from screening.labels import Label
from screening.text.conversation import CONTEXT_TOKENS, Judged, Question, Role
from screening.text.unique_keys import RepeatedKey, unique_keys
from screening.words import count_of

_NAMES: Mapping[str, list[str]] = WORDS["columns"]
OF_A_PERSON = frozenset(WORDS["people"]["shared"])
"""Names of ids that several rows may share: an id where they are unique, else the group."""

TRANSCRIPT = "transcript"
"""The name of a column that holds conversations where there is no other, and of a file that is one."""

DERIVED = ("cleaned text",)
"""Names of columns that are made from the text."""
_SCREENED = ("text", "reply")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

_LONGEST_NAME, _NAMES_SHOWN = 40, 30
_STRICT = ConfigDict(extra="forbid")


class Shape(StrEnum):
    """How a file keeps conversations."""

    MESSAGES = "messages"
    ROWS = "rows"
    TRANSCRIPT = "transcript"


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ConversationReading:
    """How the text column, and of a file with a turn a row the columns named here, become conversations.

    Without ``order`` the order is that of the file. ``speakers`` says who of a file's own names is what; None: that it
    is nobody's name, and its line goes on with what was said before.
    With both questions ``reply_label`` is the reference of the second one, as the label column is of the first.
    """

    shape: Shape = Field(title="File format")
    judged: Judged = Field(default=Judged.LAST_USER, title="What to judge")
    questions: tuple[Question, ...] = Field(default=(Question.TEXT,), title="Question", min_length=1, max_length=2)
    role: str | None = Field(default=None, title="Who speaks")
    order: str | None = Field(default=None, title="Order of the turns")
    time: str | None = Field(default=None, title="Time")
    turn_id: str | None = Field(default=None, title="Turn id")
    reply_label: str | None = Field(default=None, title="Original label of the chatbot")
    speakers: tuple[tuple[str, Role | None], ...] = Field(
        default=(),
        title="Speaker names",
        description="Where they are not user and assistant: NAME=user, assistant, system or tool, with commas between; "
        "NAME=none where that is no name.",
    )
    context_tokens: int = Field(
        default=CONTEXT_TOKENS,
        title="Context, tokens",
        description="Of turns that are not judged themselves; the oldest are left out first. Clinicians see all turns.",
        ge=0,
        le=1_000_000,
    )

    def columns(self) -> tuple[str | None, ...]:
        """The columns it names, None for those that it does not."""
        of_turns = (self.role, self.order, self.time, self.turn_id) if self.shape is Shape.ROWS else ()
        return (*of_turns, self.reply_label)


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ColumnMapping:
    """The names of the columns a row is made of; without an id column the row number is the id.

    The title, where there is one, is put before the text, and the texts of ``joined`` after it, with an empty line
    between. With ``lists`` a text or reply that is a list of strings is joined in the same way. ``where`` says where
    to act on a case: a link or contact reference of the site's own system. ``unread`` are columns of sentences that a
    person chose to leave out.
    """

    text: str = Field(title="Text column(s)", description="Several are joined in this order.")
    joined: tuple[str, ...] = ()
    id: str | None = Field(default=None, title="ID")
    title: str | None = Field(default=None, title="Title (prepended)")
    reply: str | None = Field(default=None, title="Reply")
    label: str | None = Field(default=None, title="Original label")
    group: str | None = Field(default=None, title="Group")
    where: str | None = Field(
        default=None, title="Contact or location", description="Where to act: a link or contact reference."
    )
    lists: bool = Field(
        default=False,
        title="Join texts that are lists of strings",
        description="Strings are joined with an empty line between.",
    )
    conversation: ConversationReading | None = None
    unread: tuple[str, ...] = Field(
        default=(),
        title="Columns that stay unread",
        description="Nobody is shown them, and the AI is not asked about them.",
    )

    def columns(self) -> frozenset[str]:
        """All the columns it reads."""
        of_turns = self.conversation.columns() if self.conversation else ()
        every = (*self.text_columns(), self.id, self.reply, self.label, self.group, self.where, *of_turns)
        return frozenset(name for name in every if name is not None)

    def text_columns(self) -> tuple[str, ...]:
        """The columns that make up the text, in their order."""
        if self.conversation is not None:
            return (self.text,)
        return tuple(name for name in (self.title, self.text, *self.joined) if name is not None)

    def text_of(self, fields: Fields) -> str | None:
        """The text of a row, its title first and what is joined to it last; None when all of them are missing."""
        present = [cell for name in self.text_columns() if (cell := self._text_in(fields, name)) is not None]
        return _joined(present) or (present[-1] if present else None)

    def reply_of(self, fields: Fields) -> str | None:
        """The reply to the text; None without one."""
        return self._text_in(fields, self.reply) if self.reply else None

    def _text_in(self, fields: Fields, name: str) -> str | None:
        cell = fields.get(name)
        parts = parts_of(cell) if cell is not None and self.lists else None
        return cell if parts is None else _joined(parts)

    def id_of(self, row: FileRow) -> str | None:
        """The id exactly as it stands in the file, or the row number without an id column; None when missing."""
        return str(row.row) if self.id is None else row.single(self.id)

    def nested_in(self, fields: Fields) -> str | None:
        """The column of text or reply that holds a list or an object that is not joined; None: neither does."""
        names = (name for name in (*self.text_columns(), self.reply) if name is not None)
        nested = ((name, cell) for name in names if isinstance(cell := fields.get(name), Nested))
        return next((name for name, cell in nested if not self.lists or parts_of(cell) is None), None)


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def propose_mapping(columns: Iterable[str]) -> ColumnMapping | None:
    """The mapping by known names (case and outer spaces ignored); None when no column is known to hold the text. Which
    columns it had to choose between is told by `rivals`.

    >>> propose_mapping([" ID ", "Post", "cleaned_text"]) == ColumnMapping(text="Post", id=" ID ")
    True
    """
    by_name = {known_as(column): column for column in reversed(tuple(columns))}
    if set(by_name) == {TRANSCRIPT}:
        return ColumnMapping(text=by_name[TRANSCRIPT], conversation=ConversationReading(shape=Shape.TRANSCRIPT))
    found: dict[str, Any] = {role: _first_known(names, by_name) for role, names in _NAMES.items()}
    if found["group"] is None:
        shared = [name for name in WORDS["people"]["shared"] if by_name.get(name) != found["id"]]
        found["group"] = _first_known(shared, by_name)
    return None if found["text"] is None else ColumnMapping(**found)


def _first_known(names: Iterable[str], columns: Mapping[str, str]) -> str | None:
    return next((columns[name] for name in names if name in columns), None)


def begun_reading(kept: ConversationReading | None, shape: Shape, columns: Iterable[str]) -> ConversationReading:
    """How conversations of this shape are read before a person says more: as was kept for it and, of a turn a row, by
    known names: who speaks, in which order, when, and the turn's id.

    >>> begun = begun_reading(None, Shape.ROWS, ["conv_id", "Role", "text", "turn"])
    >>> begun.role, begun.order, begun.time, begun.turn_id
    ('Role', 'turn', None, None)
    """
    begun = kept if kept is not None and kept.shape is shape else ConversationReading(shape=shape)
    if shape is not Shape.ROWS:
        return begun
    by_name = {normalised_name(column): column for column in reversed(tuple(columns))}
    found: dict[str, Any] = {part: _first_known(names, by_name) for part, names in WORDS["turns"].items()}
    found |= {"turn_id": None} if found["turn_id"] == found["order"] else {}
    return replace(begun, **{part: getattr(begun, part) or column for part, column in found.items()})


def rivals(columns: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """By role, the columns of which each could be it: several texts or replies, or one name at the head of several.

    What is not read is not screened, so nobody but a person may choose between these.

    >>> rivals(["id", "text", "message"]), rivals(["text", "cleaned_text"])
    ({'text': ('text', 'message')}, {})
    """
    named = [(known_as(column), column) for column in columns]
    found: dict[str, tuple[str, ...]] = {}
    for role, names in _NAMES.items():
        fits = [(name, column) for name, column in named if name in names and name not in DERIVED]
        best = min((name for name, _ in fits), key=names.index, default="")
        kept = tuple(column for name, column in fits if role in _SCREENED or name == best)
        if len(kept) > 1:
            found[role] = kept
    return found


def names_people(column: str) -> bool:
    """Whether texts that share a value of this column are one person's.

    >>> names_people("Patient ID"), names_people("subreddit"), names_people("group")
    (True, False, False)
    """
    return known_as(column) in OF_A_PERSON.union(WORDS["people"]["others"])


def is_known(column: str) -> bool:
    """Whether the name is a known one; an empty name is none."""
    name = known_as(column)
    return bool(name) and any(name in names for names in _NAMES.values())


def known_as(column: str) -> str:
    """The name as known ones are written: in words.

    >>> known_as("questionText"), known_as("Post_Body"), known_as("label (question risk)")
    ('question text', 'post body', 'label')
    """
    return " ".join(normalised_name(_HUMP.sub(" ", column)).replace("_", " ").replace("-", " ").split())


def chosen_mapping(
    columns: tuple[str, ...], mapping: ColumnMapping | None, named: Collection[str] = ()
) -> ColumnMapping:
    """The mapping to read with: the given one, checked, or the proposal. ColumnsUnclear as `proposed_mapping`."""
    if mapping is None:
        return proposed_mapping(columns)
    if missing := mapping.columns() - set(columns):  # what stays unread need not be there
        raise ColumnsUnclear(f"The file has no column {', '.join(sorted(missing))}.")
    reading = mapping.conversation
    if reading is not None and reading.shape is Shape.ROWS and None in (mapping.id, reading.role):
        raise ColumnsUnclear("With a turn a row, say which columns name the conversation and who speaks.")
    if mapping.group is not None and mapping.group == mapping.label and "group" not in named:
        return replace(mapping, group=None)  # what was proposed before somebody said that it is the label
    return mapping


def proposed_mapping(columns: tuple[str, ...], said: Collection[str] = ()) -> ColumnMapping:
    """The mapping by known names. ColumnsUnclear where none is the text, or several are a role that is not ``said``."""
    proposal = propose_mapping(columns)
    if proposal is None and "text" not in said:
        fits = [name for name in columns if 0 < len(name) <= _LONGEST_NAME and len(name.split()) <= 4]
        shown = ", ".join(fits[:_NAMES_SHOWN]) + (" …" if len(fits) > _NAMES_SHOWN else "")
        raise ColumnsUnclear(
            "No column is known to hold the text. The first row must name the columns, one of them text, post, "
            f"message or the like. It names {count_of(len(columns), 'column')}{': ' + shown if shown else ''}. Say "
            "which one holds the text.",
            option="text",
        )
    for role, names in rivals(columns).items():
        if role not in said:
            which = ", or join them." if role == "text" else "."
            several = f"{len(names)} columns could be the {role}: {', '.join(names)}"
            raise ColumnsUnclear(f"{several}. Say which one it is{which}", option=role)
    return proposal or propose_mapping((*columns, "text")) or ColumnMapping(text="text")


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class FileMapping:
    """The columns, what the values of the label column stand for (None: no reference), and the sheet of a workbook;
    what is left out is proposed.
    """

    columns: ColumnMapping | None = None
    labels: Mapping[str, Label | None] = field(default_factory=dict)
    sheet: str | None = None


_FILE = TypeAdapter(FileMapping)
_COLUMNS = TypeAdapter(ColumnMapping)

ROLES = ("id", "label", "reply", "title", "group", "where")
"""Fields of a mapping that are one column each."""
OF_A_TURN = ("role", "order", "time", "turn_id")
SHAPES: Mapping[Shape, str] = {
    Shape.MESSAGES: "one conversation per row, as a list of messages",
    Shape.ROWS: "one turn of a conversation per row",
    Shape.TRANSCRIPT: "one conversation per row, as a transcript (Name: text)",
}
JUDGED: Mapping[Judged, str] = {
    Judged.LAST_USER: "the user's last turn, in its context",
    Judged.EACH_USER: "each turn of the user, in its context",
    Judged.WHOLE: "the whole conversation",
}
ASKED: Mapping[tuple[Question, ...], str] = {
    (Question.TEXT,): "the user's risk",
    (Question.REPLY,): "what the chatbot did",
    (Question.TEXT, Question.REPLY): "both: two cases a conversation, each with its own label",
}


def _described(schema: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (one.get("title", name), one.get("description", "")) for name, one in schema["properties"].items()}


_SCHEMA = _COLUMNS.json_schema()
OPTIONS: Mapping[str, tuple[str, str]] = _described(_SCHEMA) | _described(_SCHEMA["$defs"]["ConversationReading"])
"""Label and help of each field of a mapping and of how a conversation is read, as page and command ask for it."""


def mapping_schema() -> dict[str, Any]:
    """What a saved mapping holds, for the description of the API."""
    schema = _FILE.json_schema()
    version = {"second_look_mapping": {"const": 1}}
    return schema | {"$id": "mapping", "required": [*version], "properties": version | schema["properties"]}


def mapping_json(mapping: FileMapping) -> str:
    """The mapping as JSON, in ASCII so that every name comes back exactly.

    >>> read_mapping(mapping_json(FileMapping(labels={"Ideation": Label.UNSAFE}))).labels
    {'Ideation': <Label.UNSAFE: 'unsafe'>}
    """
    return json.dumps({"second_look_mapping": 1} | asdict(mapping), indent=2) + "\n"


def read_mapping(content: str | bytes) -> FileMapping:
    """Read a mapping that was saved. FileRefused for anything else, with what is wrong and where."""
    try:
        found = json.loads(content, object_pairs_hook=unique_keys)
        if not isinstance(found, dict) or found.pop("second_look_mapping", None) != 1:
            raise FileRefused('This is no saved mapping: it does not begin with "second_look_mapping": 1.')
        mapping = _FILE.validate_python(found)
    except RepeatedKey:
        raise FileRefused("This is no saved mapping: a name stands in it twice.") from None
    except ValidationError as wrong:
        first = wrong.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise FileRefused(f"This is no saved mapping: {place}: {first['msg']}.") from None
    except (ValueError, RecursionError):
        raise FileRefused("This is no saved mapping: it is not JSON.") from None
    if Label.ESCALATE in mapping.labels.values():
        raise FileRefused("This is no saved mapping: a reference label is safe or unsafe.")
    return mapping


def column_mapping(kept: Mapping[str, Any]) -> ColumnMapping:
    """A mapping of columns as `dataclasses.asdict` and JSON leave it. ValueError for anything else."""
    return _COLUMNS.validate_python(json.loads(json.dumps(kept)))  # pydantic's own reader takes no broken bytes


def find_column(name: str, columns: Iterable[str]) -> str:
    """The column that is meant: by its exact name, else the only one of that name but for case and spaces around it."""
    every = tuple(columns)
    if name in every:
        return name
    fits = [one for one in every if normalised_name(one) == normalised_name(name)]
    if not fits:
        raise FileRefused(f"The file has no column {name!r}.")
    if len(fits) > 1:
        raise FileRefused(f"{len(fits)} columns are called {name!r}; say which: {', '.join(map(repr, fits))}.")
    return fits[0]


def speakers_said(words: str) -> tuple[tuple[str, Role | None], ...]:
    """What ``ANNA=user,BEN=assistant`` says. ValueError for an unknown role.

    >>> speakers_said("Anna=user, Dr. B=assistant")
    (('Anna', <Role.USER: 'user'>), ('Dr. B', <Role.ASSISTANT: 'assistant'>))
    """
    said = pairs(words, (*Role, "none"), "speakers")
    return tuple((name, None if role == "none" else Role(role)) for name, role in said)


def pairs(words: str, meanings: Collection[str], option: str) -> Iterator[tuple[str, str]]:
    """What ``A=x,B, or so=y`` says, meanings in lower case; a comma ends a pair only after its meaning. ValueError."""
    pair = re.compile(rf"\s*(.+?)\s*=\s*({'|'.join(map(str, meanings))})\s*(?:,|$)", re.IGNORECASE)
    at = 0
    while at < len(words):
        if (found := pair.match(words, at)) is None:
            shown = ", ".join(f"NAME={meaning}" for meaning in meanings)
            raise ValueError(f"{option}: {words[at:].strip()!r} is none of {shown}")
        yield found[1], found[2].casefold()
        at = found.end()
