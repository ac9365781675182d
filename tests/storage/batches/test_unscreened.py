"""What a fault keeps from being screened enters the inbox once, and its outcome later meets that very entry."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.reach import Reach
from screening.review.triage import TARGETS, Tier
from storage.batches.batch_state import BatchState, Caps
from storage.batches.batches import batch_state, cancel, change_caps, pause, resume
from storage.batches.configurations import load_configuration
from storage.batches.costs import cost_by_node
from storage.batches.counts import IN_REVIEW, PENDING
from storage.batches.pending import record_error
from storage.batches.results import count_ways, results
from storage.batches.unscreened import NO_WORKER, PAUSED, bring_in, standstills
from storage.database import Database
from storage.identifiers import new_id
from storage.research.reliability import audit_sample
from storage.review.claims import claim_next
from storage.review.evidence import reveal_text
from storage.review.inbox import release
from storage.review.ratings import submit_rating
from storage.schema import audit_events, batches, cases, inbox_entries, unblindings
from storage.settings_store import SiteSettings, change
from storage.site.processes import beat
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, NOW, batch, commit, commit_run, decide, run, screening, waiting
from tests.storage.inbox_cases import ADMIN, ANN, BO, SENIOR, form, read, register, take

SOON, LATE = NOW + timedelta(minutes=14), NOW + timedelta(minutes=16)
PLAIN, STATED = "A plain text of some words.", "I want to die and I have the pills ready tonight."


def undecided(db: Database, texts: int = 3, reach: Reach = Reach.READ, **options: object) -> str:
    """A batch of so many texts, the first of which states a risk."""
    return batch(db, [STATED, *[PLAIN] * (texts - 1)], reach=reach, **options)  # type: ignore[arg-type]


def entries(db: Database) -> list[tuple[int, str, str | None]]:
    """Tier, why and cause of what is in the inbox, in the file's order."""
    query = select(inbox_entries.c.tier, inbox_entries.c.why, inbox_entries.c.cause)
    with db.read() as conn:
        rows = conn.execute(query.join(cases, cases.c.id == inbox_entries.c.case_id).order_by(cases.c.row))
        return [tuple(row) for row in rows]  # type: ignore[misc]


def live(db: Database, until: datetime, since: datetime = NOW) -> None:
    """A worker that lives from then until then."""
    beat(db, "w1", "worker", since)
    beat(db, "w1", "worker", until)


def fail(db: Database, *, stops_batch: bool = False, kind: str = "unreachable", at: datetime = NOW) -> None:
    """The first case that is ready fails."""
    record_error(db, waiting(db)[0], kind, "no answer", at, stops_batch=stops_batch)


needs_its_own_clock = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_without_a_worker_all_enter_after_the_site_s_time_and_once(db: Database) -> None:
    undecided(db)
    assert [bring_in(db, moment) for moment in (SOON, LATE, LATE)] == [0, 3, 0]
    assert entries(db) == [(0, "not_screened", NO_WORKER), *[(2, "not_screened", NO_WORKER)] * 2]
    [one] = standstills(db, LATE)
    assert (one.cause, one.since, one.waiting) == (NO_WORKER, NOW, 3)


@pytest.mark.parametrize("reach", [Reach.LIST, Reach.COUNT])
def test_of_a_batch_that_only_counts_what_states_an_imminent_risk_enters_alone(db: Database, reach: Reach) -> None:
    undecided(db, reach=reach)
    assert bring_in(db, LATE) == 1 and entries(db) == [(0, "not_screened", NO_WORKER)]
    assert [one.waiting for one in standstills(db, LATE)] == [3]


def test_a_fault_that_pauses_the_batch_brings_all_of_it(db: Database) -> None:
    undecided(db)
    fail(db, stops_batch=True, kind="bad_key")
    assert bring_in(db, SOON) == 0
    assert bring_in(db, LATE) == 3 and {cause for *_, cause in entries(db)} == {"bad_key"}


def test_what_an_agent_said_of_a_case_that_then_failed_is_counted_for_nobody_who_may_read_it(db: Database) -> None:
    batch_id = undecided(db, 1)
    [case_id] = waiting(db)
    pipeline = load_configuration(db, CONFIGURATION.version).pipeline
    commit_run(db, case_id, 0, run("EEEEEE", Label.ESCALATE))
    fail(db, kind="server_error")
    assert count_ways(db, LOCAL_USER, batch_id, pipeline).asked == {"worker": 1}
    assert bring_in(db, LATE) == 1
    assert count_ways(db, LOCAL_USER, batch_id, pipeline).asked == {"worker": 1}, "in review or not"
    assert [one.node for one in cost_by_node(db, LOCAL_USER, batch_id)] == ["worker"]


def test_a_pause_by_a_person_brings_only_what_states_a_risk(db: Database) -> None:
    batch_id = undecided(db)
    pause(db, LOCAL_USER.at(NOW), batch_id)
    assert bring_in(db, LATE) == 1 and entries(db) == [(0, "not_screened", PAUSED)]
    assert standstills(db, LATE) == ()  # nothing is broken


def test_a_cap_brings_all_and_a_cancelled_batch_nothing(db: Database) -> None:
    capped, cancelled = undecided(db), undecided(db)
    change_caps(db, LOCAL_USER.at(NOW), capped, Caps(max_cost_usd=0.0))
    pause(db, SYSTEM.at(NOW), cancelled, "bad_key")
    cancel(db, LOCAL_USER.at(NOW), cancelled)
    assert bring_in(db, LATE) == 3 and {cause for *_, cause in entries(db)} == {"max_cost"}


@pytest.mark.parametrize("why", ["bad_key", "server_error", None])
def test_an_overnight_batch_raises_the_banner_alone(db: Database, why: str | None) -> None:
    """Paused by the program, with a case that failed, or waiting without a worker."""
    batch_id = undecided(db)
    if why is not None:
        fail(db, kind=why, stops_batch=why == "bad_key")
    write(db, update(batches).where(batches.c.id == batch_id).values(overnight=True))
    assert bring_in(db, LATE) == 0 and entries(db) == []
    assert (why or NO_WORKER) in {one.cause for one in standstills(db, LATE)}


def test_what_was_tried_again_for_a_while_before_it_was_given_up_waits_since_its_first_failure(db: Database) -> None:
    undecided(db, 1)
    (case_id,) = waiting(db)
    record_error(db, case_id, "server_error", "no", NOW, again_in=timedelta(seconds=1))
    record_error(db, case_id, "timeout", "no", SOON)
    assert bring_in(db, SOON) == 0
    assert bring_in(db, NOW + timedelta(minutes=15)) == 1 and entries(db) == [(0, "not_screened", "timeout")]


@needs_its_own_clock
@pytest.mark.parametrize(("app_since", "entered"), [(NOW, 3), (LATE - timedelta(minutes=5), 0)], ids=["up", "off"])
def test_a_worker_that_dies_again_and_again_is_no_reason_to_wait_but_a_site_that_was_off_is(
    db: Database, app_since: datetime, entered: int
) -> None:
    undecided(db)
    for seen in (app_since, LATE):
        beat(db, "app", "app", seen)
    live(db, LATE, LATE - timedelta(seconds=70))
    assert bring_in(db, LATE) == entered


def test_other_caps_let_a_batch_that_was_paused_for_its_cap_go_on(db: Database) -> None:
    """As one that is sent overnight is, before it passes the cap."""
    batch_id = undecided(db)
    pause(db, SYSTEM.at(NOW), batch_id, "max_calls")
    change_caps(db, LOCAL_USER.at(NOW), batch_id, Caps())
    assert batch_state(db, batch_id) is BatchState.RUNNING
    pause(db, LOCAL_USER.at(NOW), batch_id)
    change_caps(db, LOCAL_USER.at(NOW), batch_id, Caps(max_calls=9))
    assert batch_state(db, batch_id) is BatchState.PAUSED, "somebody paused it"


def test_after_a_resume_the_time_begins_again(db: Database) -> None:
    batch_id = undecided(db)
    fail(db, stops_batch=True)
    resume(db, LOCAL_USER.at(SOON), batch_id)
    assert bring_in(db, LATE) == 0 and bring_in(db, SOON + timedelta(minutes=15)) == 3


def _ids(db: Database, batch_id: str) -> list[str]:
    return db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


def brought_in(db: Database, texts: int = 1, **options: object) -> list[str]:
    """Cases in the inbox that were not screened, plain texts all."""
    batch_id = batch(db, [PLAIN] * texts, reach=Reach.READ, **options)  # type: ignore[arg-type]
    assert bring_in(db, LATE) == texts
    return _ids(db, batch_id)


def test_what_could_not_be_screened_is_in_review_like_any_other_and_told_nothing_of(db: Database) -> None:
    [case_id] = brought_in(db)
    batch_id = db.value(select(cases.c.batch_id).where(cases.c.id == case_id))
    shown = [(row.outcome, row.in_review) for who in (LOCAL_USER, SENIOR) for row in results(db, who.at(NOW), batch_id)]
    assert shown == [(PENDING, True), (IN_REVIEW, True)]
    assert db.rows(select(unblindings)) == [], "there was nothing of the AI to see"


@pytest.mark.parametrize("outcome", Outcome)
def test_what_nobody_has_opened_takes_the_place_of_its_outcome_or_leaves(db: Database, outcome: Outcome) -> None:
    [case_id] = brought_in(db)
    decide(db, case_id, outcome)
    expected = {
        Outcome.SAFE: [],
        Outcome.UNSAFE: [(1, "person_needed", None)],
        Outcome.HUMAN_REVIEW: [(3, "unsettled", None)],
    }
    assert entries(db) == expected[outcome]


def test_what_the_audit_draws_stays_in_ordinary_words(db: Database) -> None:
    [case_id] = brought_in(db, audit_rate=1.0)
    decide(db, case_id)
    [(_, why, cause)] = entries(db)
    assert why in ("unsettled", "person_needed") and cause is None


@pytest.mark.parametrize(
    ("outcome", "tier", "why"), [(Outcome.SAFE, 2, "unsettled"), (Outcome.UNSAFE, 1, "person_needed")]
)
def test_what_somebody_holds_stays_and_only_becomes_more_urgent(
    db: Database, outcome: Outcome, tier: int, why: str
) -> None:
    [case_id] = brought_in(db)
    claim = take(db, ANN, LATE)
    assert claim.why == f"not_screened:{NO_WORKER}"
    decide(db, case_id, outcome)
    assert entries(db) == [(tier, why, None)]
    submit_rating(db, ANN.at(LATE), case_id, claim.token, form("unsafe"), new_id(LATE))  # the lease still holds


def test_no_reading_is_lost_and_one_outside_the_coin_enters_no_estimate(db: Database) -> None:
    [case_id] = brought_in(db, audit_rate=1e-12)
    read(db, ANN, form("unsafe"), now=LATE)
    decide(db, case_id)  # the same entry, closed: no second one
    assert len(entries(db)) == 1 and claim_next(db, BO.at(LATE)) is None
    found = audit_sample(db, LOCAL_USER, CONFIGURATION.version)
    assert [(case.selected, case.read) for case, _ in found.case_counts] == [(False, False)]


@pytest.mark.parametrize(("label", "again"), [("safe", True), ("unsafe", False)])
def test_a_case_read_as_safe_that_is_then_called_unsafe_is_read_again(db: Database, label: str, again: bool) -> None:
    register(db, ANN, BO, ADMIN)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)  # the label alone decides
    [case_id] = brought_in(db)
    read(db, ANN, form(label), now=LATE)
    decide(db, case_id, Outcome.UNSAFE)
    claim = claim_next(db, BO.at(LATE))
    assert (claim is not None) is again


def test_a_person_needed_by_the_engine_keeps_its_reading_too(db: Database) -> None:
    [case_id] = brought_in(db)
    read(db, ANN, form("safe"), now=LATE)
    made = run("SESESE", None)
    commit_run(db, case_id, 0, made)
    assert commit(db, case_id, screening(Outcome.HUMAN_REVIEW, made, reason=Reason.EXHAUSTED))
    assert len(entries(db)) == 1 and claim_next(db, BO.at(LATE)) is None


def _kept(db: Database) -> list[tuple[str, bool]]:
    return [(row.reviewer, row.before_rating) for row in db.rows(select(unblindings))]


def test_who_holds_a_case_while_it_becomes_more_urgent_has_learnt_of_its_outcome(db: Database) -> None:
    held, given_back, plain = brought_in(db, 3)
    first, second = claim_next(db, ANN.at(LATE)), claim_next(db, BO.at(LATE))
    assert first is not None and second is not None and {first.case_id, second.case_id} == {held, given_back}
    release(db, BO.at(LATE), second.case_id, second.token)
    for case_id in (first.case_id, second.case_id, plain):
        decide(db, case_id, Outcome.UNSAFE)
    assert _kept(db) == [("ann", True)]
    places = select(inbox_entries.c.tier, inbox_entries.c.why, inbox_entries.c.due_at)
    rows = [tuple(row) for row in db.rows(places)]
    assert rows == [rows[0]] * 3 and rows[0][:2] == (1, "person_needed")
    assert rows[0][2] - NOW < TARGETS[Tier.P2], "by the target of its new tier"


def test_an_outcome_that_makes_nothing_more_urgent_tells_its_holder_nothing(db: Database) -> None:
    [case_id] = brought_in(db)
    assert claim_next(db, ANN.at(LATE)) is not None
    due = db.value(select(inbox_entries.c.due_at))
    decide(db, case_id, Outcome.HUMAN_REVIEW)
    assert entries(db) == [(2, "unsettled", None)] and _kept(db) == []
    assert db.value(select(inbox_entries.c.due_at)) == due, "nor is it put off"


def test_what_was_looked_at_stays_and_what_nobody_saw_leaves_with_a_word_in_the_log(db: Database) -> None:
    looked_at, unseen = brought_in(db, 2)
    reveal_text(db, SENIOR.at(LATE), looked_at)
    for case_id in (looked_at, unseen):
        decide(db, case_id)
    left = set(db.values(select(inbox_entries.c.case_id)))
    said = db.values(select(audit_events.c.subject).where(audit_events.c.action == "left_inbox"))
    assert left == {looked_at} and said == [unseen]
