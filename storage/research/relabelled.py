"""The relabelled data set: for each row what the file said, every reading, the accepted label, and where it is from."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.pseudonyms import pseudonym
from storage.batches.case_texts import as_received
from storage.batches.text_pages import text_page
from storage.blindness import withheld
from storage.database import Database
from storage.review.accepted import accepted_label
from storage.review.ratings import Rating, ratings_in
from storage.review.settling import Adjudication, versions_in
from storage.schema import adjudications, batches, cases, inbox_entries, ratings, screenings
from storage.site.audit_log import append

_CASE = cases.c
_OF_A_CASE = (_CASE.id, _CASE.row, _CASE.external_id, _CASE.reference, _CASE.reference_value, _CASE.group_name)
_TEXTS = (_CASE.text, _CASE.text_original_json, _CASE.reply, _CASE.reply_original_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRating:
    """One version of one reading; the reader's own words (note, reason of a revision) stay inside the site."""

    reader: str
    version: int
    blind: bool
    reading: str
    label: str
    certainty: int
    fields: Mapping[str, Any]
    form_version: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RelabelledRow:
    """One case of a relabelled data set.

    ``final_label`` is the accepted label, else the reference; ``final_source`` says which (adjudicated, reference,
    none). A case that was opened again has no accepted label until it is closed. ``provenance`` is what was announced
    of the file and its labels at intake. ``withheld`` marks an open case that the person exporting may yet read:
    outcome and readings are left out.
    """

    version: str
    case_id: str
    row: int
    external_id: str
    text: str | None
    reply: str | None
    group: str | None
    reference: str | None
    reference_value: str | None
    provenance: Mapping[str, Any]
    outcome: str | None
    ratings: tuple[ReaderRating, ...]
    adjudications: tuple[Adjudication, ...]
    adjudicated_label: str | None
    final_label: str | None
    final_source: str
    withheld: bool


def relabelled_rows(
    db: Database, actor: Actor, batch_id: str, key: str, now: datetime, *, with_text: bool = True
) -> Iterator[RelabelledRow]:
    """The rows of a batch in order, read a page at a time; ``key`` is the site's pseudonym key.

    The export is in the audit log before the first row is read. Raises Forbidden, KeyError for an unknown batch.
    """
    require(actor, Action.EXPORT)
    with db.write() as conn:
        intake = conn.execute(select(batches.c.intake).where(batches.c.id == batch_id)).first()
        if intake is None:
            raise KeyError(batch_id)
        version = dataset_version(conn, batch_id)
        append(conn, actor, "exported", batch_id, {"kind": "relabelled", "version": version, "text": with_text}, now)
    return _rows(db, actor, batch_id, key, version, intake.intake, with_text)


def dataset_version(conn: Connection, batch_id: str) -> str:
    """Names the state of a batch's readings: it changes with every rating and every adjudication, and only then."""
    digest = hashlib.sha256(batch_id.encode())
    given = select(ratings.c.id).join(cases, cases.c.id == ratings.c.case_id).where(cases.c.batch_id == batch_id)
    accepted = (
        select(adjudications.c.case_id, adjudications.c.version)
        .join(cases, cases.c.id == adjudications.c.case_id)
        .where(cases.c.batch_id == batch_id)
    )
    for rating in conn.execute(given.order_by(ratings.c.id)):
        digest.update(f"r{rating.id}".encode())
    for row in conn.execute(accepted.order_by(adjudications.c.case_id, adjudications.c.version)):
        digest.update(f"a{row.case_id}.{row.version}".encode())
    return digest.hexdigest()[:16]


def _rows(
    db: Database, actor: Actor, batch_id: str, key: str, version: str, source: Mapping[str, Any], with_text: bool
) -> Iterator[RelabelledRow]:
    last = -1
    while True:
        with db.read() as conn:
            chunk = _chunk(conn, actor, batch_id, last, with_text=with_text)
            found = ratings_in(conn, [row.id for row in chunk])
            accepted = {row.id: versions_in(conn, row.id) for row in chunk if row.entered}
        for row in chunk:
            readings, versions = found[row.id], accepted.get(row.id, ())
            yield _row(row, readings, versions, key=key, version=version, source=source, with_text=with_text)
            last = row.row
        if not chunk:
            return


def _chunk(conn: Connection, actor: Actor, batch_id: str, last: int, *, with_text: bool) -> Sequence[Any]:
    query = (
        select(
            *_OF_A_CASE,
            *(_TEXTS if with_text else ()),
            screenings.c.outcome,
            inbox_entries.c.case_id.label("entered"),
            withheld(actor, cases.c.id).label("withheld"),
            accepted_label(cases.c.id).label("accepted"),
        )
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .outerjoin(inbox_entries, inbox_entries.c.case_id == cases.c.id)
        .where(cases.c.batch_id == batch_id, cases.c.row > last)
        .order_by(cases.c.row)
    )
    return text_page(conn, query)


def _row(
    row: Any,
    readings: Sequence[Rating],
    versions: tuple[Adjudication, ...],
    *,
    key: str,
    version: str,
    source: Mapping[str, Any],
    with_text: bool,
) -> RelabelledRow:
    hidden = bool(row.withheld)
    return RelabelledRow(
        version=version,
        case_id=row.id,
        row=row.row,
        external_id=row.external_id,
        text=as_received(row.text, row.text_original_json) if with_text else None,
        reply=as_received(row.reply, row.reply_original_json) if with_text else None,
        group=row.group_name,
        reference=row.reference,
        reference_value=row.reference_value,
        provenance=source,
        outcome=None if hidden else row.outcome,
        ratings=() if hidden else tuple(_reader_rating(rating, key) for rating in readings),
        adjudications=() if hidden else tuple(_pseudonymous(made, key) for made in versions),
        adjudicated_label=row.accepted,
        final_label=row.accepted or row.reference,
        final_source="adjudicated" if row.accepted else "reference" if row.reference else "none",
        withheld=hidden,
    )


def _reader_rating(rating: Rating, key: str) -> ReaderRating:
    return ReaderRating(
        reader=pseudonym(key, rating.reviewer),
        version=rating.version,
        blind=rating.blind,
        reading=rating.reading,
        label=rating.form.label.value,
        certainty=rating.form.certainty,
        fields=rating.form.model_dump(mode="json", exclude={"label", "certainty", "note"}),
        form_version=rating.form_version,
        at=rating.at,
    )


def _pseudonymous(made: Adjudication, key: str) -> Adjudication:
    return Adjudication(
        case_id=made.case_id,
        version=made.version,
        label=made.label,
        method=made.method,
        by=made.by if made.by == "system" else pseudonym(key, made.by),
        reason=None,
        rating_ids=made.rating_ids,
        at=made.at,
    )
