"""A case taken with its text is what claiming it, opening it and asking for its notes were, and one line in the log."""

from sqlalchemy import select

from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.drafts import notes
from storage.review.evidence import open_named, open_next, reveal_text
from storage.review.queue import counts, queue
from storage.review.reports import exposure
from storage.schema import audit_events, cases, inbox_entries
from tests.storage.inbox_cases import ANN, BO, CY, MINUTE, NOW, SENIOR, fill
from tests.storage.statements import statements


def _logged(db: Database) -> list[tuple[str, str, str]]:
    query = select(audit_events.c.actor, audit_events.c.action, audit_events.c.subject).order_by(audit_events.c.seq)
    return [(row.actor, row.action, row.subject) for row in db.rows(query)]


def test_it_is_claim_text_and_notes_in_one_transaction(db: Database) -> None:
    first, second = fill(db, [Tier.P0, Tier.P1])
    claims.claim_next(db, ANN.at(NOW), token=lambda: "t")
    inbox.ask_second_opinion(db, ANN.at(NOW), first, "t", "safe, I think")  # a note that could give a reading away
    inbox.skip(db, ANN.at(NOW), first, "t", "ann was called away")
    before = len(_logged(db))
    with statements() as sent:
        opened = open_next(db, BO.at(NOW))
    assert opened is not None
    claim, shown = opened
    assert claim.case_id == shown.text.case_id == first
    assert [(one.kind, one.note) for one in shown.left] == [("skip", "ann was called away")]
    assert _logged(db)[before:] == [("bo", "opened", first)]
    assert sum(one.startswith("BEGIN") for one, _ in sent) == (db.kind == "sqlite"), "one transaction"
    assert claims.my_claims(db, BO.at(NOW)) == (claim,)
    assert shown.text == reveal_text(db, BO.at(NOW), first, claim.token)
    assert shown.left == notes(db, BO.at(NOW), first, claim.token)
    assert exposure(db, BO.at(NOW), NOW - MINUTE).texts == 1
    reveal_text(db, BO.at(NOW + MINUTE), first, claim.token)
    first_and_last = select(inbox_entries.c.first_opened_at, inbox_entries.c.last_opened_at)
    assert db.rows(first_and_last.where(inbox_entries.c.case_id == first)) == [(NOW, NOW + MINUTE)]
    other = open_next(db, ANN.at(NOW), tiers=[Tier.P1])
    assert other is not None and other[0].case_id == second
    assert open_next(db, ANN.at(NOW + MINUTE)) is None


def test_the_cases_of_one_upload_alone_are_counted_listed_and_given(db: Database) -> None:
    """The other upload came first and is as urgent; within the filter nothing of it is counted as inside, listed or
    given, also where tiers are chosen beside; urgent cases outside are still counted as open.
    """
    others, ours = fill(db, [Tier.P0, Tier.P2]), fill(db, [Tier.P2, Tier.P0, Tier.P1])
    batch = db.value(select(cases.c.batch_id).where(cases.c.id == ours[0]))
    for tiers, inside in ((None, 3), ([Tier.P1, Tier.P2], 2)):
        found = counts(db, SENIOR.at(NOW), tiers, batch)
        assert (found.free, sum(found.inside_by_tier.values()), found.outside_filter) == (inside, inside, 5 - inside)
        assert found.open_by_tier[Tier.P0] == 2
    listed = [one.case_id for one in queue(db, SENIOR.at(NOW), batch=batch)]
    assert listed == [ours[1], ours[2], ours[0]] and not set(listed) & set(others)
    given = [open_next(db, who.at(NOW), batch=batch) for who in (ANN, BO, CY)]
    assert [one and one[0].case_id for one in given] == listed
    assert open_next(db, SENIOR.at(NOW), tiers=[Tier.P0], batch=batch) is None
    assert counts(db, SENIOR.at(NOW), None, batch).held == 3 and counts(db, ANN.at(NOW), None, batch).free == 0
    assert counts(db, SENIOR.at(NOW)).free == 2


def test_a_chosen_case_too_is_one_line(db: Database) -> None:
    _, second = fill(db, [Tier.P0, Tier.P1])
    claim, shown = open_named(db, SENIOR.at(NOW), second)
    assert (claim.case_id, shown.text.case_id) == (second, second)
    assert _logged(db) == [("sue", "opened", second)]
    claims.renew(db, SENIOR.at(NOW), second, claim.token)
    assert claims.claim(db, SENIOR.at(NOW + 20 * MINUTE), second).case_id == second, "by who held it last"
