"""Files of posts and the batches made of them, as the upload page and the command line make them."""

import csv
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs import intake
from jobs.intake import Upload, fill_batch, open_batch
from jobs.process import system_clock
from screening.datasets.reader import read_table
from screening.pipeline.config import preset
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from storage.batches.batches import NewBatch
from storage.database import Database

SENTENCES = (
    "The bus was late again and I walked home in the rain",
    "I want to die and nobody would notice",
    "My sister visited and we cooked soup",
    "Everything feels pointless since the move",
)


def write_posts(path: Path, rows: int, rejected_every: int = 50) -> int:
    """A file of ``rows`` posts in which some have no text; returns how many are to be accepted."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("id", "text", "label"))
        for row in range(1, rows + 1):
            text = "" if row % rejected_every == 0 else f"{SENTENCES[row % len(SENTENCES)]}, day {row}."
            writer.writerow((f"p{row}", text, "safe"))
    return rows - rows // rejected_every


def settings(database_url: str, options: Mapping[str, Any]) -> Settings:
    return Settings(_env_file=None, DATABASE_URL=database_url, **options)


def batch_from(db: Database, path: Path, chosen: Settings) -> str:
    batch_id = open_for(db, path, chosen)
    fill_batch(db, LOCAL_USER, batch_id, read_table(path, path.name), chosen, system_clock)
    return batch_id


def hand_over(db: Database, path: Path, chosen: Settings) -> Upload:
    """The file as the upload page hands it to `IntakeRuns`: kept, confirmed as proposed, with an empty batch."""
    with path.open("rb") as stream:
        kept = intake.keep(chosen.data_directory / intake.BY_PEOPLE, path.name, stream, LOCAL_USER.id)
    table = read_table(kept.path, kept.name)
    batch_id = open_for(db, path, chosen)
    confirmed = replace(kept, mapping=table.mapping, label_values=dict(table.labels))
    return intake.begin(confirmed, lambda: batch_id)


def open_for(db: Database, path: Path, chosen: Settings) -> str:
    pipeline = preset("recommended", delta=0.2, budget=30)
    return open_batch(db, LOCAL_USER, pipeline, NewBatch(name=path.name), chosen, system_clock)


def take_in(chosen: Settings) -> None:
    """What the app does at its start; the process ends, with 1 where a file is left."""
    runs = runs_of(Database(chosen.database_url), chosen)
    runs.resume()
    runs.wait()
    sys.exit(1 if list(intake.unfinished_uploads(runs.folder)) else 0)


def runs_of(db: Database, chosen: Settings) -> intake.IntakeRuns:
    return intake.IntakeRuns(db, chosen, chosen.data_directory / intake.BY_PEOPLE, system_clock)
