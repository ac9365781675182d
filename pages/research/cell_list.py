"""A list of cases, of one cell of the matrix or of a batch: filters, a page of rows, and the way to each case."""

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Literal, TypeVar

import pandas as pd
import streamlit as st

from pages.components import resources
from pages.components.computed import compute
from pages.components.options import unique_labels
from pages.research.case_reader import open_case
from pages.research.case_words import outcome_words, reason_words
from pages.research.hide_switch import hide_switch
from screening.review.actors import Actor
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.kinds import IN_REVIEW
from storage.research.cells import CaseInCell, CellPage, cell_choices, cell_page, reveal_text_starts, shown_kinds
from storage.research.listed import Cell, Sort
from storage.research.standing import batch_now

CHOSEN = "chosen_cases"
PAGE = 25
T = TypeVar("T", bound=str)
GAPS: Mapping[str, float] = {"0.2 or less": 0.2, "0.5 or less": 0.5, "0.8 or less": 0.8}
SORTS: Mapping[Sort, str] = {
    "calls": "Most calls", "cost": "Highest cost", "gap": "Narrowest gap", "value": "Label in the file",
    "group": "Group", "id": "ID",
}  # fmt: skip
FROM_THE_MOST: frozenset[Sort] = frozenset({"calls", "cost"})
SOURCES: Mapping[Literal["file", "adjudicated"], str] = {"file": "The file", "adjudicated": "Adjudicated"}


def filters(db: Database, person: Actor, cell: Cell) -> Cell:
    """The cell narrowed by what is chosen; a filter with nothing to choose is left out."""
    shown = compute(shown_kinds, person, cell.batch_id, standing=batch_now(db, person, cell.batch_id), cases=0)
    choices = cell_choices(db, person, cell, shown)
    with st.container(horizontal=True, gap="small"):
        node = _choice("Node", choices["node"], str.title)
        reason = _choice("Reason", choices["reason"], reason_words)
        gap = _choice("Gap", tuple(GAPS), str)
        source = _choice("Label from", tuple(SOURCES), lambda key: SOURCES[key])
        tag = _choice("Tag", choices["tag"], visible)
        sort = _choice("Sort by", tuple(SORTS), lambda key: SORTS[key])
    at_most = GAPS[gap] if gap else None
    return replace(cell, node=node, reason=reason, gap_at_most=at_most, source=source, tag=tag, **_order(sort))


def _order(sort: str | None) -> dict[str, Any]:
    """How a list is sorted by what was chosen: most calls and cost first, all else from its beginning."""
    return {} if sort is None else {"sort": sort, "descending": sort in FROM_THE_MOST}


def _choice(label: str, options: Sequence[T], words: Callable[[T], str]) -> T | None:
    shown = unique_labels({one: words(one) for one in options})
    return st.selectbox(
        label,
        options,
        index=None,
        format_func=shown.__getitem__,
        placeholder="Any",
        key=f"cell_{label.lower().replace(' ', '_')}",
        width=138,
    )


def case_list(db: Database, person: Actor, cell: Cell, *, all_outcomes: bool = False) -> CellPage:
    """One page of the cases; choosing a row opens it in the reader. ``all_outcomes`` shows what became of each."""
    with_text = st.toggle("Show the start of each text", key="cell_texts", help="Each text shown is in the audit log.")
    hide_switch(db, person)
    key = sha256(repr(cell).encode()).hexdigest()[:16]  # all of it: under another filter the page may not exist
    page, number = _page(db, person, cell, st.session_state.get(f"page_{key}", 1))
    _counts(page)
    st.session_state[CHOSEN] = []
    if not page.cases:
        return page
    starts = starts_of(db, person, [case.case_id for case in page.cases]) if with_text else {}
    table = pd.DataFrame([_row(case, starts.get(case.case_id), all_outcomes=all_outcomes) for case in page.cases])
    name = f"cases_{key}_{number}"
    shown = [case.case_id for case in page.cases]
    selected = st.dataframe(
        table,
        hide_index=True,
        on_select=partial(_open_chosen, name, shown),
        selection_mode="multi-row",
        key=name,
        column_config={
            "ID": st.column_config.TextColumn("ID", width="medium"),
            "Gap": st.column_config.ProgressColumn(
                "Gap",
                min_value=0,
                max_value=1,
                format="%.2f",
                help="How far the most frequent answer lay ahead of the second at the agent that ended the case.",
            ),
        },
        placeholder="",
        alt="Cases; choosing a row opens it below",
    )
    st.session_state[CHOSEN] = [shown[row] for row in selected["selection"]["rows"] if row < len(shown)]
    if page.found > PAGE:
        st.pagination(-(-page.found // PAGE), key=f"page_{key}")
    return page


def _open_chosen(name: str, case_ids: Sequence[str]) -> None:
    """One row was chosen: its case is read below the list. Several are only chosen."""
    rows = st.session_state[name]["selection"]["rows"]
    if len(rows) == 1 and rows[0] < len(case_ids):
        open_case(case_ids[rows[0]])


def chosen_cases(open_id: str | None) -> list[str]:
    """What is to be done with cases of the list drawn last is done with these: several that were chosen, else the one
    that is open.
    """
    chosen: list[str] = st.session_state.get(CHOSEN, [])
    return chosen if len(chosen) > 1 else [open_id] if open_id else []


def _page(db: Database, person: Actor, cell: Cell, number: int) -> tuple[CellPage, int]:
    """This page of the cases; the first where there are now too few cases for it."""
    by = person.at(resources.now())
    page = cell_page(db, by, cell, PAGE, PAGE * (number - 1))
    return (page, number) if page.cases or number == 1 else (cell_page(db, by, cell, PAGE), 1)


def _counts(page: CellPage) -> None:
    said = count_of(page.found, "case")
    if page.more:
        said = f"The first {page.found:,} cases in the file's order; narrow the list to sort it or to see others"
    if page.hidden:
        said += f". {page.hidden:,} more are in review and hidden by the switch above"
    st.caption(said + ".")


def _row(case: CaseInCell, start: str | None, *, all_outcomes: bool) -> dict[str, object]:
    row: dict[str, object] = {"Row": case.row, "ID": visible(case.external_id)}
    if start is not None:
        row["Text begins"] = start
    if all_outcomes:
        row |= {"Reference": case.reference, "Outcome": outcome_words(case.outcome)}
    source = "adjudication" if case.adjudicated else "file"
    return row | {
        "Node": "" if case.hidden else (case.node or "none").title(),
        "Gap": case.gap,
        "Calls": case.calls,
        "Reason": "" if case.hidden else reason_words(case.reason),
        "Final label": IN_REVIEW if case.in_review else (case.accepted or "").replace("_", " "),
        "Group": visible(case.group or ""),
        "In the file": visible(case.reference_value or ""),
        "Label from": "" if case.reference is None and not case.adjudicated else source,
        "Tags": ", ".join(map(visible, case.tags)),
    }


_IDENTIFYING = re.compile(r"\bhttps?://\S+|\bwww\.\S+|\S+@\S+\.\S+|[@#]\w+|u/\w+|\d(?:[\d ./-]*\d){3,}", re.IGNORECASE)


def mask_line(start: str) -> str:
    """One line of text with addresses, handles and long numbers taken out.

    >>> mask_line("call me on 0123 456 789,\\nor @someone")
    'call me on ▒▒▒, or ▒▒▒'
    """
    return _IDENTIFYING.sub("▒▒▒", visible(" ".join(start.split())))


def starts_of(db: Database, person: Actor, case_ids: Sequence[str]) -> Mapping[str, str]:
    """The masked beginning of each text; each is one view in the audit log, however often the page is drawn."""
    seen: MutableMapping[str, str] = st.session_state.setdefault("text_starts", {})
    if missing := [case_id for case_id in case_ids if case_id not in seen]:
        found = reveal_text_starts(db, person.at(resources.now()), missing)
        seen.update({case_id: mask_line(start) for case_id, start in found.items()})
    return seen
