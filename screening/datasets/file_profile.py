"""The first of two passes: what a file holds, and which of its rows repeat an id. Constant work per row,
33 bytes kept of each."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from screening.datasets.columns import ColumnMapping, Shape, of_a_person, propose_mapping, rivals
from screening.datasets.conversations import ConversationCell, RefusedTurns
from screening.datasets.listed import holds_turns, join_list, parts_of
from screening.datasets.records import (
    COLUMN_LIMIT,
    STRUCTURAL,
    BlankLine,
    Fields,
    Formula,
    NestedValue,
    Reason,
    Record,
    single,
)
from screening.datasets.refused import ColumnsUnclear, FileRefused

LABELS_SHOWN = 100
"""Different label values that are counted; more than that is no label column."""

EXCEL_CELL = 32_767
"""Most characters an Excel cell holds."""
_NEAR_EXCEL_CELL = 32_700

_DIGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProfile:
    """What the first pass found. ``same`` and ``conflicting`` hold for each repeated row (from 1) the row that its id
    stood in first; ``shared_id`` is a proposed id column that several rows share and that became the group.
    """

    rows: int
    blank_lines: int
    structural: Counter[Reason]
    columns: tuple[str, ...]
    mapping: ColumnMapping
    label_values: Counter[str]
    same: Mapping[int, int]
    conflicting: Mapping[int, int]
    spaced_twins: int
    cut_cells: int
    listed: int = 0
    formulas: int = 0
    conversations: int = 0
    turns: int = 0
    shared_id: str | None = None


class _Tally:
    """What grows while the rows go by."""

    def __init__(self) -> None:
        self.rows = self.blank = self.longest = self.at_longest = self.without_id = 0
        self.nested = self.listed = self.formulas = 0
        self.conversations = self.turns = self.no_turns = 0
        self.first_refused: str | None = None
        self.structural: Counter[Reason] = Counter()
        self.first_structural: Record | None = None
        self.labels: Counter[str] = Counter()
        self.ids, self.contents, self.numbers = bytearray(), bytearray(), bytearray()
        self.spaced = bytearray()


def survey(
    records: Iterable[Record | BlankLine], columns: tuple[str, ...], mapping: ColumnMapping, *, proposed: bool = False
) -> FileProfile:
    """One pass over the rows. FileRefused when most of them do not fit. Of a mapping that nobody has confirmed, a
    person's or conversation's id becomes the group where it is not every row's own.
    """
    tally = _Tally()
    for one in records:
        if isinstance(one, BlankLine):
            tally.blank += 1
            continue
        _count(tally, one, mapping)
    _check(tally)
    if 2 * tally.no_turns > tally.rows and tally.first_refused is not None:
        of_rows = f"In {tally.no_turns:,} of {tally.rows:,} rows no conversation can be read so"
        raise ColumnsUnclear(f"{of_rows}; {tally.first_refused}.", columns=columns)
    if 2 * tally.nested > tally.rows:
        raise ColumnsUnclear(_nested_advice(tally), columns=columns)
    same, conflicting, twins = _duplicates(tally)
    found = _result(tally, columns, mapping, (same, conflicting, twins))
    if (
        proposed
        and mapping.conversation is None
        and mapping.id
        and of_a_person(mapping.id)
        and (same or conflicting or tally.without_id)
    ):
        own = replace(mapping, id=None, group=mapping.id)
        return replace(found, mapping=own, same={}, conflicting={}, spaced_twins=0, shared_id=mapping.id)
    return found


def _result(
    tally: _Tally,
    columns: tuple[str, ...],
    mapping: ColumnMapping,
    duplicates: tuple[Mapping[int, int], Mapping[int, int], int],
) -> FileProfile:
    same, conflicting, twins = duplicates
    return FileProfile(
        rows=tally.rows,
        blank_lines=tally.blank,
        structural=tally.structural,
        columns=columns,
        mapping=mapping,
        label_values=tally.labels,
        same=same,
        conflicting=conflicting,
        spaced_twins=twins,
        listed=tally.listed,
        formulas=tally.formulas,
        conversations=tally.conversations,
        turns=tally.turns,
        cut_cells=tally.at_longest if _NEAR_EXCEL_CELL <= tally.longest <= EXCEL_CELL else 0,
    )


def keys_of(records: Iterable[Record | BlankLine]) -> tuple[str, ...]:
    """All the names that JSON objects use, in the order of their first use. FileRefused beyond the limit."""
    names: dict[str, None] = {}
    for one in records:
        if isinstance(one, Record) and one.fields is not None:
            names.update(dict.fromkeys(one.fields))
            if len(names) > COLUMN_LIMIT:
                raise FileRefused(f"The objects use more than {COLUMN_LIMIT:,} different names.")
    return tuple(names)


def chosen_mapping(columns: tuple[str, ...], mapping: ColumnMapping | None) -> ColumnMapping:
    """The mapping to read with: the given one, checked, or the proposal. ColumnsUnclear when there is none, or when
    several columns could be the same thing.
    """
    if mapping is not None:
        missing = mapping.columns() - set(columns)
        if missing:
            raise ColumnsUnclear(f"The file has no column {', '.join(sorted(missing))}.", columns=columns)
        reading = mapping.conversation
        if reading is not None and reading.shape is Shape.ROWS and None in (mapping.id, reading.role):
            raise ColumnsUnclear(
                "With a turn a row, say which columns name the conversation and who speaks.", columns=columns
            )
        return mapping
    proposal = propose_mapping(columns)
    if proposal is None:
        raise ColumnsUnclear(_no_text_column(columns), columns=columns)
    for role, names in rivals(columns).items():
        raise ColumnsUnclear(_several(role, names), columns=columns)
    return proposal


def _several(role: str, names: tuple[str, ...]) -> str:
    """Which columns a person must choose between; their names are known ones, so none is a message."""
    sentence = f"{len(names)} columns could be the {role}: {', '.join(names)}. Say which one it is"
    return f"{sentence}, or join them." if role == "text" else f"{sentence}."


def text_of(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The text of a row, its title first and what is joined to it last; None when all of them are missing."""
    present = [cell for name in mapping.text_columns() if (cell := _text_in(fields, name, mapping)) is not None]
    filled = [cell for cell in present if cell.strip()]
    return "\n\n".join(filled) if filled else present[-1] if present else None


def reply_of(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The reply to the text; None without one."""
    return _text_in(fields, mapping.reply, mapping) if mapping.reply else None


def _text_in(fields: Fields, name: str, mapping: ColumnMapping) -> str | None:
    cell = fields.get(name)
    return join_list(cell) if cell is not None and mapping.lists else cell


def nested_column(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The column of the text or of the reply that holds a list or an object that is not joined; None: neither does."""
    names = (*mapping.text_columns(), *((mapping.reply,) if mapping.reply else ()))
    cells = ((name, fields.get(name)) for name in names)
    unread = (name for name, cell in cells if isinstance(cell, NestedValue) and not (mapping.lists and _is_list(cell)))
    return next(unread, None)


def _is_list(cell: str) -> bool:
    return parts_of(cell) is not None


def _is_list_or_turns(cell: str) -> bool:
    return _is_list(cell) or holds_turns(cell)


def id_of(record: Record, fields: Fields, mapping: ColumnMapping) -> str | None:
    """The id exactly as it stands in the file, or the row number without an id column; None when missing."""
    return str(record.row) if mapping.id is None else single(fields, mapping.id)


def _nested_advice(tally: _Tally) -> str:
    """Why rows whose texts have parts are not read, and what can be done."""
    if tally.listed:
        found = f"In {tally.nested:,} of {tally.rows:,} rows the text is a list of strings or turns."
        return f"{found} Join it, read it as conversations, or choose another column."
    return f"In {tally.nested:,} of {tally.rows:,} rows the text is a list or an object, not a text."


def _no_text_column(columns: tuple[str, ...]) -> str:
    known = propose_mapping([*columns, "text"])
    names = sorted(known.columns() - {"text"}) if known else []
    seen = f" It has {len(columns)} columns, among them {', '.join(names)}." if names else ""
    return (
        "No column is known to hold the text. The first row must name the columns, "
        f"one of them text, post, message, prompt or the like.{seen}"
    )


def _count(tally: _Tally, record: Record, mapping: ColumnMapping) -> None:
    tally.rows += 1
    if record.problem is not None:
        tally.structural[record.problem] += 1
        if tally.first_structural is None and record.problem in STRUCTURAL:
            tally.first_structural = record
    if record.fields is None:
        return
    fields = record.fields
    tally.nested += nested_column(fields, mapping) is not None
    tally.formulas += any(isinstance(fields.get(name), Formula) for name in mapping.text_columns())
    if mapping.conversation is None:
        tally.listed += any(_is_list_or_turns(fields.get(name) or "") for name in mapping.text_columns())
    else:
        _count_turns(tally, fields.get(mapping.text))
    label = single(fields, mapping.label)
    if label is not None and (label in tally.labels or len(tally.labels) <= LABELS_SHOWN):
        tally.labels[label] += 1
    text, identity = text_of(fields, mapping), id_of(record, fields, mapping)
    if isinstance(fields.get(mapping.text), RefusedTurns):
        return
    if identity is None or not identity.strip():
        tally.without_id += 1
        return
    if text is None or not text.strip():
        return
    _measure(tally, len(text))
    _remember(tally, record.row, identity, (text, reply_of(fields, mapping), label))


def _count_turns(tally: _Tally, cell: str | None) -> None:
    if isinstance(cell, ConversationCell | RefusedTurns):
        tally.conversations += bool(cell.read)
        tally.turns += cell.read
    if isinstance(cell, RefusedTurns) and cell.reason is Reason.NOT_A_CONVERSATION:
        tally.no_turns += 1
        tally.first_refused = tally.first_refused or str(cell)


def _measure(tally: _Tally, length: int) -> None:
    if length > tally.longest:
        tally.longest, tally.at_longest = length, 0
    tally.at_longest += length == tally.longest


def _remember(tally: _Tally, row: int, identity: str, content: tuple[str | None, ...]) -> None:
    tally.ids += _digest(identity)
    tally.contents += _digest("\x00".join("" if part is None else f"{len(part)}:{part}" for part in content))
    tally.numbers += row.to_bytes(8, "little")
    if identity != identity.strip():
        tally.spaced += _digest(identity.strip())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=2 * _DIGEST).digest()


def _check(tally: _Tally) -> None:
    if tally.rows == 0:
        raise FileRefused("The file has a header but no rows.")
    wrong = sum(count for reason, count in tally.structural.items() if reason in STRUCTURAL)
    first = tally.first_structural
    if first is not None and 2 * wrong > tally.rows:
        raise FileRefused(
            f"{wrong:,} of {tally.rows:,} rows do not fit: {first.detail}. Nothing was read, so that no cell "
            "slides into another column.",
            line=first.line,
        )


def _duplicates(tally: _Tally) -> tuple[dict[int, int], dict[int, int], int]:
    """Rows that repeat an id with the same content, rows of ids with different contents, and spaced twins."""
    ids = np.frombuffer(bytes(tally.ids), dtype=np.dtype([("high", "<u8"), ("low", "<u8")]))
    contents = np.frombuffer(bytes(tally.contents), dtype=ids.dtype)
    numbers = np.frombuffer(bytes(tally.numbers), dtype="<u8")
    order = np.lexsort((numbers, ids["low"], ids["high"]))
    same: dict[int, int] = {}
    conflicting: dict[int, int] = {}
    for group in _groups(ids[order]):
        members = order[group]
        rows = [int(row) for row in numbers[members]]
        if len({contents[member].tobytes() for member in members}) == 1:
            same.update(dict.fromkeys(rows[1:], rows[0]))
        else:
            conflicting.update(dict.fromkeys(rows, rows[0]))
    return same, conflicting, _twins(ids, bytes(tally.spaced))


def _groups(ordered: npt.NDArray[np.void]) -> list[slice]:
    """Slices of two or more equal neighbours."""
    if len(ordered) < 2:
        return []
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = np.concatenate(([0], changes))
    ends = np.concatenate((changes, [len(ordered)]))
    long = ends - starts > 1
    return [slice(int(start), int(end)) for start, end in zip(starts[long], ends[long], strict=True)]


def _twins(ids: npt.NDArray[np.void], spaced: bytes) -> int:
    """How many ids with spaces around them differ from another id in those spaces only."""
    return int(np.isin(np.frombuffer(spaced, dtype=f"S{2 * _DIGEST}"), ids.view(f"S{2 * _DIGEST}")).sum())
