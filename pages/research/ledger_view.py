"""The ledger of a batch's labels on the page: every label accepted, and the cases behind its counts."""

import pandas as pd
import streamlit as st

from pages.research.case_list import hide_switch, open_case, open_case_id, reader
from pages.ui import context
from pages.ui.format import time_column
from screening.review.actors import Actor
from screening.text.display import visible
from storage.database import Database
from storage.research.ledger import Entry, Ledger, ledger
from storage.review.adjudication import Method

HOW: dict[str, str] = {
    Method.SINGLE.value: "one reading",
    Method.AGREEMENT.value: "readers agreed",
    Method.SENIOR.value: "a senior decided",
    Method.DISCUSSION.value: "discussed",
    Method.AMENDMENT.value: "amended",
}
TABLE = "ledger_rows"


def show_ledger(db: Database, person: Actor, batch_id: str, last: int) -> None:
    """All entries as of a version, or those of one kind; choosing a row opens its case below."""
    if not last:
        st.info("No label of this batch has been accepted by clinicians yet: each will be an entry here.")
        return
    version = st.slider("As of version", 1, last, last, key="ledger_version") if last > 1 else 1
    key = context.settings().pseudonym_secret
    hide_switch(db, person)
    found = ledger(db, person.at(context.now()), batch_id, key, version)
    entries = _choose(found)
    if found.earlier:
        st.caption(f"The {found.earlier:,} entries before these are listed where an earlier version is chosen above.")
    if found.hidden:
        st.caption(f"{found.hidden:,} of cases in review are hidden by the switch above.")
    _table(entries)
    ids = list(dict.fromkeys(entry.case_id for entry in entries))
    if (case_id := open_case_id(ids)) is not None:
        reader(db, person, ids, case_id)


def _choose(found: Ledger) -> list[Entry]:
    """The entries of the kind chosen; the counts are the choices, so that each opens its cases."""
    kinds = {
        f"{'Last' if found.earlier else 'All'} {len(found.entries):,}": list(found.entries),
        f"Changed a label {sum(entry.changes for entry in found.entries):,}": [e for e in found.entries if e.changes],
        f"Confirmed it {sum(e.before == e.label for e in found.entries):,}": [
            e for e in found.entries if e.before == e.label
        ],
        f"The first label {sum(e.before is None for e in found.entries):,}": [
            e for e in found.entries if e.before is None
        ],
    }
    names = list(kinds)
    place = st.segmented_control(
        "Entries", range(len(names)), format_func=names.__getitem__, default=0, key="ledger_kind", required=True
    )
    return kinds[names[place or 0]]


def _table(entries: list[Entry]) -> None:
    st.dataframe(
        pd.DataFrame([_row(entry) for entry in entries]),
        hide_index=True,
        on_select=lambda: _open_chosen([entry.case_id for entry in entries]),
        selection_mode="single-row",
        key=TABLE,
        column_config={"When": time_column("When")},
        alt="The ledger: who gave which label when, from what to what; choosing a row opens its case below",
    )
    st.caption(
        "Version n of the data set is the state after entry n. Who is a pseudonym, the same one as in the exports; "
        "“system” is the program, which accepts what readers agree on. Reasons stay here and leave in no file."
    )


def _open_chosen(case_ids: list[str]) -> None:
    rows = st.session_state[TABLE]["selection"]["rows"]
    if rows and rows[0] < len(case_ids):
        open_case(case_ids[rows[0]])


def _row(entry: Entry) -> dict[str, object]:
    return {
        "Version": entry.number,
        "When": entry.at,
        "Who": entry.by,
        "Case": visible(entry.external_id),
        "From": (entry.before or "no label").replace("_", " "),
        "To": entry.label.replace("_", " "),
        "How": HOW.get(entry.method, entry.method),
        "Reason": visible(entry.reason or ""),
    }
