"""The relabelled data set: for each row what the file said, every reading, the accepted label, and where it is from;
as it is now, or as it was after so many accepted labels.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from screening.evaluation.guarantee import model_words, pipeline_version, prompt_version, rule_words
from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.pseudonyms import pseudonym
from storage.audit_log import append
from storage.batches.case_texts import text_as_received
from storage.batches.configurations import pipeline_bound
from storage.batches.results import noted
from storage.batches.text_pages import text_page
from storage.database import Database
from storage.review.adjudication import Adjudication, Method, versions_of
from storage.review.ratings import Rating, ratings_in
from storage.schema import adjudications, batches, case_tags, cases, configurations, ratings, screenings
from storage.visibility import accepted_label, hidden_from, is_in_review, order_given, record_shown

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

    ``final_label`` is the accepted label, else the reference; ``final_source`` says which: adjudicated (by several
    reviewers), one reviewer, reference, none. A case that was opened again has no accepted label until it is closed.
    ``provenance`` is what was announced of the file and its labels at intake. ``as_of`` is how many accepted labels of
    the batch the data set holds, its readings are those given by then, and ``version`` names just that. ``hidden``
    marks a case in review of which whoever exports hides the outcome: what it was screened with, readings and tags are
    left out too. ``pipeline_delta`` bounds a wrong label anywhere on a way through the pipeline; None where an agent
    has no bound.
    """

    version: str
    as_of: int
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
    hidden: bool
    model: str | None = None
    prompts: str | None = None
    pipeline: str | None = None
    rule: str | None = None
    pipeline_delta: float | None = None
    configuration: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVersion:
    """The state of a batch's labels after its first ``as_of`` accepted ones. ``name`` changes with every rating and
    every adjudication, and only then. ``versions`` is the newest version by then of each case that has one; readings
    are those given up to ``until``, all of them where it is None and ``as_of`` is the last.
    """

    name: str
    as_of: int
    last: int
    until: datetime | None
    versions: Mapping[str, int] = field(default_factory=dict)

    def holds(self, at: datetime) -> bool:
        """Whether a reading of this moment is in it."""
        return self.as_of == self.last or (self.until is not None and at <= self.until)


def export_relabelled(
    db: Database,
    by: Acting,
    batch_id: str,
    key: str,
    *,
    with_text: bool = True,
    as_of: int | None = None,
    hide: bool | None = None,
) -> Iterator[RelabelledRow]:
    """The rows of a batch in order, read a page at a time; ``key`` is the site's pseudonym key. ``as_of`` is the number
    of accepted labels to go back to; 0 is the file as it came, None all there are.

    The export is in the audit log before the first row is read, and what it tells of cases in review is written down;
    ``hide`` says whether that is hidden, None: as this person has chosen. Raises Forbidden, KeyError for an
    unknown batch.
    """
    require(by.actor, Action.EXPORT)
    with db.write() as conn:
        intake = conn.execute(select(batches.c.intake).where(batches.c.id == batch_id)).first()
        if intake is None:
            raise KeyError(batch_id)
        version = dataset_version(conn, batch_id, as_of)
        told: dict[str, str | int | bool] = {"kind": "relabelled", "version": version.name, "as_of": version.as_of}
        append(conn, by, "exported", batch_id, told | {"text": with_text})
    return _rows(
        db,
        by,
        batch_id,
        _Export(key=key, batch_id=batch_id, version=version, source=intake.intake, with_text=with_text, hide=hide),
    )


def dataset_version(conn: Connection, batch_id: str, as_of: int | None = None) -> DatasetVersion:
    """The state after the first ``as_of`` accepted labels, in the order they were given; after all of them for None."""
    made = adjudications.c
    query = select(made.case_id, made.version, made.at).join(cases, cases.c.id == made.case_id)
    ordered = query.where(cases.c.batch_id == batch_id).order_by(*order_given())
    accepted = conn.execute(ordered).all()
    kept = accepted if as_of is None else accepted[:as_of]
    whole = len(kept) == len(accepted)
    until = None if whole or not kept else max(row.at for row in kept)
    given = select(ratings.c.id, ratings.c.at).join(cases, cases.c.id == ratings.c.case_id)
    read = conn.execute(given.where(cases.c.batch_id == batch_id).order_by(ratings.c.id)).all()
    digest = hashlib.sha256(batch_id.encode())
    for rating in read:
        if whole or (until is not None and rating.at <= until):
            digest.update(f"r{rating.id}".encode())
    for row in sorted(kept, key=lambda one: (one.case_id, one.version)):
        digest.update(f"a{row.case_id}.{row.version}".encode())
    return DatasetVersion(
        name=digest.hexdigest()[:16],
        as_of=len(kept),
        last=len(accepted),
        until=until,
        versions={row.case_id: row.version for row in kept},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """What all rows of one export share; ``bodies`` are the configurations met so far, with
    their ``bounds``."""

    key: str
    batch_id: str
    version: DatasetVersion
    source: Mapping[str, Any]
    with_text: bool
    hide: bool | None
    bodies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    bounds: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What stands beside the cases of one page, by case."""

    readings: Mapping[str, Sequence[Rating]]
    versions: Mapping[str, tuple[Adjudication, ...]]
    tags: Mapping[str, Sequence[str]]


def _rows(db: Database, by: Acting, batch_id: str, export: _Export) -> Iterator[RelabelledRow]:
    last = -1
    while True:
        with db.read() as conn:
            hidden = hidden_from(conn, by.actor, cases.c.id, export.hide)
            chunk = _chunk(conn, hidden, batch_id, last, with_text=export.with_text)
            ids = [row.id for row in chunk]
            beside = _Beside(
                readings=ratings_in(conn, ids), versions=versions_of(conn, ids), tags=noted(conn, case_tags.c.tag, ids)
            )
            _meet(conn, export, {row.configuration for row in chunk if row.configuration is not None})
        record_shown(db, by, [row.id for row in chunk if row.in_review and not row.hidden])
        for row in chunk:
            yield _row(row, beside, export)
            last = row.row
        if not chunk:
            return


def _meet(conn: Connection, export: _Export, versions: set[str]) -> None:
    """Read the configurations that no earlier page had."""
    if new := versions - export.bodies.keys():
        query = select(configurations.c.version, configurations.c.body).where(configurations.c.version.in_(new))
        for row in conn.execute(query):
            export.bodies[row.version] = row.body
            export.bounds[row.version] = pipeline_bound(conn, export.batch_id, row.body)


def _chunk(
    conn: Connection, hidden: ColumnElement[bool], batch_id: str, last: int, *, with_text: bool
) -> Sequence[Any]:
    query = (
        select(
            *_OF_A_CASE,
            *(_TEXTS if with_text else ()),
            screenings.c.outcome,
            screenings.c.configuration,
            is_in_review(cases.c.id).label("in_review"),
            hidden.label("hidden"),
            accepted_label(cases.c.id).label("accepted"),
        )
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.batch_id == batch_id, cases.c.row > last)
        .order_by(cases.c.row)
    )
    return text_page(conn, query)


def _row(row: Any, beside: _Beside, export: _Export) -> RelabelledRow:
    hidden, with_text, version = bool(row.hidden), export.with_text, export.version
    versions = [made for made in beside.versions.get(row.id, ()) if made.version <= version.versions.get(row.id, 0)]
    readings = [rating for rating in beside.readings[row.id] if version.holds(rating.at)]
    accepted = versions[-1].label.value if versions and row.accepted is not None else None
    return RelabelledRow(
        version=version.name,
        as_of=version.as_of,
        case_id=row.id,
        row=row.row,
        external_id=row.external_id,
        text=text_as_received(row.text, row.text_original_json) if with_text else None,
        reply=text_as_received(row.reply, row.reply_original_json) if with_text else None,
        group=row.group_name,
        reference=row.reference,
        reference_value=row.reference_value,
        provenance=export.source,
        outcome=None if hidden else row.outcome,
        ratings=() if hidden else tuple(_reader_rating(rating, export.key) for rating in readings),
        adjudications=() if hidden else tuple(_pseudonymous(made, export.key) for made in versions),
        adjudicated_label=accepted,
        final_label=accepted or row.reference,
        final_source=_source_of(versions[-1]) if accepted else "reference" if row.reference else "none",
        hidden=hidden,
        tags=() if hidden else tuple(beside.tags.get(row.id, ())),
        **({} if hidden else _screening_facts(row.configuration, export)),
    )


def _source_of(made: Adjudication) -> str:
    return "one reviewer" if made.method is Method.SINGLE else "adjudicated"


def _screening_facts(version: str | None, export: _Export) -> dict[str, Any]:
    """Model, prompts, pipeline and rule that a case was screened with; nothing for one that was not."""
    if version is None:
        return {}
    body = export.bodies[version]
    return {
        "model": model_words(body),
        "prompts": prompt_version(body),
        "pipeline": pipeline_version(body),
        "rule": rule_words(body),
        "pipeline_delta": export.bounds[version],
        "configuration": version,
    }


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
