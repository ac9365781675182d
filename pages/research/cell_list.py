"""The list of cases behind one cell of the matrix: filters, a page of rows, and the way to each case."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Literal, TypeVar

import pandas as pd
import streamlit as st

from pages.components.options import told_apart
from pages.components.words import REASON_WORDS
from pages.research.text_starts import starts_of
from screening.engine.screen import Reason
from screening.review.actors import Actor
from screening.text.display import visible
from storage.database import Database
from storage.research.cells import CaseInCell, Cell, CellPage, cell_choices, cell_page

PAGE = 25
T = TypeVar("T", bound=str)
GAPS: Mapping[str, float] = {"0.2 or less": 0.2, "0.5 or less": 0.5, "0.8 or less": 0.8}
SOURCES: Mapping[Literal["file", "adjudicated"], str] = {"file": "The file", "adjudicated": "Adjudicated"}


def reason_words(reason: str | None) -> str:
    """A stored reason in words; one this version does not know is shown as it is."""
    try:
        return REASON_WORDS[Reason(reason or "")]
    except ValueError:
        return reason or "not settled yet"


def filters(db: Database, person: Actor, cell: Cell) -> Cell:
    """The cell narrowed by what is chosen; a filter with nothing to choose is left out."""
    choices = cell_choices(db, person, cell)
    with st.container(horizontal=True, gap="small"):
        node = _choice("Node", choices["node"], str.title)
        reason = _choice("Reason", choices["reason"], reason_words)
        gap = _choice("Gap", tuple(GAPS), str)
        source = _choice("Label from", tuple(SOURCES), lambda key: SOURCES[key])
    at_most = GAPS[gap] if gap else None
    return replace(cell, node=node, reason=reason, gap_at_most=at_most, source=source)


def _choice(label: str, options: Sequence[T], words: Callable[[T], str]) -> T | None:
    shown = told_apart({one: words(one) for one in options})
    return st.selectbox(
        label,
        options,
        index=None,
        format_func=shown.__getitem__,
        placeholder="Any",
        key=f"cell_{label.lower().replace(' ', '_')}",
        width=138,
    )


def case_list(db: Database, person: Actor, cell: Cell) -> str | None:
    """One page of the cell's cases; the id of the one that is chosen."""
    with_text = st.toggle("Show the start of each text", key="cell_texts", help="Each text shown is in the audit log.")
    key = "|".join(map(str, astuple(cell)))  # all of it: under another filter the page chosen may not exist
    page, number = _page(db, person, cell, st.session_state.get(f"page_{key}", 1))
    _counts(page)
    if not page.cases:
        return None
    starts = starts_of(db, person, [case.case_id for case in page.cases]) if with_text else {}
    table = pd.DataFrame([_row(case, starts.get(case.case_id)) for case in page.cases])
    chosen = st.dataframe(
        table,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"cases_{key}_{number}",
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
        alt="Cases of the chosen cell",
    )
    if page.found > PAGE:
        st.pagination(-(-page.found // PAGE), key=f"page_{key}")
    rows = chosen["selection"]["rows"]
    return page.cases[rows[0]].case_id if rows and rows[0] < len(page.cases) else None


def _page(db: Database, person: Actor, cell: Cell, number: int) -> tuple[CellPage, int]:
    """That page of the cases; the first where there are so few by now that it is none."""
    page = cell_page(db, person, cell, PAGE, PAGE * (number - 1))
    return (page, number) if page.cases or number == 1 else (cell_page(db, person, cell, PAGE), 1)


def _counts(page: CellPage) -> None:
    said = f"{page.found:,} case{'' if page.found == 1 else 's'}"
    if page.waiting:
        said += (
            f". {page.waiting:,} more wait in the inbox: what the engine made of an open case is shown to those who "
            "have read it, so that readings stay blind"
        )
    st.caption(said + ".")


def _row(case: CaseInCell, start: str | None) -> dict[str, object]:
    row: dict[str, object] = {
        "Row": case.row,
        "ID": visible(case.external_id),
        "Node": (case.node or "none").title(),
        "Gap": case.gap,
        "Calls": case.calls,
        "Reason": reason_words(case.reason),
        "Group": visible(case.group or ""),
        "Label from": "adjudication" if case.adjudicated else visible(case.reference_value or "file"),
    }
    return row if start is None else {"Row": row.pop("Row"), "ID": row.pop("ID"), "Text begins": start, **row}
