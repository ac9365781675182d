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
from pages.ui import context
from pages.ui.downloads import CSV, JSON, JSONL, PARQUET, StreamedFile, relabelled_files, show_files
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.batches.batches import BatchSummary
from storage.database import Database


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
        "CSV escapes formulas; use JSON lines for unmodified text."
        + (relabelled if is_allowed(person, Action.EXPORT) else "")
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
    return lines(db, who.at(context.now()), batch_id)
