"""A case taken with its text is what claiming it, opening it and asking for its notes were; the same person's other
texts are beside it, only where the file's column names people. What was opened is counted; a break starts that again.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from screening.review.triage import Priority
from storage.database import Database
from storage.review import claims, inbox
from storage.review.evidence import EACH_WAY, near_texts, notes, open_named, open_next, reveal_text, show
from storage.review.queue import counts, queue
from storage.review.reports import exposure, take_break
from storage.schema import audit_events, batches, cases, inbox_entries
from storage.settings_store import SiteSettings, change
from tests.databases import write
from tests.storage.inbox_cases import ADMIN, ANN, BO, CY, MINUTE, NOW, SENIOR, fill, take
from tests.storage.statements import plan, statements


def _logged(db: Database) -> list[tuple[str, str, str]]:
    query = select(audit_events.c.actor, audit_events.c.action, audit_events.c.subject).order_by(audit_events.c.seq)
    return [(row.actor, row.action, row.subject) for row in db.rows(query)]


def test_it_is_claim_text_and_notes_in_one_transaction(db: Database) -> None:
    first, second = fill(db, [Priority.P0, Priority.P1])
    claims.claim_next(db, ANN.at(NOW), token=lambda: "t")
    inbox.ask_second_opinion(db, ANN.at(NOW), first, "t", "safe, I think")  # a note that could give a review away
    inbox.skip(db, ANN.at(NOW), first, "t", "ann was called away")
    before = len(_logged(db))
    with statements() as sent:
        opened = open_next(db, BO.at(NOW))
    assert opened is not None
    claim, shown = opened
    assert claim.case_id == shown.case_id == first
    assert [(one.kind, one.note) for one in shown.left] == [("skip", "ann was called away")]
    assert _logged(db)[before:] == [("bo", "opened", first)]
    assert sum(one.startswith("BEGIN") for one, _ in sent) == (db.kind == "sqlite"), "one transaction"
    assert claims.my_claims(db, BO.at(NOW)) == (claim,)
    assert replace(shown, left=(), near=()) == reveal_text(db, BO.at(NOW), first, claim.token)
    assert shown.left == notes(db, BO.at(NOW), first, claim.token)
    assert exposure(db, BO.at(NOW), NOW - MINUTE).texts == 1
    reveal_text(db, BO.at(NOW + MINUTE), first, claim.token)
    first_and_last = select(inbox_entries.c.first_opened_at, inbox_entries.c.last_opened_at)
    assert db.rows(first_and_last.where(inbox_entries.c.case_id == first)) == [(NOW, NOW + MINUTE)]
    other = open_next(db, ANN.at(NOW), priorities=[Priority.P1])
    assert other is not None and other[0].case_id == second
    assert open_next(db, ANN.at(NOW + MINUTE)) is None


def test_the_cases_of_one_upload_alone_are_counted_listed_and_given(db: Database) -> None:
    """The other upload came first and is as urgent; within the filter nothing of it is counted as inside, listed or
    given, also where priorities are chosen beside; urgent cases outside are still counted as open.
    """
    others, ours = fill(db, [Priority.P0, Priority.P2]), fill(db, [Priority.P2, Priority.P0, Priority.P1])
    batch = db.value(select(cases.c.batch_id).where(cases.c.id == ours[0]))
    for priorities, inside in ((None, 3), ([Priority.P1, Priority.P2], 2)):
        found = counts(db, SENIOR.at(NOW), priorities, batch)
        assert (found.free, sum(found.inside_by_priority.values()), found.outside_filter) == (
            inside,
            inside,
            5 - inside,
        )
        assert found.open_by_priority[Priority.P0] == 2
    listed = [one.case_id for one in queue(db, SENIOR.at(NOW), batch=batch)]
    assert listed == [ours[1], ours[2], ours[0]] and not set(listed) & set(others)
    given = [open_next(db, who.at(NOW), batch=batch) for who in (ANN, BO, CY)]
    assert [one and one[0].case_id for one in given] == listed
    assert open_next(db, SENIOR.at(NOW), priorities=[Priority.P0], batch=batch) is None
    assert counts(db, SENIOR.at(NOW), None, batch).held == 3 and counts(db, ANN.at(NOW), None, batch).free == 0
    assert counts(db, SENIOR.at(NOW)).free == 2


def test_a_chosen_case_too_is_one_line(db: Database) -> None:
    _, second = fill(db, [Priority.P0, Priority.P1])
    claim, shown = open_named(db, SENIOR.at(NOW), second)
    assert (claim.case_id, shown.case_id) == (second, second)
    assert _logged(db) == [("sue", "opened", second)]
    claims.renew(db, SENIOR.at(NOW), second, claim.token)
    assert claims.claim(db, SENIOR.at(NOW + 20 * MINUTE), second).case_id == second, "by who held it last"


def _of_people(db: Database, people: str, column: str | None = "Patient ID") -> list[str]:
    """One case a letter, of the person with that letter; a dash for none."""
    ids = fill(db, [Priority.P2] * len(people))
    with db.write() as conn:
        conn.execute(update(batches).values(intake={"group_column": column}))
        for case_id, person in zip(ids, people, strict=True):
            named = None if person == "-" else person
            conn.execute(update(cases).where(cases.c.id == case_id).values(group_name=named, text=f"text {case_id}"))
    return ids


def test_the_nearest_are_shown_in_the_order_of_the_file(db: Database) -> None:
    ids = _of_people(db, "aaaaabaaaa-b")
    other = _of_people(db, "a")  # of another file: the same name may be another person
    near = show(db, SENIOR.at(NOW), ids[4]).near
    before, after = [f"text {each}" for each in ids[1:4]], [f"text {each}" for each in ids[6:9]]
    assert [(each.text, each.before) for each in near] == [(each, True) for each in before] + [
        (each, False) for each in after
    ]
    assert len(before) == len(after) == EACH_WAY
    assert [show(db, SENIOR.at(NOW), each).near for each in (ids[10], other[0])] == [(), ()]


@pytest.mark.parametrize(
    ("column", "shown"), [("user_id", 1), ("author", 1), ("subreddit", 0), ("topic", 0), (None, 0)]
)
def test_a_group_of_topics_is_not_a_person(db: Database, column: str | None, shown: int) -> None:
    ids = _of_people(db, "aa", column)
    opened = open_next(db, ANN.at(NOW))
    assert opened is not None and len(opened[1].near) == shown
    assert db.value(select(inbox_entries.c.first_opened_at).where(inbox_entries.c.case_id == ids[1])) is None, (
        "no look at its own case"
    )


def test_they_are_found_by_an_index(db: Database) -> None:
    ids = _of_people(db, "aab")
    write(db, update(batches).values(name="posts.csv"))
    with statements() as sent, db.read() as conn:
        near_texts(conn, ids[0])
    found = [each for each in sent if "group_name =" in each[0]]
    assert found and all("ix_cases_group" in plan(db, statement, values) for statement, values in found)


def open_texts(db: Database, number: int, now: datetime = NOW) -> None:
    for _ in range(number):
        claim = take(db, ANN, now, lease=timedelta(days=2))
        reveal_text(db, ANN.at(now), claim.case_id, claim.token)
        reveal_text(db, ANN.at(now), claim.case_id, claim.token)  # looking twice at one text is one text


def test_texts_are_counted_once_per_day_and_a_break_is_due_at_the_sites_number(db: Database) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(break_after_texts=3), 0)
    fill(db, [Priority.P2] * 6)
    open_texts(db, 2, NOW - timedelta(days=1))
    open_texts(db, 2)
    assert (exposure(db, ANN.at(NOW), NOW).texts, exposure(db, ANN.at(NOW), NOW).break_due) == (2, False)
    open_texts(db, 1)
    due = exposure(db, ANN.at(NOW), NOW)
    assert (due.texts, due.since_break, due.break_due) == (3, 3, True)
    take_break(db, ANN.at(NOW + MINUTE))
    after = exposure(db, ANN.at(NOW), NOW)
    assert (after.texts, after.since_break, after.break_due) == (3, 0, False)
    open_texts(db, 1, NOW + 2 * MINUTE)
    assert exposure(db, ANN.at(NOW), NOW).since_break == 1
    assert len(claims.my_claims(db, ANN.at(NOW + 2 * MINUTE))) == 6, "a break gives no case away"


def test_midnight_is_no_break(db: Database) -> None:
    """A shift goes over it, and midnight UTC is an afternoon somewhere: a break that is due stays due."""
    change(db, ADMIN.at(NOW), SiteSettings(break_after_texts=3), 0)
    fill(db, [Priority.P2] * 4)
    midnight = NOW.replace(hour=0) + timedelta(days=1)
    open_texts(db, 3, midnight - MINUTE)
    after = exposure(db, ANN.at(midnight + MINUTE), midnight)
    assert (after.texts, after.since_break, after.break_due) == (0, 3, True)
    take_break(db, ANN.at(midnight + MINUTE))
    open_texts(db, 1, midnight + 2 * MINUTE)
    assert exposure(db, ANN.at(midnight + 3 * MINUTE), midnight).since_break == 1
    rested = exposure(db, ANN.at(midnight + timedelta(hours=9)), midnight)
    assert (rested.texts, rested.since_break) == (1, 0), "a night's rest is one"


def test_everybody_sees_only_their_own(db: Database) -> None:
    fill(db, [Priority.P2])
    open_texts(db, 1)
    assert exposure(db, BO.at(NOW), NOW).texts == 0
    with pytest.raises(TypeError):
        exposure(db, BO.at(NOW), NOW, "ann")  # type: ignore[call-arg]
