"""The files of a batch, made while they are downloaded."""

from collections.abc import Iterator
from functools import partial

import streamlit as st

from pages.batches.exports import (
    Export,
    rejected_rows_csv,
    results_csv,
    results_jsonl,
    results_label_studio,
    results_parquet,
)
from pages.components import resources
from pages.components.computed import compute
from pages.components.relabelled_export import relabelled_files
from pages.components.streamed import CSV, JSON, JSONL, PARQUET, StreamedFile, show_files
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.batches.results import withheld_rows
from storage.database import Database
from storage.kinds import IN_INBOX
from storage.research.standing import batch_now


def downloads(db: Database, person: Actor, one: BatchSummary) -> None:
    """A row of links, as far as this person may have the files; nothing where they may have none."""
    files = list(_results(db, one)) if is_allowed(person, Action.VIEW_RESULTS) else []
    if is_allowed(person, Action.EXPORT):
        files += relabelled_files(one.id)
    if not files:
        return
    show_files(files)
    relabelled = " Relabelled: reference, every reading, adjudicated and final label."
    st.caption(
        "CSV files are made safe for spreadsheets: an apostrophe stands before what could run as a formula. "
        "The JSON lines lose nothing." + (relabelled if is_allowed(person, Action.EXPORT) else "")
    )
    if is_allowed(person, Action.VIEW_RESULTS) and (withheld := _withheld(db, person, one)):
        counted = " The counts above take it as one for a clinician." if is_allowed(person, Action.CLAIM_NEXT) else ""
        st.caption(withheld_words(withheld) + counted)


def _withheld(db: Database, person: Actor, one: BatchSummary) -> int:
    """In how many rows; kept while nothing is opened, read or closed."""
    return compute(withheld_rows, person, one.id, standing=batch_now(db, person, one.id), cases=0)


def withheld_words(rows: int) -> str:
    """How many rows leave out what the engine made of them, and why.

    >>> withheld_words(1).split(". ")[0]
    'Left out of 1 row (in the results it says "in the inbox"): what the engine made of it'
    """
    of = f'Left out of {count_of(rows, "row")} (in the results it says "{IN_INBOX}")'
    return (
        f"{of}: what the engine made of it. That of an open case is shown to those who have read it, so that readings "
        "stay blind."
    )


def _results(db: Database, one: BatchSummary) -> Iterator[StreamedFile]:
    made: dict[tuple[str, str, str], Export] = {
        ("Results (CSV)", "results.csv", CSV): results_csv,
        ("Results (JSON lines)", "results.jsonl", JSONL): results_jsonl,
        ("Results (Parquet)", "results.parquet", PARQUET): results_parquet,
        ("Results (Label Studio)", "results-label-studio.json", JSON): results_label_studio,
    }
    if one.progress.rejected:
        made["Rejected rows", "rejected.csv", CSV] = rejected_rows_csv
    for (label, name, media_type), lines in made.items():
        yield StreamedFile(label=label, name=name, media_type=media_type, lines=partial(_make, lines, db, one.id))


def _make(lines: Export, db: Database, batch_id: str, who: Actor) -> Iterator[str | bytes]:
    return lines(db, who.at(resources.now()), batch_id)
