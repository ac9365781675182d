"""The inbox under AppTest: blind first, drafts, leases, refusals, and what is said when nothing waits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from pages.review.inbox_live import View, snapshot
from pages.review.inbox_words import counts_words, empty_words, plain_name
from screening.review.actors import LOCAL_USER
from screening.review.tiers import Tier
from storage.database import Database
from storage.identifiers import new_id
from storage.review import adjudication, inbox, ratings
from storage.review.drafts import load_draft
from storage.review.queue import Counts, State, counts
from storage.schema import inbox_entries
from storage.site import settings_store
from tests.pages.conftest import Opener
from tests.storage.inbox_cases import BO, fill, form, register

TEXT = "canary text number 1"


def _now() -> datetime:
    return datetime.now(UTC)


def _shown(page: AppTest) -> str:
    said = [element.value for kind in (page.error, page.warning, page.info) for element in kind]
    return " ".join([element.proto.body for element in page.get("html")] + said)


def _press(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    assert not page.exception
    return page


def _choose(page: AppTest, case_id: str, label: str = "unsafe", certainty: int = 4) -> AppTest:
    _press(page, f"label_{case_id}_{label}")
    return _press(page, f"certainty_{case_id}_{certainty}")


@pytest.fixture
def case_id(page_database: Database) -> Iterator[str]:
    """One P2 case that waits."""
    yield fill(page_database)[0]


def test_an_empty_inbox_says_that_nothing_waits(open_page: Opener) -> None:
    page = _press(open_page("inbox"), "next_case")
    assert "Nothing waits: no case is open." in _shown(page)
    assert "No case is free for you" in _shown(page) and "case" not in page.query_params


def test_nothing_of_the_engine_before_the_reading_and_all_of_it_after(open_page: Opener, case_id: str) -> None:
    page = _press(open_page("inbox"), "next_case")
    assert page.query_params["case"] in (case_id, [case_id])
    assert TEXT in _shown(page)
    assert "exhausted" not in _shown(page) and "Goes to a clinician" not in _shown(page)
    page = _press(_choose(page, case_id), f"save_{case_id}")
    assert "Unsafe, sure" in _shown(page) and "The case is closed" in _shown(page)
    assert "Goes to a clinician" in _shown(page)


def test_what_the_agents_settled_is_not_told_before_the_reading_and_not_denied_after(
    open_page: Opener, page_database: Database
) -> None:
    [audited] = fill(page_database, outcome="safe")
    page = _press(open_page("inbox"), "next_case")
    assert "Routine reading" in _shown(page)
    page = _press(_choose(page, audited), f"save_{audited}")
    shown = _shown(page) + _shown(open_page("case", case=audited))
    assert shown.count("Settled by the agents, read as a check") == 2
    assert "did not settle" not in shown


def test_label_and_certainty_are_asked_for(open_page: Opener, page_database: Database, case_id: str) -> None:
    page = _press(_press(open_page("inbox"), "next_case"), f"save_{case_id}")
    assert page.error[0].value == "Choose a label and a certainty first."
    page = _press(_press(page, f"label_{case_id}_safe"), f"save_{case_id}")
    assert page.error[0].value == "Choose a certainty first."
    with page_database.read() as conn:
        assert ratings.ratings_in(conn, [case_id]) == {case_id: []}


def test_the_draft_is_kept_in_the_database(open_page: Opener, page_database: Database, case_id: str) -> None:
    _choose(_press(open_page("inbox"), "next_case"), case_id, "insufficient_information", 2)
    kept = load_draft(page_database, LOCAL_USER, case_id)
    assert kept == {"label": "insufficient_information", "certainty": 2}
    again = open_page("inbox", case=case_id)  # a session that knows nothing, as after a reload
    assert again.button(key=f"label_{case_id}_insufficient_information").label.startswith("✓")
    assert TEXT in _shown(again)


def test_contradictions_are_pointed_out_and_not_corrected(open_page: Opener, case_id: str) -> None:
    page = _choose(_press(open_page("inbox"), "next_case"), case_id)
    page.session_state[f"plan_{case_id}"] = "full"
    page.session_state[f"ideation_{case_id}"] = 1
    page.run()
    assert "A full plan is recorded with ideation below level 3." in page.warning[0].value
    page = _press(page, f"save_{case_id}")
    assert "Unsafe, sure" in _shown(page)


def test_a_lost_lease_keeps_the_draft_and_puts_the_text_away(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = _choose(_press(open_page("inbox"), "next_case"), case_id)
    with page_database.write() as conn:  # as another reader's claim after expiry does
        conn.execute(
            update(inbox_entries).values(holder="bo", token="other", lease_expires_at=_now() + timedelta(minutes=5))
        )
    page = _press(page, f"save_{case_id}")
    assert "lease on this case was over before you saved" in _shown(page)
    assert TEXT not in _shown(page)
    assert load_draft(page_database, LOCAL_USER, case_id) is not None
    page = _press(page, f"again_{case_id}")
    assert "Somebody else has this case now" in _shown(page) and "case" not in page.query_params


def test_the_next_case_is_claimed_with_the_save(open_page: Opener, page_database: Database) -> None:
    first, second = fill(page_database, [Tier.P2, Tier.P3])
    page = _choose(_press(open_page("inbox"), "next_case"), first)
    page = _press(page, f"save_{first}")
    assert [claim.case_id for claim in inbox.my_claims(page_database, LOCAL_USER, _now())] == [second]
    assert "Loaded for you: P3 routine." in _shown(page)
    page = _press(page, f"next_{first}")
    assert page.query_params["case"] in (second, [second])
    assert not any(page.button(key=f"label_{second}_{label}").label.startswith("✓") for label in ("safe", "unsafe"))


def test_finish_gives_back_what_is_loaded(open_page: Opener, page_database: Database) -> None:
    first, _ = fill(page_database, [Tier.P0, Tier.P1])
    page = _press(_choose(_press(open_page("inbox"), "next_case"), first), f"save_{first}")
    page = _press(page, f"finish_{first}")
    assert inbox.my_claims(page_database, LOCAL_USER, _now()) == ()
    assert "Nothing is held by you" in _shown(page)


def test_an_urgent_case_is_not_skipped_without_a_note(open_page: Opener, page_database: Database) -> None:
    [urgent] = fill(page_database, [Tier.P1])
    page = _press(_press(open_page("inbox"), "next_case"), f"skip_{urgent}")
    assert "needs a note" in _shown(page) and TEXT in _shown(page)
    page.text_input(key=f"away_note_{urgent}").set_value("I know the writer.").run()
    page = _press(page, f"skip_{urgent}")
    assert "Skipped" in _shown(page) and "1 skipped by you" in _shown(page)


def test_not_me_takes_no_reason_at_any_tier(open_page: Opener, page_database: Database) -> None:
    [urgent] = fill(page_database, [Tier.P0])
    page = _press(_press(open_page("inbox"), "next_case"), f"not_me_{urgent}")
    assert "does not come to you again" in _shown(page)


def test_a_p0_case_may_be_opened_at_once_and_is_then_not_blind(open_page: Opener, page_database: Database) -> None:
    [urgent] = fill(page_database, [Tier.P0])
    page = _press(_press(open_page("inbox"), "next_case"), f"at_once_{urgent}")
    page = _press(_choose(page, urgent), f"save_{urgent}")
    assert "Stored as not blind." in _shown(page)
    assert [each.blind for each in ratings.ratings_of(page_database, LOCAL_USER, urgent, _now())] == [False]


def test_a_case_that_is_not_in_hand_shows_nothing_of_itself(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    inbox.claim_next(page_database, BO, _now())
    page = open_page("inbox", case=case_id)
    assert "Not in your hands" in _shown(page) and TEXT not in _shown(page)
    page = _press(page, f"take_{case_id}")
    assert "Somebody else holds this case" in _shown(page) and TEXT not in _shown(page)


def test_a_link_to_a_case_of_somebody_elses_is_no_dead_end(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    inbox.claim_next(page_database, BO, _now())
    [other] = fill(page_database)
    page = _press(open_page("inbox", case=case_id), "next_case")
    assert page.query_params["case"] in (other, [other])
    assert page.button(key="next_case").disabled, "the case in hand comes first"


def test_covered_texts_are_not_loaded_before_they_are_opened(open_page: Opener, case_id: str) -> None:
    page = open_page("inbox", cover="1")
    page = _press(page, "next_case")
    assert TEXT not in _shown(page) and "You opened 0 texts" in _shown(page)
    assert page.button(key=f"save_{case_id}").disabled
    page = _press(page, f"open_{case_id}")
    assert TEXT in _shown(page) and "You opened 1 text today" in _shown(page)


def test_a_break_is_offered_between_cases_and_loses_nothing(open_page: Opener, page_database: Database) -> None:
    first, second = fill(page_database, [Tier.P2, Tier.P3])
    before = settings_store.current(page_database)
    words = "{texts} read. **Tea** <img src=x onerror=alert(1)>?"
    few = before.settings.model_copy(update={"break_after_texts": 1, "break_wording": words})
    settings_store.change(page_database, LOCAL_USER, few, before.version, _now())
    page = _press(open_page("inbox"), "next_case")
    assert not [button for button in page.button if button.key == "take_break"]  # never in the midst of a case
    page = _press(_choose(page, first), f"save_{first}")
    assert "1 read. **Tea** &lt;img src=x onerror=alert(1)&gt;?" in _shown(page), "plain text, never markup"
    page = _press(page, "take_break")
    assert "Come back when you are ready" in _shown(page)
    assert inbox.my_claims(page_database, LOCAL_USER, _now()) == ()
    assert len(ratings.ratings_of(page_database, LOCAL_USER, first, _now())) == 1
    assert counts(page_database, LOCAL_USER, _now()).free == 1 and second


def test_every_open_case_is_in_the_counts_once() -> None:
    by_state = dict.fromkeys(State, 0) | {State.FREE: 12, State.HELD: 3}
    found = Counts(
        by_state=by_state,
        free_by_tier={},
        open_by_tier={},
        late_by_tier={},
        kept_by_tier={},
        outside_filter=5,
        held_until=datetime(2026, 1, 1, 14, 32, tzinfo=UTC),
        reserved_until=None,
    )
    assert counts_words(found) == "12 free, 3 held by somebody else (until 14:32 UTC), 5 outside your filter"
    assert empty_words(found).startswith("Nothing is free for you at the moment")


@pytest.mark.parametrize("name", ["[a](b)", ":red[x]", "$x$", "<b>", "*a*", "`a`", "a\nb", "http://x.example", ""])
def test_names_that_could_be_markup_are_replaced(name: str) -> None:
    assert plain_name(name, "0" * 32) == "case 000000"


def test_the_disagreement_is_for_a_senior_to_decide(open_page: Opener, page_database: Database) -> None:
    [disputed] = fill(page_database)
    register(page_database, BO)
    page = _press(open_page("inbox"), "next_case")
    page = _press(page, f"second_{disputed}")
    page = _press(_choose(page, disputed, "safe", 5), f"save_{disputed}")
    assert "A second reader will read it too." in _shown(page)
    claim = inbox.claim_next(page_database, BO, _now())
    assert claim is not None
    ratings.submit_rating(page_database, BO, disputed, claim.token, form("unsafe"), _now(), new_id(_now()))
    assert [each.case_id for each in adjudication.disagreements(page_database, LOCAL_USER)] == [disputed]
    (listed,) = snapshot(page_database, LOCAL_USER, _now(), View())["disputed"]
    assert listed["mine"] and listed["href"].endswith(disputed)
    page = open_page("case", case=disputed)
    page = _press(page, f"record_{disputed}_0")
    assert page.error[0].value == "Choose a label first."
    page.session_state[f"decide_{disputed}_0"] = "unsafe"
    page = _press(page, f"record_{disputed}_0")
    assert page.error[0].value == "Say why."
    page.text_input(key=f"decide_why_{disputed}_0").set_value("Discussed.").run()
    page = _press(page, f"record_{disputed}_0")
    assert "Version 1: Unsafe" in _shown(page) and "a senior decided" in _shown(page)


def test_a_second_opinion_asked_after_the_lease_is_refused_and_said(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = _press(open_page("inbox"), "next_case")
    with page_database.write() as conn:
        conn.execute(update(inbox_entries).values(holder=None, token=None, lease_expires_at=None))
    page = _press(page, f"second_{case_id}")
    assert "The lease on this case was over already" in _shown(page) and TEXT not in _shown(page)
