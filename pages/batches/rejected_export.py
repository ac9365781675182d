"""The rejected rows of an uploaded file, read from it again while they are downloaded: a link keeps no table."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from jobs.intake import receiver
from pages.batches.uploads import Upload
from pages.components import resources
from pages.components.streamed import CSV, StreamedFile
from screening.datasets.columns import ColumnMapping
from screening.datasets.reader import read_table
from screening.datasets.rows import RejectedRow, rejected_csv
from screening.labels import Label
from screening.review.actors import Actor
from screening.review.policy import Action, require


def rejected_file(upload: Upload, mapping: ColumnMapping, labels: Mapping[str, Label | None]) -> StreamedFile:
    """Those of a file that is no batch yet, as it was confirmed; FileNotFoundError once the upload was put away."""
    made = partial(_lines, upload.path, mapping, dict(labels))
    return StreamedFile(label="Rejected rows", name="rejected.csv", media_type=CSV, lines=made)


def _lines(path: Path, mapping: ColumnMapping, labels: dict[str, Label | None], who: Actor) -> Iterator[str]:
    require(who, Action.CREATE_BATCH)
    rows = read_table(path, mapping=mapping, label_values=labels).rows(receiver(resources.settings()))
    return rejected_csv(row for row in rows if isinstance(row, RejectedRow))
