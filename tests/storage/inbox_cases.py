"""Cases in an inbox, made directly as rows, and people to read them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert, select

from screening.review.actors import SYSTEM, Actor, Role
from screening.review.review_form import ReviewForm, ReviewLabel
from screening.review.triage import TARGETS, Priority, second_review_coin
from storage.audit_log import DIGESTED, append, subject_of
from storage.batches.counts import Kind, add
from storage.clock import new_id
from storage.database import Database
from storage.review import claims, inbox
from storage.review.adjudication import Next
from storage.review.reviews import submit_review
from storage.schema import accounts, batches, cases, configurations, inbox_entries, node_runs, screenings
from storage.settings_store import SiteSettings
from tests.databases import write

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def person(name: str, *roles: Role) -> Actor:
    """Somebody of that name; a reviewer where nothing else is said."""
    return Actor(id=name, name=name.title(), roles=frozenset(roles or (Role.REVIEWER,)))


ANN, BO, CY = person("ann"), person("bo"), person("cy")
SENIOR = person("sue", Role.SENIOR)
RESEARCHER = person("rae", Role.RESEARCHER)
ADMIN = person("ada", Role.ADMIN)


def register(db: Database, *people: Actor) -> None:
    """Give them accounts."""
    rows = [
        {"id": who.id, "subject": f"idp|{who.id}", "display_name": who.name, "roles": sorted(who.roles)}
        for who in people
    ]
    write(db, insert(accounts), [row | {"active": True, "created_at": NOW} for row in rows])


def vouch(db: Database) -> None:
    """Have an event of the audit log for all that these helpers put into tables by hand."""
    with db.write() as conn:
        rows = {
            table: {str(subject) for subject in conn.execute(select(subject_of(table))).scalars()} for table in DIGESTED
        }
        append(conn, SYSTEM.at(NOW), "made_by_hand", None, {}, rows=rows)


def _unsampled_id() -> str:
    """An id that the coin for second reviews spares at the default rate, so that no test depends on chance."""
    return next(
        made for made in iter(lambda: new_id(NOW), "") if second_review_coin(made) >= SiteSettings().second_review_rate
    )


def fill(
    db: Database,
    priorities: Sequence[Priority] = (Priority.P2,),
    *,
    entered: bool = True,
    outcome: str = "human_review",
    kind: str = "batch",
    created_by: str = "rae",
    entered_at: Iterable[datetime] | None = None,
) -> list[str]:
    """One screened case per priority, in the inbox unless ``entered`` is false; their ids in that order."""
    ids = [_unsampled_id() for _ in priorities]
    batch = new_id(NOW)
    times = list(entered_at or [NOW + number * timedelta(seconds=1) for number in range(len(ids))])
    with db.write() as conn:
        conn.execute(insert(configurations).values(version=batch, body={"pipeline": {}}, created_at=NOW))
        conn.execute(
            insert(batches).values(
                id=batch,
                name="posts.csv",
                kind=kind,
                configuration=batch,
                seed=1,
                intake={"labels": "jury"},
                created_by=created_by,
                created_at=NOW,
            )
        )
        conn.execute(insert(cases), [_case(case_id, batch, row) for row, case_id in enumerate(ids, 1)])
        ended = Kind(outcome=outcome, reference=None, node="worker", reason="exhausted")
        rows = [
            _screening(case_id, batch, outcome) | {"kind": ended.key, "row": row} for row, case_id in enumerate(ids, 1)
        ]
        conn.execute(insert(screenings), rows)
        add(conn, batch, 0, {ended: len(ids)})
        conn.execute(
            insert(node_runs), [_run(case_id) | {"batch_id": batch, "row": row} for row, case_id in enumerate(ids, 1)]
        )
        if entered:
            conn.execute(
                insert(inbox_entries),
                [
                    {
                        "case_id": case_id,
                        **{name: screened[name] for name in ("batch_id", "kind", "calls")},
                        "priority": int(priority),
                        "why": "unsettled",
                        "entered_at": at,
                        "due_at": at + TARGETS[priority],
                    }
                    for case_id, priority, at, screened in zip(ids, priorities, times, rows, strict=True)
                ],
            )
    return ids


def _case(case_id: str, batch: str, row: int) -> dict[str, object]:
    return {
        "id": case_id,
        "batch_id": batch,
        "row": row,
        "external_id": f"post-{row}",
        "text": f"canary text number {row}",
        "text_sha256": "0" * 64,
        "flags": {"text": [], "reply": []},
        "reference": "safe",
        "reference_value": "no",
        "audit_probability": 0.0,
        "created_at": NOW,
    }


def _screening(case_id: str, batch: str, outcome: str) -> dict[str, object]:
    return {
        "case_id": case_id,
        "batch_id": batch,
        "configuration": batch,
        "outcome": outcome,
        "node": "worker",
        "reason": "exhausted",
        "calls": 6,
        "delta": 0.05,
        "completed_at": NOW,
    }


def _run(case_id: str) -> dict[str, object]:
    return {
        "case_id": case_id,
        "position": 0,
        "node": "worker",
        "variant": "main",
        "draws": "SSU?SS",
        "unusable": {"3": "perhaps"},
        "label": None,
        "ended": "exhausted",
        "calls": 6,
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "started_at": NOW,
        "ended_at": NOW,
    }


def form(label: ReviewLabel | str = "unsafe", certainty: int = 4, **fields: object) -> ReviewForm:
    """A filled-in form, of a site where nothing more is to be done."""
    return ReviewForm.model_validate({"label": label, "certainty": certainty, "disposition": "none", **fields})


def take(db: Database, who: Actor, now: datetime = NOW, **options: Any) -> claims.Claim:
    """The next case, which there is, in this person's hands."""
    claim = claims.claim_next(db, who.at(now), **options)
    assert claim is not None
    return claim


def read(
    db: Database, who: Actor, filled: ReviewForm, letter: str = "", now: datetime = NOW, *, ask: bool = False
) -> Next | None:
    """This person reads the next case, and asks for a second opinion first where that is wanted."""
    claim = take(db, who, now)
    if ask:
        inbox.ask_second_opinion(db, who.at(now), claim.case_id, claim.token)
    return submit_review(db, who.at(now), claim.case_id, claim.token, filled, letter * 32 or new_id(now))
