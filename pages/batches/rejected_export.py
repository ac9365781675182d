"""The rejected rows of an uploaded file, read from it again while they are downloaded: a link keeps no table."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from jobs.intake import receiver
from pages.batches.uploads import Upload, uploaded_table
from pages.components import resources
from pages.components.streamed import CSV, StreamedFile
from screening.datasets.columns import ColumnMapping
from screening.datasets.rows import RejectedRow, rejected_csv
from screening.review.actors import Actor
from screening.review.policy import Action, require


def rejected_file(upload: Upload, mapping: ColumnMapping) -> StreamedFile:
    """Those of a file that is no batch yet, as it was confirmed; FileNotFoundError once the upload was put away."""
    made = partial(_lines, replace(upload, mapping=mapping))
    return StreamedFile(label="Rejected rows", name="rejected.csv", media_type=CSV, lines=made)


def _lines(upload: Upload, who: Actor) -> Iterator[str]:
    require(who, Action.CREATE_BATCH)
    rows = uploaded_table(upload).rows(receiver(resources.settings()))
    return rejected_csv(row for row in rows if isinstance(row, RejectedRow))
