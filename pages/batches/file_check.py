"""What an uploaded file holds, before the first call: read once for its columns and once for its rows, however often
its page is drawn; which rows are out and why.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import streamlit as st

from jobs.intake import receiver, told
from pages.ui import context
from screening.datasets.mapping import ColumnMapping
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import NewCase, Reason, Receive, Row, map_label
from screening.datasets.sources import FileRefused
from screening.labels import Label
from screening.pipeline.engine import guard_for
from screening.text.display import visible
from screening.text.received import ReceivedText

FIRST, SHOWN = 6, 160
"""Rows that are shown before anything starts, and how many characters of each text."""

CHECKS_KEPT, REDRAWN_S = 8, 0.3
DRAWN_FROM = 100
"""From so many rows on a bar is drawn before the first one: reading the lists takes a second."""

REASON_WORDS: Mapping[Reason, str] = {
    Reason.EXTRA_CELLS: "more cells than columns",
    Reason.MISSING_CELLS: "fewer cells than columns",
    Reason.ROWS_MERGED: "several rows run into one",
    Reason.HEADER_REPEATED: "the header again",
    Reason.DESCRIBES_COLUMNS: "a line that describes the columns",
    Reason.NOT_JSON: "not JSON",
    Reason.NOT_AN_OBJECT: "not an object with named values",
    Reason.REPEATED_KEY: "a name twice in one row",
    Reason.NO_TEXT: "no text",
    Reason.NOT_A_TEXT: "a list or an object instead of a text",
    Reason.EMPTY_TEXT: "an empty text",
    Reason.PLACEHOLDER: "a placeholder such as [deleted]",
    Reason.NO_ID: "no id",
    Reason.UNUSABLE_ID: "an id that cannot be kept",
    Reason.DUPLICATE: "repeats an earlier row",
    Reason.NOT_A_CONVERSATION: "no list of turns",
    Reason.TURN_WITHOUT_ROLE: "a turn without a known role",
    Reason.TURN_WITHOUT_ORDER: "turns without an order",
    Reason.TOO_MANY_TURNS: "more turns than are read",
    Reason.NO_JUDGED_TURN: "no turn that could be judged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The rows of a file after reading them all; accepted + all of rejected = rows in. ``values`` counts the accepted
    rows by the value of their label column, ``first`` are the file's first rows. ``referenced`` have an original label
    that is known, ``unsafe`` of them an unsafe one. ``looked_at_twice`` need a second look before they are labeled
    safe.
    """

    accepted: int
    rejected: Mapping[Reason, int]
    referenced: int = 0
    unsafe: int = 0
    without_call: int
    characters: int
    not_screened: int = 0
    values: Mapping[str, int] = field(default_factory=dict)
    first: tuple[Row, ...] = ()
    looked_at_twice: int = 0

    def with_labels(self, labels: Mapping[str, Label | None]) -> "Check":
        known = {value: map_label(value, labels) for value in self.values}
        referenced = sum(count for value, count in self.values.items() if known[value] is not None)
        unsafe = sum(count for value, count in self.values.items() if known[value] is Label.UNSAFE)
        return replace(self, referenced=referenced, unsafe=unsafe)

    @property
    def rows_in(self) -> int:
        return self.accepted + sum(self.rejected.values())


def check(table: Table, receive: Receive, tell: Callable[[int], None] = lambda row: None) -> Check:
    """Read every row once, in constant memory; no reference is counted yet, for labels may still be changed. ``tell``
    is called with the number of each row.
    """
    counts: Counter[str] = Counter()
    rejected: Counter[Reason] = Counter()
    values: Counter[str] = Counter()
    first: list[Row] = []
    for row in told(table.rows(receive), tell):
        if len(first) < FIRST:
            first.append(_beginning(row))
        if not isinstance(row, NewCase):
            rejected[Reason(row.reason)] += 1
            continue
        values[row.reference_value or ""] += 1
        counts["accepted"] += 1
        counts["not_screened"] += row.not_screened is not None
        counts["without_call"] += row.text.refuses_screening
        guard = guard_for((*row.text.flags, *(row.reply.flags if row.reply else ())))
        counts["looked_at_twice"] += guard.second_look and guard.refuse_screening is None and guard.refuse_safe is None
        counts["characters"] += len(row.text.model_text) + (len(row.reply.model_text) if row.reply else 0)
    return Check(
        accepted=counts["accepted"],
        rejected=dict(rejected.most_common()),
        without_call=counts["without_call"],
        characters=counts["characters"],
        not_screened=counts["not_screened"],
        values=values,
        first=tuple(first),
        looked_at_twice=counts["looked_at_twice"],
    )


def _beginning(row: Row) -> Row:
    """The row with as much of its texts as is shown: checks are kept a while, and texts may be long."""
    if not isinstance(row, NewCase):
        return replace(row, original_json=None)

    def begun(text: ReceivedText) -> ReceivedText:
        return replace(text, stored=text.stored[: SHOWN + 1], model_text="", original_json=None)

    return replace(row, text=begun(row.text), reply=row.reply and begun(row.reply))


def preview_rows(found: Check, labels: Mapping[str, Label | None]) -> list[dict[str, object]]:
    return [_preview(row, labels) for row in found.first]


def _preview(row: Row, labels: Mapping[str, Label | None]) -> dict[str, object]:
    if not isinstance(row, NewCase):
        said = f"rejected: {REASON_WORDS[Reason(row.reason)]}"
        return {"Row": row.row, "ID": visible(row.external_id or ""), "Text": "", "Status": said}

    def start(text: str) -> str:
        return visible(text[:SHOWN]) + ("…" if len(text) > SHOWN else "")

    label = map_label(row.reference_value, labels)
    known = {
        "Row": row.row,
        "ID": visible(row.external_id),
        "Text": start(row.text.stored),
        "Reply": start(row.reply.stored) if row.reply else None,
        "Status": "accepted" if row.not_screened is None else f"not screened: {visible(row.not_screened)}",
        "Original label": label.value if label else row.reference_value and f"ignored: {visible(row.reference_value)}",
        "Group": None if row.group is None else visible(row.group),
        "Turns": None if row.thread is None else len(row.thread.turns),
        "Contact or location": None if row.where is None else visible(row.where),
    }
    return {name: value for name, value in known.items() if value is not None}


def format_words(table: Table) -> str:
    """How the file was read, in words: kind, encoding, separator."""
    layout = table.layout
    encoding = layout.encoding and f"{layout.encoding.name}{' (a guess)' if layout.encoding.guessed else ''}"
    return ", ".join(part for part in (str(layout.format), encoding, layout.separated_by) if part)


@st.cache_resource(
    max_entries=16,
    ttl=3600,
    show_spinner="Reading the file …",
    hash_funcs={str: lambda words: words.encode(errors="surrogatepass")},  # a broken byte in a label or column's name
)
def profile(path: Path, name: str, sheet: str | None, mapping: ColumnMapping | None = None) -> Table | FileRefused:
    """What the file holds by these columns, or by the proposed ones; or why a person must say more."""
    try:
        return read_table(path, name, mapping=mapping, sheet=sheet)
    except FileRefused as refusal:
        refusal.__context__ = None  # it is kept, and would keep all that was in memory where it arose
        return refusal.with_traceback(None)


def read_mapped(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Table:
    """The file by the columns that a person confirmed: the profile itself where they are the proposed ones.

    Raises FileRefused.
    """
    found = profile(path, name, sheet)
    if isinstance(found, FileRefused) or found.profile.mapping != mapping:
        found = profile(path, name, sheet, mapping)
    if isinstance(found, FileRefused):
        raise found
    return found


def check_rows(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Check:
    """Every row, with a bar that shows how far it is; kept for the session. Raises FileRefused."""
    checks: dict[object, Check] = st.session_state.setdefault("file_checks", {})
    if (place := (path, sheet, mapping)) not in checks:
        table = read_mapped(path, name, sheet, mapping)
        if len(checks) >= CHECKS_KEPT:
            checks.clear()
        rows, drawn = max(table.profile.rows, 1), monotonic() - (REDRAWN_S if table.profile.rows > DRAWN_FROM else 0)

        def tell(row: int) -> None:
            nonlocal drawn
            if monotonic() - drawn > REDRAWN_S:
                drawn = monotonic()
                st.progress(min(row / rows, 1.0), text=f"Checking the texts: {row:,} of {rows:,}")

        with st.empty():
            tell(0)
            checks[place] = check(table, receiver(context.settings()), tell)
            st.write("")
    return checks[place]
