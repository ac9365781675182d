"""Cases in an inbox, made directly as rows, and people to read them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Table, insert, select, update

from screening.review.policy import SYSTEM, Actor
from screening.review.review_form import Disposition, ReviewForm, ReviewLabel
from screening.review.triage import TARGETS, Priority, second_review_coin
from storage.audit_log import DIGESTED, append, subject_of
from storage.batches.counts import Kind, add
from storage.batches.screenings import EndedRun, run_row
from storage.database import Database
from storage.review import claims, inbox
from storage.review.adjudication import Next, adjudicate, reveal_versions
from storage.review.evidence import reveal_evidence
from storage.review.reviews import revise, submit_review
from storage.schema import accounts, batches, cases, configurations, inbox_entries, node_runs, screenings
from storage.schema.columns import new_id
from storage.settings_store import SiteSettings, change
from storage.visibility import is_blind
from tests.databases import write
from tests.storage.batch_of import run
from tests.storage.people import ADMIN, NOW, PEOPLE, later


def register(db: Database, *people: Actor) -> None:
    """Give them accounts."""
    rows = [
        {"id": who.id, "subject": f"idp|{who.id}", "display_name": who.name, "roles": sorted(who.roles)}
        for who in people
    ]
    write(db, insert(accounts), [row | {"active": True, "created_at": NOW} for row in rows])


def site(db: Database, *people: Actor, **settings: Any) -> None:
    """These people, or all who read cases; second reviews by a coin only where a setting says so."""
    register(db, *(people or PEOPLE.values()))
    change(db, ADMIN.at(NOW), SiteSettings(**{"second_review_rate": 0.0, **settings}), 0)


def entry(db: Database, case_id: str) -> Any:
    """The case's row in the queue."""
    return db.row(select(inbox_entries).where(inbox_entries.c.case_id == case_id))


def batch_of(db: Database, case_id: str) -> str:
    """The batch that the case came in with."""
    return db.value(select(cases.c.batch_id).where(cases.c.id == case_id))


def put(db: Database, case_id: str, **values: object) -> None:
    """Change the case's row in the queue directly."""
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == case_id).values(**values))


def blind(db: Database, who: Actor, case_id: str, *, first: bool = True) -> bool:
    """Whether they would read the case blind now."""
    with db.read() as conn:
        return is_blind(conn, who, case_id, first=first)


def rows(db: Database, table: Table) -> list[Any]:
    """All of a table."""
    return list(db.rows(select(table)))


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
    ended = Kind(outcome=outcome, reference=None, node="worker", reason="exhausted")
    screened = {"kind": ended.key, "calls": 6, "node": ended.node, "reason": ended.reason, "outcome": outcome}
    screened |= {"configuration": batch, "delta": 0.05, "completed_at": NOW}
    made = {"name": "posts.csv", "kind": kind, "created_by": created_by, "intake": {"labels": "jury"}}
    times = list(entered_at or [NOW + number * timedelta(seconds=1) for number in range(len(ids))])
    with db.write() as conn:
        conn.execute(insert(configurations).values(version=batch, body={"pipeline": {}}, created_at=NOW))
        conn.execute(insert(batches).values(id=batch, configuration=batch, seed=1, created_at=NOW, **made))
        add(conn, batch, 0, {ended: len(ids)})
        for row, (case_id, priority, when) in enumerate(zip(ids, priorities, times, strict=True), start=1):
            place = {"batch_id": batch, "row": row}
            written = {"external_id": f"post-{row}", "text": f"canary text number {row}"}
            conn.execute(insert(cases).values(_CASE | place | written | {"id": case_id}))
            conn.execute(insert(screenings).values(screened | place | {"case_id": case_id}))
            conn.execute(insert(node_runs).values(run_row(SimpleNamespace(id=case_id, **place), _RUN)))  # type: ignore[arg-type]
            due = {
                "priority": int(priority),
                "entered_at": when,
                "due_at": when + TARGETS[priority],
                "why": "unsettled",
            }
            if entered:
                conn.execute(insert(inbox_entries).values(due | {"batch_id": batch, "case_id": case_id}))
    return ids


_CASE = {
    "text_sha256": "0" * 64,
    "flags": {"text": [], "reply": []},
    "reference": "safe",
    "reference_value": "no",
    "audit_probability": 0.0,
    "created_at": NOW,
}
_RUN = EndedRun(position=0, run=run("SSU?SS", None), cost_usd=None, started_at=NOW, ended_at=NOW)


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


def play(db: Database, case_id: str, script: str) -> Next:
    """What a script does: "ann asks unsafe monitor, bo safe 5" are reviews, "ann revises safe" and "ann sees"
    what follows them, "sue decides unsafe" and "sue amends safe" a senior's word. Each step is a minute after the one
    before it. Returns what is next after the last review or revision.
    """
    following = Next.CLOSED
    for number, step in enumerate(script.split(", "), start=1):
        name, *words = step.split()
        at, by = later(number), PEOPLE[name].at(later(number))
        label = next((one for one in words if one in tuple(ReviewLabel)), "unsafe")
        asked = next((one for one in words if one in tuple(Disposition)), "none")
        filled = form(label, int(words[-1]) if words[-1].isdigit() else 4, disposition=asked)
        if "sees" in words:
            reveal_evidence(db, by, case_id)
        elif "revises" in words:
            following = revise(db, by, case_id, filled, "read again", f"{number:x}" * 32) or following
        elif "decides" in words:
            adjudicate(db, by, case_id, ReviewLabel(label), "why")
        elif "amends" in words:
            adjudicate(db, by, case_id, ReviewLabel(label), "why", reveal_versions(db, by, case_id)[-1].version)
        else:
            following = read(db, PEOPLE[name], filled, f"{number:x}", at, ask="asks" in words) or following
    return following
