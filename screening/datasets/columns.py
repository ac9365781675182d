"""Which column is what, by name; a person confirms or changes it."""

from collections.abc import Iterable
from dataclasses import dataclass

_NAMES: dict[str, tuple[str, ...]] = {
    "id": (
        "id", "case_id", "prompt_id", "conversation_id", "conv_id", "user_id", "user", "", "unnamed: 0",
    ),
    "text": (
        "text", "post", "reddit post", "content", "selftext", "body", "message", "user_message", "prompt", "query",
        "inputs", "comment", "description", "cleaned_text",
    ),
    "title": ("title",),
    "reply": ("response", "answer", "completion", "output", "assistant", "reply"),
    "label": (
        "label", "class", "severity", "risk", "suicide risk", "gold_label", "response_label", "prompt_label",
    ),
    "group": ("group", "split", "subreddit", "language", "category"),
}  # fmt: skip
"""Names met in the wild, the preferred one first. ``cleaned_text`` comes last: it is not what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """The names of the columns a row is made of; without an id column the row number is the id.

    The title, where there is one, is put before the text with an empty line between.
    """

    text: str
    id: str | None = None
    title: str | None = None
    reply: str | None = None
    label: str | None = None
    group: str | None = None

    def columns(self) -> frozenset[str]:
        """All the columns it names."""
        every = (self.text, self.id, self.title, self.reply, self.label, self.group)
        return frozenset(name for name in every if name is not None)


def propose_mapping(columns: Iterable[str]) -> ColumnMapping | None:
    """The mapping by known names (case and outer spaces ignored); None when no column is known to hold the text.

    >>> propose_mapping([" ID ", "Post", "cleaned_text"])
    ColumnMapping(text='Post', id=' ID ', title=None, reply=None, label=None, group=None)
    """
    by_name = {normalised_name(column): column for column in reversed(tuple(columns))}
    found = {role: next((by_name[name] for name in names if name in by_name), None) for role, names in _NAMES.items()}
    if found["text"] is None:
        return None
    return ColumnMapping(**{role: name for role, name in found.items() if name is not None})


def recognised(column: str) -> bool:
    """Whether the name is a known one; an empty name is none."""
    name = normalised_name(column)
    return bool(name) and any(name in names for names in _NAMES.values())


def normalised_name(column: str) -> str:
    """The name without a byte order mark and outer spaces, in lower case."""
    return column.strip().strip("\ufeff").strip().casefold()
