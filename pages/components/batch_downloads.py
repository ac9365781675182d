"""The files of a batch, made when they are asked for."""

from collections.abc import Callable, Iterator
from typing import Any

import streamlit as st

from pages.components import resources
from pages.components.exports import lines_file, rejected_rows_csv, results_csv, results_jsonl
from pages.components.relabelled_export import as_csv, as_jsonl
from pages.components.sign_in import rechecked
from storage.actors import Actor
from storage.batches import BatchSummary
from storage.database import Database
from storage.policy import Action, allowed
from storage.relabelled import RelabelledRow, relabelled_rows
from storage.results import IN_INBOX, withheld_rows

CSV, JSONL = "text/csv", "application/x-ndjson"


def downloads(db: Database, person: Actor, one: BatchSummary) -> None:
    """A row of buttons, as far as this person may have the files; nothing where they may have none."""
    if not (allowed(person, Action.VIEW_RESULTS) or allowed(person, Action.EXPORT)):
        return
    with st.container(horizontal=True):
        if allowed(person, Action.VIEW_RESULTS):
            _button("Results (CSV)", "results.csv", CSV, lambda: results_csv(db, person, one.id))
            _button("Results (JSON lines)", "results.jsonl", JSONL, lambda: results_jsonl(db, person, one.id))
            if one.progress.rejected:
                _button("Rejected rows", "rejected.csv", CSV, lambda: rejected_rows_csv(db, person, one.id))
        if allowed(person, Action.EXPORT):
            _button("Relabelled (CSV)", "relabelled.csv", CSV, lambda: lines_file(as_csv(_rows(db, person, one.id))))
            _button(
                "Relabelled (JSON lines)",
                "relabelled.jsonl",
                JSONL,
                lambda: lines_file(as_jsonl(_rows(db, person, one.id))),
            )
    relabelled = " Relabelled: reference, every reading, adjudicated and final label."
    st.caption(
        "CSV files are made safe for spreadsheets: a cell that could run as a formula gets an apostrophe. "
        "The JSON lines lose nothing." + (relabelled if allowed(person, Action.EXPORT) else "")
    )
    if allowed(person, Action.VIEW_RESULTS) and (withheld := withheld_rows(db, person, one.id)):
        st.caption(withheld_words(withheld))


def withheld_words(rows: int) -> str:
    """How many rows leave out what the engine made of them, and why.

    >>> withheld_words(1).split(". ")[0]
    'Left out of 1 row (in the results it says "in the inbox"): what the engine made of it'
    """
    of = f'Left out of {rows:,} {"row" if rows == 1 else "rows"} (in the results it says "{IN_INBOX}")'
    return (
        f"{of}: what the engine made of it. That of an open case is shown to those who have read it, so that readings "
        "stay blind."
    )


def _button(label: str, name: str, mime: str, made: Callable[[], Any]) -> None:
    st.download_button(
        label, data=rechecked(made), file_name=name, mime=mime, on_click="ignore", icon=":material/download:"
    )


def _rows(db: Database, person: Actor, batch_id: str) -> Iterator[RelabelledRow]:
    key = resources.settings().pseudonym_secret
    return relabelled_rows(db, person, batch_id, key, resources.now())
