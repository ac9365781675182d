"""The inbox under AppTest: blind first, drafts, leases, refusals, and what is said when nothing waits."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time

import pytest
from sqlalchemy import func, select, update
from streamlit.testing.v1 import AppTest

from pages.review.desk_view import next_words
from pages.review.inbox_desk import Here
from pages.review.inbox_live import View, snapshot
from pages.review.inbox_words import counts_words, empty_words, form_offer, plain_name
from screening.labels import Label
from screening.review.actors import LOCAL_USER
from screening.review.rating_form import TextMark
from screening.review.triage import Placement, Tier
from screening.review.triage import Why as TriageWhy
from storage import settings_store
from storage.audit_log import events
from storage.batches.entries import settle
from storage.database import Database
from storage.identifiers import new_id
from storage.review import adjudication, claims, inbox, ratings
from storage.review.adjudication import Next
from storage.review.drafts import load_draft
from storage.review.erasure import erase_rows
from storage.review.queue import Counts, State, counts
from storage.schema import ERASED, cases, inbox_entries, unblindings
from storage.schema import ratings as ratings_table
from storage.settings_store import SiteSettings
from tests.databases import write
from tests.pages.conftest import Opener
from tests.pages.review.desk import answer, ask, desk, give_to_bo, has_desk, save, take_next, unfold
from tests.storage.inbox_cases import BO, CY, SENIOR, fill, form, register, take
from tests.storage.statements import statements

TEXT = "canary text number 1"


def _now() -> datetime:
    return datetime.now(UTC)


def _shown(page: AppTest) -> str:
    """Everything on the page in one string: elements, and what the desk was given."""
    said = [element.value for kind in (page.error, page.warning, page.info) for element in kind]
    given = [str(desk(page))] if has_desk(page) else []
    return " ".join([element.proto.body for element in page.get("html")] + said + given)


def _press(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    assert not page.exception
    return page


def _count(db: Database, table: object) -> int:
    return db.value(select(func.count()).select_from(table))  # type: ignore[arg-type]


@pytest.fixture
def case_id(page_database: Database) -> Iterator[str]:
    """One P2 case that waits."""
    yield fill(page_database)[0]


def test_an_empty_inbox_says_that_nothing_waits(open_page: Opener) -> None:
    page = take_next(open_page("inbox"))
    assert desk(page)["words"] == "No cases to review."
    assert desk(page)["said"] == "No unassigned case for you at the moment." and "case" not in page.query_params


def test_a_run_of_the_page_counts_once_what_waits(open_page: Opener, page_database: Database) -> None:
    fill(page_database, [Tier.P2] * 2)
    page = open_page("inbox")
    with statements() as asked:
        page.run()
    assert sum("disputed" in str(values) for _, values in asked) == 1 and len(asked) <= 10
    assert desk(page)["words"] == "2 cases to review."


def test_nothing_of_the_engine_before_the_reading_and_all_of_it_after(open_page: Opener, case_id: str) -> None:
    page = take_next(open_page("inbox"))
    assert page.query_params["case"] in (case_id, [case_id])
    assert desk(page)["case"]["text"] == TEXT
    assert "exhausted" not in _shown(page) and "Escalated to a clinician" not in _shown(page)
    page = save(page)
    assert (
        desk(page)["read"]["words"] == "Unsafe (high confidence), no action"
        and desk(page)["read"]["becomes"] == "Case closed."
    )
    assert "Escalated to a clinician" in desk(page)["read"]["engine"]


def test_the_engines_view_is_served_when_the_desk_asks_for_it_and_not_with_the_save(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = ask(take_next(open_page("inbox")), "save", form={"label": "safe", "certainty": 5})
    assert desk(page)["stage"] == "read" and not desk(page)["read"]["revealed"]
    assert "Escalated to a clinician" not in _shown(page) and _count(page_database, unblindings) == 0
    page = ask(page, "reveal")
    assert desk(page)["read"]["revealed"] and _count(page_database, unblindings) == 1


def test_what_the_agents_settled_is_not_told_before_the_reading_and_not_denied_after(
    open_page: Opener, page_database: Database
) -> None:
    [audited] = fill(page_database, outcome="safe")
    page = take_next(open_page("inbox"))
    assert desk(page)["case"]["why"] == "Awaiting review"
    page = save(page)
    assert desk(page)["case"]["why"] == "The AI had decided it"
    case = " ".join(element.proto.body for element in open_page("case", case=audited).get("html"))
    assert "The AI had decided it" in case and "did not settle" not in case


def test_a_save_without_label_or_certainty_is_refused(open_page: Opener, page_database: Database, case_id: str) -> None:
    page = ask(take_next(open_page("inbox")), "save", form={"label": "safe"})
    assert answer(page) == {"ok": False, "words": "Something in the form cannot be read, so nothing was saved."}
    assert desk(page)["stage"] == "reading" and _count(page_database, ratings_table) == 0


def test_the_same_save_twice_is_one_rating_also_for_a_session_that_knows_nothing(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page, rating = take_next(open_page("inbox")), new_id(_now())
    token, given = desk(page)["case"]["token"], {"label": "unsafe", "certainty": 4, "disposition": "none"}
    for _ in range(2):
        page = ask(page, "save", rating, case=case_id, token=token, form=given)
    after_restart = ask(open_page("inbox", case=case_id), "save", rating, case=case_id, token=token, form=given)
    assert answer(after_restart)["ok"] and desk(after_restart)["stage"] == "read"
    mine = ratings.my_rating(page_database, LOCAL_USER, case_id)
    assert mine is not None and mine.id == rating and _count(page_database, ratings_table) == 1


def test_the_draft_is_kept_in_the_database(open_page: Opener, page_database: Database, case_id: str) -> None:
    filled = {"label": "insufficient_information", "certainty": 2, "note": "so far", "rev": 7}
    page = ask(take_next(open_page("inbox")), "draft", form=filled)
    assert answer(page)["ok"] and load_draft(page_database, LOCAL_USER, case_id) == filled
    again = open_page("inbox", case=case_id)  # a session that knows nothing, as after a reload
    assert desk(again)["draft"] == filled and desk(again)["case"]["text"] == TEXT


def test_contradictions_are_pointed_out_and_not_corrected(open_page: Opener, case_id: str) -> None:
    fields = {"label": "unsafe", "certainty": 4, "plan": "full", "ideation": 1}
    page = ask(take_next(open_page("inbox")), "draft", form=fields | {"rev": 1})
    assert desk(page)["points"] == ["A full plan is recorded with ideation below level 3."]
    assert desk(save(page, plan="full", ideation=1))["read"]["words"] == "Unsafe (high confidence), no action"


def test_a_mark_is_kept_in_the_text_as_received_and_the_end_not_reached_is_recorded(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    write(page_database, update(cases).values(text="one \u202etwo three"))
    page = take_next(open_page("inbox"))
    assert desk(page)["case"]["text"] == "one ⟨U+202E⟩two three"
    page = save(page, marks=[{"part": "text", "start": 12, "end": 15}], read_to_end=False)
    mine = ratings.my_rating(page_database, LOCAL_USER, case_id)
    assert mine is not None and mine.form.marks == (TextMark(start=5, end=8),) and mine.form.read_to_end is False
    assert desk(page)["read"]["form"]["marks"] == [{"part": "text", "start": 12, "end": 15}]


def test_another_readers_marks_come_with_the_reveal(open_page: Opener, page_database: Database, case_id: str) -> None:
    register(page_database, BO, CY)
    claim = take(page_database, BO, _now())
    marked = form("insufficient_information").model_copy(update={"marks": (TextMark(start=0, end=6),)})
    ratings.submit_rating(page_database, BO.at(_now()), case_id, claim.token, marked, new_id(_now()))
    page = take_next(open_page("inbox"))
    assert desk(page)["case"]["id"] == case_id and "'end': 6" not in _shown(page)
    [other] = desk(save(page))["read"]["others"]
    assert other["marks"] == [{"part": "text", "start": 0, "end": 6}] and "bo" not in other["who"].lower()


def test_a_save_after_the_case_went_to_a_colleague_says_so_and_keeps_the_draft(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = ask(take_next(open_page("inbox")), "draft", form={"label": "unsafe", "certainty": 4, "rev": 1})
    give_to_bo(page_database, case_id)
    page = ask(page, "save", form={"label": "unsafe", "certainty": 4, "note": "typed last"})
    said = "This case is assigned to another reviewer now. What you filled in is kept as a draft."
    assert answer(page) == {"ok": False, "words": said} and desk(page)["words"] == said
    assert desk(page)["stage"] == "over" and not desk(page)["may_take"] and TEXT not in _shown(page)
    kept = load_draft(page_database, LOCAL_USER, case_id)
    assert kept is not None and kept["note"] == "typed last"
    page = ask(page, "take", case=case_id)
    assert "assigned to somebody else" in answer(page)["words"] and TEXT not in _shown(page)


def test_of_a_draft_nothing_is_said_to_who_filled_in_nothing(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = ask(take_next(open_page("inbox")), "draft", form={"label": None, "marks": [], "note": "", "rev": 1})
    give_to_bo(page_database, case_id)
    assert desk(ask(page, "look"))["words"] == "This case is assigned to another reviewer now."
    page = ask(page, "draft", form={"label": "safe", "marks": [], "note": "", "rev": 2})
    assert desk(ask(page, "look"))["words"].endswith("What you filled in is kept as a draft.")


def test_a_lease_that_ran_out_is_taken_up_again(open_page: Opener, page_database: Database, case_id: str) -> None:
    page = take_next(open_page("inbox"))
    write(page_database, update(inbox_entries).values(assigned_until=_now() - timedelta(seconds=1)))
    page = ask(page, "look")
    assert desk(page)["words"] == "This case is not assigned to you any more: others may take it."
    assert desk(page)["may_take"] and TEXT not in _shown(page)
    page = ask(page, "take", case=case_id)
    assert desk(page)["stage"] == "reading" and desk(page)["case"]["text"] == TEXT


def test_a_page_whose_case_was_closed_in_another_page_says_when_and_as_what(open_page: Opener, case_id: str) -> None:
    stale = take_next(open_page("inbox"))
    other = save(open_page("inbox", case=case_id))
    at = f"{datetime.fromtimestamp(desk(other)['last']['at'] / 1000, UTC):%H:%M}"
    stale = ask(stale, "save", form={"label": "safe", "certainty": 5})
    assert answer(stale) == {"ok": False, "words": f"You reviewed this case at {at} UTC as unsafe; it is closed."}
    assert desk(stale)["stage"] == "over" and desk(stale)["mine"] and "free for others" not in _shown(stale)


def test_two_pages_of_one_person_hold_one_case(open_page: Opener, case_id: str) -> None:
    first = take_next(open_page("inbox"))
    second = ask(open_page("inbox", case=case_id), "look")
    assert desk(second)["stage"] == "reading" == desk(ask(first, "look"))["stage"]


def test_a_reading_is_taken_back_before_the_reveal_and_replaced_blind(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = ask(take_next(open_page("inbox")), "save", form={"label": "safe", "certainty": 5, "note": "why"})
    last = desk(page)["last"]
    page = ask(page, "undo", case=last["case"], rating=last["rating"])
    assert desk(page)["stage"] == "reading" and desk(page)["draft"]["note"] == "why"
    save(page, "unsafe", 4)
    mine = ratings.my_rating(page_database, LOCAL_USER, case_id)
    assert mine is not None and (mine.version, mine.blind, mine.form.label) == (1, True, "unsafe")


def test_after_the_reveal_a_reading_is_not_taken_back_but_revised_with_a_reason(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = save(take_next(open_page("inbox")))
    last = desk(page)["last"]
    page = ask(page, "undo", case=last["case"], rating=last["rating"])
    assert not answer(page)["ok"] and desk(page)["stage"] == "read"
    page = ask(page, "revise", form={"label": "safe", "certainty": 5})
    assert answer(page)["words"].startswith("Enter a reason")
    page = ask(page, "revise", form={"label": "safe", "certainty": 5}, note="second thoughts")
    assert desk(page)["last"] is None  # what was saved first is so no longer
    assert (desk(page)["read"]["version"], desk(page)["read"]["blind"]) == (2, False)


def test_a_case_in_hand_comes_before_the_next(open_page: Opener, page_database: Database) -> None:
    fill(page_database, [Tier.P2, Tier.P3])
    page = take_next(open_page("inbox"))
    case = desk(page)["case"]["id"]
    page = take_next(page)
    assert not answer(page)["ok"] and desk(page)["case"]["id"] == case
    assert len(claims.my_claims(page_database, LOCAL_USER.at(_now()))) == 1


def test_a_case_left_by_a_reload_comes_first_unless_another_is_more_urgent(
    open_page: Opener, page_database: Database
) -> None:
    [left] = fill(page_database, [Tier.P2])
    take_next(open_page("inbox"))
    assert desk(take_next(open_page("inbox")))["case"]["id"] == left
    [urgent] = fill(page_database, [Tier.P0])
    assert desk(take_next(open_page("inbox")))["case"]["id"] == urgent


def test_the_keys_of_the_list_are_told_to_whoever_has_one(open_page: Opener, page_database: Database) -> None:
    told = [key for key, _ in desk(open_page("inbox"))["offer"]["keys"]]
    assert told[-2:] == ["/", "J K"]
    assert [
        key
        for key, _ in form_offer(SiteSettings().dispositions, SiteSettings().follow_up_minutes, browse=False)["keys"]
    ] == told[:-2]


def test_the_case_before_is_opened_again(open_page: Opener, page_database: Database) -> None:
    first, second = fill(page_database, [Tier.P0, Tier.P1])
    page = save(take_next(save(take_next(open_page("inbox")))))
    assert desk(page)["case"]["id"] == second
    page = ask(page, "previous", case=None)
    assert desk(page)["case"]["id"] == first and desk(page)["read"]["words"] == "Unsafe (high confidence), no action"


def test_the_case_before_a_changed_reading_is_another_case(open_page: Opener, page_database: Database) -> None:
    first, second = fill(page_database, [Tier.P0, Tier.P1])
    page = save(take_next(save(take_next(open_page("inbox")))))
    page = ask(
        ask(page, "reveal"), "revise", form={"label": "safe", "certainty": 4, "disposition": "none"}, note="read again"
    )
    assert desk(page)["case"]["id"] == second and desk(page)["read"]["version"] == 2
    assert desk(ask(page, "previous", case=None))["case"]["id"] == first


def test_my_readings_are_listed_with_what_became_of_them(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = open_page("inbox")
    assert "You have reviewed no case yet." not in _shown(page)  # nothing is asked for while it is folded
    assert "You have reviewed no case yet." in _shown(unfold(page, "My reviews"))
    assert "unsafe, high confidence · final</p>" in _shown(save(take_next(page)))
    made = adjudication.reveal_versions(page_database, LOCAL_USER.at(_now()), case_id)
    adjudication.amend(page_database, LOCAL_USER.at(_now()), case_id, made[-1].label.__class__("safe"), "discussed", 1)
    assert "final label differs: safe" in _shown(unfold(open_page("inbox"), "My reviews"))


def test_a_case_that_becomes_urgent_while_it_is_read_is_shown_as_it_is(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    """The list beside it says so; nobody may take five minutes for four hours."""
    page = take_next(open_page("inbox"))
    assert desk(page)["case"]["tier_words"] == "● P2 Same day"
    with page_database.write() as conn:
        placed = Placement(tier=Tier.P0, why=TriageWhy.LIKELY_URGENT)
        settle(conn, case_id, placed, Label.UNSAFE, _now(), SiteSettings(), research_order=False)
    shown = desk(ask(page, "look"))
    assert (shown["case"]["tier_words"], shown["case"]["needs_note"]) == ("▲▲ P0 Immediate", True)
    assert shown["said"] == "This case has become more urgent."
    assert shown["case"]["due"] < 1000 * (_now() + timedelta(minutes=6)).timestamp()


def test_what_is_erased_leaves_the_desk_of_whoever_has_read_it(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = save(take_next(open_page("inbox")))
    assert TEXT in str(desk(page))
    with page_database.write() as conn:
        erase_rows(conn, [case_id], None, _now())
    page = ask(page, "look")
    shown = desk(page)
    assert TEXT not in str(shown) and (shown["stage"], shown["case"]["text"]) == ("read", ERASED)
    seen = [event.action for event in events(page_database, LOCAL_USER)]
    assert desk(ask(page, "look"))["case"]["text"] == ERASED
    assert [event.action for event in events(page_database, LOCAL_USER)] == seen, "it is read anew once"


def test_finish_leaves_nothing_in_hand(open_page: Opener, page_database: Database) -> None:
    fill(page_database, [Tier.P2, Tier.P3])
    page = ask(save(take_next(open_page("inbox"))), "finish", case=None)
    assert claims.my_claims(page_database, LOCAL_USER.at(_now())) == ()
    assert desk(page)["said"] == "You have no open case." and counts(page_database, BO.at(_now())).free == 1


def test_an_urgent_case_is_not_skipped_without_a_note(open_page: Opener, page_database: Database) -> None:
    [urgent] = fill(page_database, [Tier.P1])
    page = ask(take_next(open_page("inbox")), "skip")
    assert "need a hand-off note" in answer(page)["words"] and desk(page)["case"]["id"] == urgent
    page = ask(page, "skip", note="I know the writer.")
    assert "Skipped" in desk(page)["said"] and "1 skipped" in _shown(page)


def test_a_note_of_a_namesake_is_not_ones_own(open_page: Opener, page_database: Database) -> None:
    namesake = replace(BO, name=LOCAL_USER.name)
    register(page_database, namesake)
    (case_id,) = fill(page_database, [Tier.P1])
    claim = take(page_database, namesake, _now())
    inbox.skip(page_database, namesake.at(_now()), case_id, claim.token, "not my language")
    assert desk(take_next(open_page("inbox")))["case"]["notes"] == [f"{LOCAL_USER.name} skipped it: not my language"]


def test_not_me_takes_no_reason_at_any_tier(open_page: Opener, page_database: Database) -> None:
    fill(page_database, [Tier.P0])
    page = ask(take_next(open_page("inbox")), "not_me")
    assert "will not be offered this case again" in desk(page)["said"]


def test_a_p0_case_may_be_opened_at_once_and_is_then_not_blind(open_page: Opener, page_database: Database) -> None:
    [urgent] = fill(page_database, [Tier.P0])
    page = ask(take_next(open_page("inbox")), "at_once")
    assert desk(page)["case"]["evidence"]
    page = save(page)
    assert desk(page)["read"]["blind"] is False
    assert [each.blind for each in ratings.reveal_ratings(page_database, LOCAL_USER.at(_now()), urgent)] == [False]


def test_a_case_that_is_not_in_hand_shows_nothing_of_itself(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    claims.claim_next(page_database, BO.at(_now()))
    page = open_page("inbox", case=case_id)
    assert desk(page)["stage"] == "named" and TEXT not in _shown(page)
    page = ask(page, "take", case=case_id)
    assert "assigned to somebody else" in answer(page)["words"] and TEXT not in _shown(page)


def test_a_link_to_a_case_of_somebody_elses_is_no_dead_end(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    claims.claim_next(page_database, BO.at(_now()))
    [other] = fill(page_database)
    page = take_next(open_page("inbox", case=case_id))
    assert page.query_params["case"] in (other, [other])


def test_covered_texts_are_not_loaded_before_they_are_opened(open_page: Opener, case_id: str) -> None:
    page = take_next(open_page("inbox", cover="1"))
    assert TEXT not in _shown(page) and "Opened today: 0" in _shown(page)
    assert desk(page)["case"]["name"] == "post-1", "as the list calls it"
    page = ask(page, "uncover").run()
    assert TEXT in _shown(page) and "Opened today: 1 · since last break (last 8 hours): 1" in _shown(page)


def test_a_break_is_offered_between_cases_and_loses_nothing(open_page: Opener, page_database: Database) -> None:
    first, second = fill(page_database, [Tier.P2, Tier.P3])
    before = settings_store.current(page_database)
    words = "{texts} read. **Tea** <img src=x onerror=alert(1)>?"
    few = before.settings.model_copy(update={"break_after_texts": 1, "break_wording": words})
    settings_store.change(page_database, LOCAL_USER.at(_now()), few, before.version)
    page = take_next(open_page("inbox"))
    assert not [button for button in page.button if button.key == "take_break"]  # never in the midst of a case
    page = save(page).run()
    assert "1 read. **Tea** &lt;img src=x onerror=alert(1)&gt;?" in _shown(page), "plain text, never markup"
    page = _press(page, "take_break")
    assert "Come back when you are ready" in desk(page)["said"]
    assert claims.my_claims(page_database, LOCAL_USER.at(_now())) == ()
    assert len(ratings.reveal_ratings(page_database, LOCAL_USER.at(_now()), first)) == 1
    assert counts(page_database, LOCAL_USER.at(_now())).free == 1 and second


def test_every_open_case_is_in_the_counts_once() -> None:
    by_state = dict.fromkeys(State, 0) | {State.FREE: 12, State.HELD: 3}
    found = Counts(
        by_state=by_state,
        free_by_tier={},
        inside_by_tier={},
        open_by_tier={},
        late_by_tier={},
        kept_by_tier={},
        outside_filter=5,
        held_until=datetime(2026, 1, 1, 14, 32, tzinfo=UTC),
        reserved_until=None,
    )
    assert counts_words(found) == "12 unassigned, 3 assigned to others (until 14:32 UTC), 5 outside your filter"
    assert empty_words(found) == (
        "No unassigned case for you: 3 assigned to others (until 14:32 UTC), 5 outside your filter."
    )


@pytest.mark.parametrize("name", ["[a](b)", ":red[x]", "$x$", "<b>", "*a*", "`a`", "a\nb", "http://x.example", ""])
def test_names_that_could_be_markup_are_replaced(name: str) -> None:
    assert plain_name(name, "0" * 32) == "case 000000"


def test_where_nobody_is_there_for_what_follows_that_is_said(open_page: Opener, page_database: Database) -> None:
    fill(page_database)
    page = save(ask(take_next(open_page("inbox")), "second"), "safe", 5)
    assert (
        desk(page)["read"]["becomes"]
        == "Second review needed, but no other reviewer is set up. Add one in Admin > Accounts."
    )
    here = Here(db=page_database, person=BO, site=SiteSettings(), now=_now())
    assert "no senior is set up" in next_words(here, Next.SENIOR, ())
    register(page_database, SENIOR)
    assert next_words(here, Next.SENIOR, ()).endswith("A senior decides: Sue.")


@pytest.mark.parametrize(
    ("disposition", "alone", "closed"),
    [("none", "safe", True), ("contact_now", "unsafe", False), ("none", "insufficient_information", False)],
)
def test_it_is_closed_only_where_nothing_is_open(
    open_page: Opener, page_database: Database, disposition: str, alone: str, closed: bool
) -> None:
    """A follow-up, or a second review that nobody is there to give, is told with whom it is and until when."""
    fill(page_database)
    read = desk(save(take_next(open_page("inbox")), alone, disposition=disposition))["read"]
    assert ("closed" in read["becomes"].lower()) is closed and len(read["follow_ups"]) == (not closed)
    assert all("for you" in one["words"] and one["due"] > 1_000 * time() for one in read["follow_ups"])


def test_a_save_without_the_disposition_it_needs_is_refused_and_loses_nothing(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = ask(take_next(open_page("inbox")), "draft", form={"label": "unsafe", "note": "as she wrote", "rev": 1})
    page = ask(page, "save", form={"label": "unsafe", "certainty": 4, "note": "as she wrote", "rev": 1})
    assert not answer(page)["ok"] and "disposition" in answer(page)["words"]
    assert desk(page)["stage"] == "reading" and desk(page)["draft"]["note"] == "as she wrote"


def test_the_disagreement_is_for_a_senior_to_decide(open_page: Opener, page_database: Database) -> None:
    [disputed] = fill(page_database)
    register(page_database, BO)
    page = save(ask(take_next(open_page("inbox")), "second"), "safe", 5)
    assert desk(page)["read"]["becomes"] == "Second review needed: Bo."
    claim = take(page_database, BO, _now())
    ratings.submit_rating(page_database, BO.at(_now()), disputed, claim.token, form("unsafe"), new_id(_now()))
    assert [each.case_id for each in adjudication.disagreements(page_database, LOCAL_USER)] == [disputed]
    (listed,) = snapshot(page_database, LOCAL_USER.at(_now()), View())["disputed"]
    assert listed["mine"] and listed["href"].endswith(disputed)
    page = open_page("case", case=disputed)
    page = _press(page, f"record_{disputed}_0")
    assert page.error[0].value == "Select a label."
    page.session_state[f"decide_{disputed}_0"] = "unsafe"
    page = _press(page, f"record_{disputed}_0")
    assert page.error[0].value == "Say why."
    page.text_input(key=f"decide_why_{disputed}_0").set_value("Discussed.").run()
    page = _press(page, f"record_{disputed}_0")
    assert "Version 1: Unsafe" in _shown(page) and "senior adjudication" in _shown(page)


def test_the_note_for_the_next_reader_is_kept_while_typed_until_it_has_gone_with_the_case(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = take_next(open_page("inbox"))
    page = ask(page, "draft", form={"label": "safe", "leaving": "ask the ward", "rev": 1})
    assert desk(open_page("inbox", case=case_id))["draft"]["leaving"] == "ask the ward"
    page = ask(page, "hold", note="ask the ward")
    kept = load_draft(page_database, LOCAL_USER, case_id)
    assert kept is not None and kept["label"] == "safe" and "leaving" not in kept
    page = ask(page, "take", case=case_id)
    assert answer(page)["ok"] and desk(page)["draft"]["label"] == "safe"
    page = save(page, "safe", leaving="typed and not sent")
    assert desk(page)["stage"] == "read", "it is no field of a reading"


def test_a_second_opinion_asked_after_the_lease_is_refused_and_said(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = take_next(open_page("inbox"))
    write(page_database, update(inbox_entries).values(assignee=None, lease_token=None, assigned_until=None))
    page = ask(page, "second")
    assert "This case is not assigned to you" in answer(page)["words"] and TEXT not in _shown(page)


def test_what_is_no_request_is_left_alone(open_page: Opener, page_database: Database, case_id: str) -> None:
    page = take_next(open_page("inbox"))
    for nonsense in ({"kind": "delete"}, {"id_": "x"}, {"case": "' or 1=1"}):
        before = desk(page)["answers"]
        page = ask(page, **{"kind": "skip", **nonsense})
        assert desk(page)["answers"] == before and desk(page)["stage"] == "reading"
    assert answer(ask(page, "draft", case="0" * 32, form={"note": "x"}))["words"] == "This case is not assigned to you."
