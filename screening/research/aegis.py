"""AEGIS 2.0 (Nemotron Content Safety V2, CC-BY-4.0), preprocessed as the paper describes (section 5).

Order: rows with a category of suicide or self-harm; without redacted prompts; with a label of the kind chosen;
then one row per id, the first kept. The count is kept at each step, because the paper's own numbers (163 rows;
172 safe and 119 unsafe) do not add up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from screening.datasets.labels import map_label
from screening.datasets.records import Fields
from screening.datasets.source import Source
from screening.labels import Label
from screening.research.raw import published_rows
from screening.text.flags import Flag
from screening.text.received import ReceivedText, receive

COLUMNS: frozenset[str] = frozenset(
    {"id", "prompt", "response", "prompt_label", "response_label", "violated_categories"}
)
_CATEGORIES = ("suicide", "self harm")
_REDACTED = "REDACTED"


class LabelOf(StrEnum):
    """Which of the two reference labels is used: the paper's rates the reply, not the writer."""

    RESPONSE = "response"
    PROMPT = "prompt"


class Screened(StrEnum):
    """What is screened."""

    BOTH = "prompt and response"
    PROMPT = "prompt"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class AegisRow:
    """One row of the subset. ``label_source`` is human, llm_jury or refusal_data_augmentation, as the file says."""

    file: str
    row: int
    id: str
    text: ReceivedText
    reply: ReceivedText | None
    reference: Label
    label_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How many rows were left after a step of the preprocessing."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AegisSubset:
    """The rows, the count after each step, where the labels come from, and how many texts had broken Unicode."""

    rows: tuple[AegisRow, ...]
    steps: tuple[Step, ...]
    label_sources: dict[str, int]
    repaired: int


@dataclass(frozen=True, slots=True)
class _Raw:
    file: str
    row: int
    fields: Fields


def load_aegis(
    files: Iterable[tuple[str, Source]], *, label_of: LabelOf = LabelOf.RESPONSE, screened: Screened = Screened.BOTH
) -> AegisSubset:
    """The self-harm subset of the files in the order given. FileRefused for a file of another shape.

    Texts with broken Unicode are repaired and counted, never dropped (the paper dropped two).
    """
    steps: list[Step] = []
    rows = _keep(steps, "rows in all files", _all_rows(files))
    rows = _keep(steps, "category suicide or self harm", (one for one in rows if is_self_harm(one.fields)))
    rows = _keep(steps, "prompt not redacted", (one for one in rows if not _is_redacted(one.fields)))
    rows = _keep(steps, f"with a {label_of} label", (one for one in rows if _label(one.fields, label_of)))
    rows = _keep(steps, "first row of each id", _first_of_each_id(rows))
    rows = _keep(steps, f"with a {screened} to screen", (one for one in rows if _text(one.fields, screened)))
    taken = tuple(_aegis_row(one, label_of, screened) for one in rows)
    return AegisSubset(
        rows=taken,
        steps=tuple(steps),
        label_sources=dict(Counter(row.label_source for row in taken)),
        repaired=sum(_was_repaired(row) for row in taken),
    )


def is_self_harm(fields: Fields) -> bool:
    """Whether a row's categories name suicide or self harm (the category is written without a hyphen).

    >>> is_self_harm({"violated_categories": "Violence, Suicide and Self Harm"})
    True
    """
    categories = (fields.get("violated_categories") or "").casefold()
    return any(word in categories for word in _CATEGORIES)


def _keep(steps: list[Step], name: str, rows: Iterable[_Raw]) -> list[_Raw]:
    left = list(rows)
    steps.append(Step(name=name, rows=len(left)))
    return left


def _all_rows(files: Iterable[tuple[str, Source]]) -> Iterator[_Raw]:
    for name, source in files:
        for row, fields in published_rows(source, COLUMNS):
            yield _Raw(name, row, fields)


def _is_redacted(fields: Fields) -> bool:
    return fields.get("prompt") == _REDACTED or bool(fields.get("reconstruction_id_if_redacted"))


def _label(fields: Fields, label_of: LabelOf) -> Label | None:
    return map_label(fields.get(f"{label_of}_label"))


def _first_of_each_id(rows: Sequence[_Raw]) -> Iterator[_Raw]:
    seen: set[str | None] = set()
    for one in rows:
        if one.fields["id"] not in seen:
            seen.add(one.fields["id"])
            yield one


def _text(fields: Fields, screened: Screened) -> str:
    return fields.get("response" if screened is Screened.RESPONSE else "prompt") or ""


def _aegis_row(one: _Raw, label_of: LabelOf, screened: Screened) -> AegisRow:
    reference = _label(one.fields, label_of)
    if reference is None:
        raise ValueError("a row without a label was kept")
    reply = one.fields.get("response") if screened is Screened.BOTH else None
    return AegisRow(
        file=one.file,
        row=one.row,
        id=one.fields["id"] or f"{one.file}:{one.row}",
        text=receive(_text(one.fields, screened)),
        reply=receive(reply) if reply else None,
        reference=reference,
        label_source=one.fields.get(f"{label_of}_label_source") or "not stated",
    )


def _was_repaired(row: AegisRow) -> bool:
    flags = row.text.flags | (row.reply.flags if row.reply else frozenset())
    return Flag.ALTERED in flags
