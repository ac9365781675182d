"""The files of a batch, made when they are asked for."""

import json
from collections.abc import Iterator

import streamlit as st

from pages.components import resources
from pages.components.exports import flat, lines_file, rejected_rows_csv, results_csv, results_jsonl
from screening.export import csv_lines, jsonl_lines
from storage.actors import Actor
from storage.batches import BatchSummary
from storage.database import Database
from storage.policy import Action, allowed
from storage.relabelled import RelabelledRow, relabelled_rows

CSV, JSONL = "text/csv", "application/x-ndjson"
RELABELLED_COLUMNS = (
    "external_id", "row", "text", "reply", "group", "reference", "reference_value", "outcome", "adjudicated_label",
    "final_label", "final_source", "withheld", "version",
)  # fmt: skip


def downloads(db: Database, person: Actor, one: BatchSummary) -> None:
    """A row of buttons, as far as this person may have the files."""
    with st.container(horizontal=True):
        if allowed(person, Action.VIEW_RESULTS):
            _button("Results (CSV)", "results.csv", CSV, lambda: results_csv(db, person, one.id))
            _button("Results (JSON lines)", "results.jsonl", JSONL, lambda: results_jsonl(db, person, one.id))
            if one.progress.rejected:
                _button("Rejected rows", "rejected.csv", CSV, lambda: rejected_rows_csv(db, person, one.id))
        if allowed(person, Action.EXPORT):
            _button("Relabelled (CSV)", "relabelled.csv", CSV, lambda: lines_file(_csv(db, person, one.id)))
            _button(
                "Relabelled (JSON lines)", "relabelled.jsonl", JSONL, lambda: lines_file(_jsonl(db, person, one.id))
            )
    st.caption(
        "CSV files are made safe for spreadsheets: a cell that could run as a formula gets an apostrophe. "
        "The JSON lines lose nothing. Relabelled: reference, every reading, adjudicated and final label."
    )


def _button(label: str, name: str, mime: str, made: object) -> None:
    st.download_button(label, data=made, file_name=name, mime=mime, on_click="ignore", icon=":material/download:")


def _rows(db: Database, person: Actor, batch_id: str) -> Iterator[RelabelledRow]:
    key = resources.settings().pseudonym_key.get_secret_value()
    return relabelled_rows(db, person, batch_id, key, resources.now())


def _csv(db: Database, person: Actor, batch_id: str) -> Iterator[str]:
    rows = (
        [*(getattr(row, name) for name in RELABELLED_COLUMNS), json.dumps(flat(row)["ratings"])]
        for row in _rows(db, person, batch_id)
    )
    return csv_lines([*RELABELLED_COLUMNS, "ratings"], rows)


def _jsonl(db: Database, person: Actor, batch_id: str) -> Iterator[str]:
    return jsonl_lines(flat(row) for row in _rows(db, person, batch_id))
