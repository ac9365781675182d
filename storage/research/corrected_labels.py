"""The corrected data set: for each row what the file said, every review, the accepted label, and where it is from;
as it is now, or as it was after so many accepted labels. And who changed which label when, from what to what, and why.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from screening.evaluation.audit import configuration_words
from screening.review.policy import SYSTEM, Acting, Action, Actor, pseudonym, require
from storage.audit_log import append
from storage.batches.configurations import pipeline_bound
from storage.batches.intake import text_as_received, text_page
from storage.batches.results import noted
from storage.database import Database, record
from storage.review.adjudication import Adjudication, Method, versions_of
from storage.review.reviews import Review, reviews_in
from storage.schema import adjudications, batches, case_tags, cases, configurations, reviews, screenings
from storage.visibility import accepted_label, hidden_from, is_in_review, order_given, record_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRow:
    """One case of a corrected data set. ``final_label`` is the accepted label, which a case that was opened again does
    not have, else the reference; ``final_source`` says which: adjudicated (by several), one reviewer, reference, none.

    ``provenance`` is what was announced of the file. ``as_of`` is how many accepted labels of the batch the data set
    holds, its reviews are those given by then, and ``version`` names just that. Of a ``hidden`` case in review what it
    was screened with, reviews and tags are left out. ``pipeline_delta`` bounds a wrong label on any way through the
    pipeline; None where an agent has no bound.
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
    outcome: str | None = None
    reviews: tuple[Mapping[str, Any], ...] = ()
    adjudications: tuple[Adjudication, ...] = ()
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
    """The state of a batch's labels after its first ``as_of`` accepted ones. ``name`` changes with every review and
    every adjudication, and only then. ``versions`` is the newest version by then of each case that has one; reviews
    are those given up to ``until``.
    """

    name: str
    as_of: int
    until: datetime
    versions: Mapping[str, int]


def export_corrected_labels(
    db: Database,
    by: Acting,
    batch_id: str,
    key: str,
    *,
    with_text: bool = True,
    as_of: int | None = None,
    hide: bool | None = None,
) -> Iterator[CorrectedRow]:
    """The rows of a batch in order, read a page at a time; ``key`` is the site's pseudonym key. ``as_of`` is the number
    of accepted labels to go back to; 0 is the file as it came, None all there are.

    The export is in the audit log before the first row is read, and what it tells of cases in review is written down;
    ``hide`` says whether that is hidden, None: as this person has chosen. Raises Forbidden, KeyError for an
    unknown batch.
    """
    require(by.actor, Action.EXPORT)
    query = select(batches.c.intake, configurations.c.version, configurations.c.body).join(configurations)
    with db.read() as conn:
        if (batch := conn.execute(query.where(batches.c.id == batch_id)).first()) is None:
            raise KeyError(batch_id)
        delta = pipeline_bound(conn, batch_id, batch.body)
    with db.write() as conn:
        version = dataset_version(conn, batch_id, as_of)
        told: dict[str, str | int | bool] = {"kind": "corrected", "version": version.name, "as_of": version.as_of}
        append(conn, by, "exported", batch_id, told | {"text": with_text})
    screened_with = configuration_words(batch.body) | {"pipeline_delta": delta, "configuration": batch.version}

    def rows() -> Iterator[CorrectedRow]:
        last = -1
        while True:
            with db.read() as conn:
                hidden = hidden_from(conn, by.actor, cases.c.id, hide)
                page = text_page(conn, _page_after(last, batch_id, hidden, with_text=with_text))
                ids = [row.case_id for row in page]
                reviews, versions = reviews_in(conn, ids), versions_of(conn, ids)
                tags = noted(conn, case_tags.c.tag, ids)
            record_shown(db, by, [row.case_id for row in page if row.in_review and not row.hidden])
            for row in page:
                made = [one for one in versions[row.case_id] if one.version <= version.versions.get(row.case_id, 0)]
                given = [one for one in reviews[row.case_id] if one.at <= version.until]
                shown: dict[str, Any] = {"outcome": None}
                if not row.hidden:
                    shown = {
                        "outcome": row.outcome,
                        "reviews": tuple(_reviewer_label(one, key) for one in given),
                        "adjudications": tuple(replace(one, by=_pseudonym(key, one.by), reason=None) for one in made),
                        "tags": tags.get(row.case_id, ()),
                        **(screened_with if row.outcome is not None else {}),
                    }
                # no label of an open case is accepted, which would tell its next reviewer something
                accepted = made[-1].label.value if made and row.accepted is not None else None
                settled = "one reviewer" if made and made[-1].method is Method.SINGLE else "adjudicated"
                yield record(
                    CorrectedRow,
                    row,
                    **shown,
                    version=version.name,
                    as_of=version.as_of,
                    provenance=batch.intake,
                    text=text_as_received(row.text, row.text_original_json) if with_text else None,
                    reply=text_as_received(row.reply, row.reply_original_json) if with_text else None,
                    adjudicated_label=accepted,
                    final_label=accepted or row.reference,
                    final_source=settled if accepted else "reference" if row.reference else "none",
                    hidden=bool(row.hidden),
                )
                last = row.row
            if not page:
                return

    return rows()


def dataset_version(conn: Connection, batch_id: str, as_of: int | None = None) -> DatasetVersion:
    """The state after the first ``as_of`` accepted labels, in the order they were given; after all of them for None."""
    made = adjudications.c
    query = select(made.case_id, made.version, made.at).join(cases)
    ordered = query.where(cases.c.batch_id == batch_id).order_by(*order_given())
    accepted = conn.execute(ordered).all()
    kept = accepted if as_of is None else accepted[:as_of]
    until = max((row.at for row in kept), default=datetime.min.replace(tzinfo=UTC))
    if len(kept) == len(accepted):  # with the reviews of which no label came as yet
        until = datetime.max.replace(tzinfo=UTC)
    given = select(reviews.c.id, reviews.c.at).join(cases)
    read = conn.execute(given.where(cases.c.batch_id == batch_id).order_by(reviews.c.id)).all()
    digest = hashlib.sha256(batch_id.encode())
    for review in read:
        if review.at <= until:
            digest.update(f"r{review.id}".encode())
    for row in sorted(kept, key=lambda one: (one.case_id, one.version)):
        digest.update(f"a{row.case_id}.{row.version}".encode())
    versions = {row.case_id: row.version for row in kept}
    return DatasetVersion(name=digest.hexdigest()[:16], as_of=len(kept), until=until, versions=versions)


def _page_after(last: int, batch_id: str, hidden: ColumnElement[bool], *, with_text: bool) -> Select[Any]:
    case = cases.c
    texts = (case.text, case.text_original_json, case.reply, case.reply_original_json) if with_text else ()
    return (
        select(
            *(case.id.label("case_id"), case.row, case.external_id, case.group_name.label("group")),
            *(case.reference, case.reference_value, *texts, screenings.c.outcome),
            is_in_review(case.id).label("in_review"),
            hidden.label("hidden"),
            accepted_label(case.id).label("accepted"),
        )
        .outerjoin(screenings, screenings.c.case_id == case.id)
        .where(case.batch_id == batch_id, case.row > last)
        .order_by(case.row)
    )


def _pseudonym(key: str, by: str) -> str:
    return by if by == SYSTEM.id else pseudonym(key, by)


def _reviewer_label(review: Review, key: str) -> Mapping[str, Any]:
    """One version of one review; the reviewer's own words (note, reason of a revision) stay inside the site."""
    fields = review.form.model_dump(mode="json", exclude={"note"}) | {"coded": review.form.coded}
    return {
        "reviewer": pseudonym(key, review.reviewer),
        "version": review.version,
        "blind": review.blind,
        "review_round": review.review_round,
        "label": fields.pop("label"),
        "certainty": fields.pop("certainty"),
        "fields": fields,
        "form_version": review.form_version,
        "at": review.at,
    }


MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One accepted label. ``number`` is its place in the batch: the version of the data set that begins with it.

    ``before`` is the label that stood until then: the one accepted before, else the file's, None where there was none.
    ``by`` is a pseudonym, or ``system`` where reviewers agreed. ``reason`` is in their own words, for a label changed.
    """

    number: int
    case_id: str
    row: int
    external_id: str
    at: datetime
    by: str
    before: str | None
    label: str
    method: str
    reason: str | None

    @property
    def changes(self) -> bool:
        """Whether another label stood before."""
        return self.before is not None and self.before != self.label


def ledger(
    db: Database, by: Acting, batch_id: str, key: str, as_of: int | None = None, most: int = MOST_ENTRIES
) -> tuple[tuple[Entry, ...], int, int]:
    """The last ``most`` of the first ``as_of`` entries of a batch, or of all, in their order; how many belong to cases
    in review of which this person hides the outcome; and how many come before those that were fetched. ``key`` is the
    site's pseudonym key. What is shown of cases that are in review again is written down. Raises Forbidden.
    """
    require(by.actor, Action.VIEW_RESULTS)
    require(by.actor, Action.VIEW_REVIEWS)
    made, before = adjudications.c, adjudications.alias("earlier").c
    previous = and_(before.case_id == made.case_id, before.version == made.version - 1)
    columns = (made.case_id, cases.c.row, cases.c.external_id, made.at, made.by, made.label, made.method, made.reason)
    query = select(*columns, func.coalesce(before.label, cases.c.reference).label("before"))
    query = query.select_from(adjudications).join(cases, cases.c.id == made.case_id)
    query = query.outerjoin(before.case_id.table, previous)
    query = query.where(cases.c.batch_id == batch_id).order_by(*order_given())
    with db.read() as conn:
        last = conn.execute(_count(batch_id)).scalar_one() if as_of is None else as_of
        earlier = max(0, last - most)
        query = query.add_columns(hidden_from(conn, by.actor, made.case_id, None).label("hidden"))
        rows = conn.execute(query.offset(earlier).limit(last - earlier)).all()
    shown = tuple(
        record(Entry, row, number=number, by=_pseudonym(key, row.by))
        for number, row in enumerate(rows, start=earlier + 1)
        if not row.hidden
    )
    record_shown(db, by, [entry.case_id for entry in shown])
    return shown, len(rows) - len(shown), earlier


def count_labels(db: Database, actor: Actor, batch_id: str) -> int:
    require(actor, Action.VIEW_RESULTS)
    return int(db.value(_count(batch_id)))


def _count(batch_id: str) -> Select[Any]:
    joined = select(func.count()).select_from(adjudications).join(cases, cases.c.id == adjudications.c.case_id)
    return joined.where(cases.c.batch_id == batch_id)
