"""The inbox under AppTest: blind first, drafts, leases, refusals, and what is said when nothing waits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import time

import pytest
from sqlalchemy import func, select, update
from streamlit.testing.v1 import AppTest

from pages.review.inbox_words import plain_name
from pages.review.routes import View, snapshot
from screening.labels import Label
from screening.review.actors import LOCAL_USER
from screening.review.review_form import TextMark
from screening.review.triage import Placement, Priority
from screening.review.triage import Why as TriageWhy
from storage import settings_store
from storage.audit_log import events
from storage.batches.entries import settle
from storage.clock import new_id
from storage.database import Database
from storage.review import adjudication, claims, reviews
from storage.review.adjudication import has_asked
from storage.review.erasure import erase_rows
from storage.review.queue import counts
from storage.review.reviews import load_draft
from storage.schema import ERASED, cases, inbox_entries, unblindings
from storage.schema import reviews as reviews_table
from storage.settings_store import SiteSettings
from tests.databases import write
from tests.pages.conftest import Opener, html_on
from tests.pages.review.desk import OpenDesk, answer, ask, asked, desk, give_to_bo, save, take_next
from tests.storage.inbox_cases import BO, CY, fill, form, register, take
from tests.storage.statements import statements

TEXT = "canary text number 1"


def _now() -> datetime:
    return datetime.now(UTC)


def _shown(page: OpenDesk) -> str:
    """Everything that the desk was told."""
    return str(desk(page))


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


def test_the_page_mounts_list_and_desk_and_leaves_the_counting_to_them(
    open_page: Opener, page_database: Database
) -> None:
    fill(page_database, [Priority.P2] * 2)
    page = open_page("inbox")
    with statements() as asked:
        page.run()
    assert not any("disputed" in str(values) for _, values in asked) and len(asked) <= 8
    mounted = [each.proto.component_name.rpartition(".")[2] for each in page.get("bidi_component")]
    assert mounted == ["queue", "desk"]
    with statements() as asked:
        assert desk(OpenDesk())["words"] == "2 cases to review."
    assert sum("disputed" in str(values) for _, values in asked) == 1


def test_what_the_agents_settled_is_not_told_before_the_review_and_not_denied_after(
    open_page: Opener, page_database: Database
) -> None:
    [audited] = fill(page_database, outcome="safe")
    page = take_next(OpenDesk())
    assert desk(page)["case"]["why"] == "Awaiting review"
    page = save(page)
    assert desk(page)["case"]["why"] == "Labeled by the AI"
    case = " ".join(element.proto.body for element in open_page("case", case=audited).get("html"))
    assert "Labeled by the AI" in case and "did not settle" not in case


def test_the_same_save_twice_is_one_review_also_for_a_session_that_knows_nothing(
    page_database: Database, case_id: str
) -> None:
    page, review = take_next(OpenDesk()), new_id(_now())
    token, given = desk(page)["case"]["token"], {"label": "unsafe", "certainty": 4, "disposition": "none"}
    for _ in range(2):
        page = ask(page, "save", review, case=case_id, token=token, form=given)
    after_restart = ask(OpenDesk(case=case_id), "save", review, case=case_id, token=token, form=given)
    assert answer(after_restart)["ok"] and desk(after_restart)["stage"] == "read"
    mine = reviews.my_review(page_database, LOCAL_USER, case_id)
    assert mine is not None and mine.id == review and _count(page_database, reviews_table) == 1


def test_the_draft_is_kept_in_the_database(page_database: Database, case_id: str) -> None:
    filled = {"label": "insufficient_information", "certainty": 2, "note": "so far", "rev": 7}
    page = ask(take_next(OpenDesk()), "draft", form=filled)
    assert answer(page)["ok"] and load_draft(page_database, LOCAL_USER, case_id) == filled
    again = OpenDesk(case=case_id)  # a session that knows nothing, as after a reload
    assert desk(again)["draft"] == filled and desk(again)["case"]["text"] == TEXT


def test_a_mark_is_kept_in_the_text_as_received_and_the_end_not_reached_is_recorded(
    page_database: Database, case_id: str
) -> None:
    write(page_database, update(cases).values(text="one \u202etwo three"))
    page = take_next(OpenDesk())
    assert desk(page)["case"]["text"] == "one ⟨U+202E⟩two three"
    page = save(page, marks=[{"part": "text", "start": 12, "end": 15}], read_to_end=False)
    mine = reviews.my_review(page_database, LOCAL_USER, case_id)
    assert mine is not None and mine.form.marks == (TextMark(start=5, end=8),) and mine.form.read_to_end is False
    assert desk(page)["read"]["form"]["marks"] == [{"part": "text", "start": 12, "end": 15}]


def test_another_reviewers_marks_come_with_the_reveal(page_database: Database, case_id: str) -> None:
    register(page_database, BO, CY)
    claim = take(page_database, BO, _now())
    marked = form("insufficient_information").model_copy(update={"marks": (TextMark(start=0, end=6),)})
    reviews.submit_review(page_database, BO.at(_now()), case_id, claim.token, marked, new_id(_now()))
    page = take_next(OpenDesk())
    assert desk(page)["case"]["id"] == case_id and "'end': 6" not in _shown(page)
    [other] = desk(save(page))["read"]["others"]
    assert other["marks"] == [{"part": "text", "start": 0, "end": 6}] and "bo" not in other["who"].lower()


def test_a_lease_that_ran_out_is_taken_up_again(page_database: Database, case_id: str) -> None:
    page = take_next(OpenDesk())
    write(page_database, update(inbox_entries).values(assigned_until=_now() - timedelta(seconds=1)))
    page = ask(page, "look")
    assert desk(page)["words"] == "This case is not assigned to you any more: others may take it."
    assert desk(page)["may_take"] and TEXT not in _shown(page)
    page = ask(page, "take", case=case_id)
    assert desk(page)["stage"] == "reviewing" and desk(page)["case"]["text"] == TEXT


def test_a_review_is_taken_back_before_the_reveal_and_replaced_blind(page_database: Database, case_id: str) -> None:
    page = ask(take_next(OpenDesk()), "save", form={"label": "safe", "certainty": 5, "note": "why"})
    last = desk(page)["last"]
    page = ask(page, "undo", case=last["case"], review=last["review"])
    assert desk(page)["stage"] == "reviewing" and desk(page)["draft"]["note"] == "why"
    save(page, "unsafe", 4)
    mine = reviews.my_review(page_database, LOCAL_USER, case_id)
    assert mine is not None and (mine.version, mine.blind, mine.form.label) == (1, True, "unsafe")


def test_after_the_reveal_a_review_is_not_taken_back_but_revised_with_a_reason(
    page_database: Database, case_id: str
) -> None:
    page = save(take_next(OpenDesk()))
    last = desk(page)["last"]
    page = ask(page, "undo", case=last["case"], review=last["review"])
    assert not answer(page)["ok"] and desk(page)["stage"] == "read"
    page = ask(page, "revise", form={"label": "safe", "certainty": 5})
    assert answer(page)["words"].startswith("Enter a reason")
    page = ask(page, "revise", form={"label": "safe", "certainty": 5}, note="second thoughts")
    assert desk(page)["last"] is None  # what was saved first is so no longer
    assert (desk(page)["read"]["version"], desk(page)["read"]["blind"]) == (2, False)


def test_the_case_before_a_changed_review_is_another_case(page_database: Database) -> None:
    first, second = fill(page_database, [Priority.P0, Priority.P1])
    page = save(take_next(save(take_next(OpenDesk()))))
    page = ask(
        ask(page, "reveal"), "revise", form={"label": "safe", "certainty": 4, "disposition": "none"}, note="read again"
    )
    assert desk(page)["case"]["id"] == second and desk(page)["read"]["version"] == 2
    assert desk(ask(page, "previous", case=None))["case"]["id"] == first


def test_a_case_that_becomes_urgent_while_it_is_read_is_shown_as_it_is(page_database: Database, case_id: str) -> None:
    """The list beside it says so; nobody may take five minutes for four hours."""
    page = take_next(OpenDesk())
    assert desk(page)["case"]["priority_words"] == "● P2 Same day"
    with page_database.write() as conn:
        placed = Placement(priority=Priority.P0, why=TriageWhy.LIKELY_URGENT)
        settle(conn, case_id, placed, Label.UNSAFE, _now(), SiteSettings(), research_order=False)
    shown = desk(ask(page, "look"))
    assert (shown["case"]["priority_words"], shown["case"]["needs_note"]) == ("▲▲ P0 Immediate", True)
    assert shown["said"] == "This case has become more urgent."
    assert shown["case"]["due"] < 1000 * (_now() + timedelta(minutes=6)).timestamp()


def test_what_is_erased_leaves_the_desk_of_whoever_has_read_it(page_database: Database, case_id: str) -> None:
    page = save(take_next(OpenDesk()))
    assert TEXT in str(desk(page))
    with page_database.write() as conn:
        erase_rows(conn, [case_id], None, _now())
    page = ask(page, "look")
    shown = desk(page)
    assert TEXT not in str(shown) and (shown["stage"], shown["case"]["text"]) == ("read", ERASED)
    seen = [event.action for event in events(page_database, LOCAL_USER)]
    assert desk(ask(page, "look"))["case"]["text"] == ERASED
    assert [event.action for event in events(page_database, LOCAL_USER)] == seen, "it is read anew once"


def test_a_p0_case_may_be_opened_at_once_and_is_then_not_blind(page_database: Database) -> None:
    [urgent] = fill(page_database, [Priority.P0])
    page = ask(take_next(OpenDesk()), "at_once")
    assert desk(page)["case"]["evidence"]
    page = save(page)
    assert desk(page)["read"]["blind"] is False
    assert [each.blind for each in reviews.reveal_reviews(page_database, LOCAL_USER.at(_now()), urgent)] == [False]


def test_a_case_that_is_not_in_hand_shows_nothing_of_itself(page_database: Database, case_id: str) -> None:
    claims.claim_next(page_database, BO.at(_now()))
    page = OpenDesk(case=case_id)
    assert desk(page)["stage"] == "named" and TEXT not in _shown(page)
    page = ask(page, "take", case=case_id)
    assert not answer(page)["ok"] and TEXT not in _shown(page)
    [other] = fill(page_database)
    assert desk(take_next(page))["case"]["id"] == other, "no dead end"


def test_two_windows_of_one_person_get_two_cases_and_one_that_was_left_its_own(page_database: Database) -> None:
    fill(page_database, [Priority.P2] * 3)
    windows = [take_next(OpenDesk().ask_list()) for _ in range(2)]
    first, second = (desk(window)["case"]["id"] for window in windows)
    assert first != second
    windows[0].ask_list(left="1")
    assert desk(take_next(OpenDesk().ask_list()))["case"]["id"] == first, "after a reload it goes on"


def _captions(page: AppTest) -> str:
    return "\n".join(each.value for each in page.caption)


def test_covered_texts_are_not_loaded_before_they_are_opened(open_page: Opener, case_id: str) -> None:
    page = take_next(OpenDesk(cover="1"))
    assert TEXT not in _shown(page) and "Opened today: 0" in _captions(open_page("inbox"))
    assert desk(page)["case"]["name"] == "post-1", "as the list calls it"
    page = ask(page, "uncover")
    assert TEXT in _shown(page)
    assert "Opened today: 1 · since last break (last 8 hours): 1" in _captions(open_page("inbox"))


def test_a_break_is_offered_between_cases_and_loses_nothing(page_database: Database) -> None:
    first, _second = fill(page_database, [Priority.P2, Priority.P3])
    before = settings_store.current(page_database)
    words = "{texts} read. **Tea** <img src=x onerror=alert(1)>?"
    few = before.settings.model_copy(update={"break_after_texts": 1, "break_wording": words})
    settings_store.change(page_database, LOCAL_USER.at(_now()), few, before.version)
    page = take_next(OpenDesk())
    assert desk(page)["rest"] == "", "never in the midst of a case"
    page = save(page)
    assert desk(page)["rest"] == words.format(texts=1)
    assert desk(ask(page, "go_on"))["rest"] == "", "put off"
    page = ask(page, "take_break")
    assert "Come back when you are ready" in desk(page)["said"] and desk(page)["stage"] == "idle"
    assert claims.my_claims(page_database, LOCAL_USER.at(_now())) == ()
    assert len(reviews.reveal_reviews(page_database, LOCAL_USER.at(_now()), first)) == 1
    assert counts(page_database, LOCAL_USER.at(_now())).free == 1


@pytest.mark.parametrize("name", ["[a](b)", ":red[x]", "$x$", "<b>", "*a*", "`a`", "a\nb", "http://x.example", ""])
def test_names_that_could_be_markup_are_replaced(name: str) -> None:
    assert plain_name(name, "0" * 32) == "case 000000"


@pytest.mark.parametrize(
    ("disposition", "alone", "closed"),
    [("none", "safe", True), ("contact_now", "unsafe", False), ("none", "insufficient_information", False)],
)
def test_it_is_closed_only_where_nothing_is_open(
    page_database: Database, disposition: str, alone: str, closed: bool
) -> None:
    """A follow-up, or a second review that nobody is there to give, is told with whom it is and until when."""
    fill(page_database)
    read = desk(save(take_next(OpenDesk()), alone, disposition=disposition))["read"]
    assert ("closed" in read["becomes"].lower()) is closed and len(read["follow_ups"]) == (not closed)
    assert all("for you" in one["words"] and one["due"] > 1_000 * time() for one in read["follow_ups"])


def test_the_disagreement_is_for_a_senior_to_decide(open_page: Opener, page_database: Database) -> None:
    [disputed] = fill(page_database)
    register(page_database, BO)
    page = save(ask(take_next(OpenDesk()), "second"), "safe", 5)
    assert desk(page)["read"]["becomes"] == "Second review needed: Bo."
    claim = take(page_database, BO, _now())
    reviews.submit_review(page_database, BO.at(_now()), disputed, claim.token, form("unsafe"), new_id(_now()))
    assert [each.case_id for each in adjudication.disagreements(page_database, LOCAL_USER)] == [disputed]
    (listed,) = snapshot(page_database, LOCAL_USER.at(_now()), View())["disputed"]
    assert listed["mine"] and listed["href"].endswith(disputed)
    decided = open_page("case", case=disputed)
    decided = _press(decided, f"record_{disputed}_0")
    assert decided.error[0].value == "Select a label."
    decided.session_state[f"decide_{disputed}_0"] = "unsafe"
    decided = _press(decided, f"record_{disputed}_0")
    assert decided.error[0].value == "Say why."
    decided.text_input(key=f"decide_why_{disputed}_0").set_value("Discussed.").run()
    decided = _press(decided, f"record_{disputed}_0")
    assert "Version 1: Unsafe" in html_on(decided) and "senior adjudication" in html_on(decided)


def test_the_note_for_the_next_reviewer_is_kept_while_typed_until_it_has_gone_with_the_case(
    page_database: Database, case_id: str
) -> None:
    page = take_next(OpenDesk())
    page = ask(page, "draft", form={"label": "safe", "leaving": "ask the ward", "rev": 1})
    assert desk(OpenDesk(case=case_id))["draft"]["leaving"] == "ask the ward"
    page = ask(page, "hold", note="ask the ward")
    kept = load_draft(page_database, LOCAL_USER, case_id)
    assert kept is not None and kept["label"] == "safe" and "leaving" not in kept
    page = ask(page, "take", case=case_id)
    assert answer(page)["ok"] and desk(page)["draft"]["label"] == "safe"
    page = save(page, "safe", leaving="typed and not sent")
    assert desk(page)["stage"] == "read", "it is no field of a review"


def test_what_is_no_action_is_answered_and_left_alone(page_database: Database, case_id: str) -> None:
    page = take_next(OpenDesk())
    for nonsense in ({"kind": "delete"}, {"kind": "skip", "id_": "x"}, {"kind": "skip", "case": "' or 1=1"}):
        page = page.send(asked(page, "skip") | nonsense)
        assert answer(page)["ok"] is False and desk(page)["stage"] == "reviewing"
    assert answer(ask(page, "draft", case="0" * 32, form={"note": "x"}))["words"] == "This case is not assigned to you."


@pytest.mark.parametrize("after", ["next", "previous", "undo", "finish"])
def test_what_was_asked_after_a_save_that_is_refused_is_refused_in_its_words(
    page_database: Database, case_id: str, after: str
) -> None:
    page = take_next(OpenDesk())
    other = fill(page_database)
    give_to_bo(page_database, case_id)
    saving = asked(page, "save", form={"label": "unsafe", "certainty": 4})
    page = page.send(saving, asked(page, after, case=None))
    said = "This case is assigned to another reviewer now. What you filled in is kept as a draft."
    assert list(page.answers.values()) == [{"ok": False, "words": said}] * 2
    assert desk(page)["stage"] == "over" and desk(page)["words"] == said and other
    again = page.send(saving, asked(page, after, case=None))  # its answer had not arrived
    assert answer(again) == {"ok": False, "words": said} and desk(again)["case"]["id"] == case_id


def test_a_review_taken_back_in_another_page_is_not_revealed_in_the_first(
    page_database: Database, case_id: str
) -> None:
    first = ask(take_next(OpenDesk()), "save", form={"label": "safe", "certainty": 5})
    last = desk(first)["last"]
    ask(OpenDesk(case=case_id), "undo", case=case_id, review=last["review"])
    first = ask(first, "reveal")
    assert answer(first)["ok"] and desk(first)["stage"] == "reviewing" and desk(first)["draft"]["label"] == "safe"
    assert _count(page_database, unblindings) == 0


def test_what_does_not_fit_together_is_said_of_a_read_case_only_while_its_review_is_changed(case_id: str) -> None:
    page = save(take_next(OpenDesk()))
    doubtful = {"label": "safe", "certainty": 4, "disposition": "contact_now", "rev": 2}
    page = ask(page, "draft", form=doubtful | {"revision": True})
    assert desk(page)["points"] == ["The label is safe, but the disposition is contact now."]
    page = ask(page, "draft", form=doubtful)  # of a page that had not heard of the save
    assert desk(page)["points"] == []
    page = ask(ask(page, "draft", form=doubtful | {"revision": True}), "revise", form=doubtful, note="second thoughts")
    assert desk(page)["draft"] == {"marks": []} and desk(page)["points"] == []


def test_a_second_opinion_stays_asked_for_after_a_reload_and_is_not_told_to_others(
    page_database: Database, case_id: str
) -> None:
    page = take_next(OpenDesk())
    assert not desk(page)["case"]["asked"]
    page = ask(page, "second")
    assert desk(page)["case"]["asked"] and desk(OpenDesk(case=case_id))["case"]["asked"]
    ask(page, "hold", note="ask the ward")
    assert desk(ask(OpenDesk(case=case_id), "take", case=case_id))["case"]["asked"]
    assert not has_asked(page_database, BO, case_id)


def test_nothing_of_the_engine_before_the_review_nor_with_its_save_and_all_of_it_once_asked_for(
    page_database: Database, case_id: str
) -> None:
    page = take_next(OpenDesk())
    assert desk(page)["case"]["id"] == case_id and desk(page)["case"]["text"] == TEXT
    assert "exhausted" not in _shown(page) and "Escalated" not in _shown(page)
    page = ask(page, "save", form={"label": "unsafe", "certainty": 4, "disposition": "none"})
    assert (desk(page)["stage"], desk(page)["read"]["revealed"]) == ("read", False)
    assert "Escalated" not in _shown(page) and _count(page_database, unblindings) == 0
    page = ask(page, "reveal")
    assert "Escalated" in desk(page)["read"]["engine"] and _count(page_database, unblindings) == 1


@pytest.mark.parametrize("missing", ["certainty", "disposition"])
def test_a_save_without_what_it_needs_is_refused_and_loses_nothing(
    page_database: Database, case_id: str, missing: str
) -> None:
    given = {"label": "unsafe", "certainty": 4, "disposition": "none", "note": "as she wrote", "rev": 1}
    del given[missing]
    page = ask(ask(take_next(OpenDesk()), "draft", form=given), "save", form=given)
    assert not answer(page)["ok"] and desk(page)["stage"] == "reviewing"
    assert desk(page)["draft"]["note"] == "as she wrote" and _count(page_database, reviews_table) == 0


@pytest.mark.parametrize(
    ("priority", "kind", "note", "done"),
    [
        (Priority.P1, "skip", "", False),
        (Priority.P1, "skip", "I know the writer.", True),
        (Priority.P2, "skip", "", True),
        (Priority.P0, "not_me", "", True),
        (Priority.P2, "hold", "ask the ward", True),
        (Priority.P2, "next", "", False),
        (Priority.P2, "finish", "", True),
    ],
)
def test_what_leaves_a_case_leaves_it_once_and_what_is_refused_keeps_it(
    page_database: Database, priority: Priority, kind: str, note: str, done: bool
) -> None:
    (case_id,) = fill(page_database, [priority])
    page = take_next(OpenDesk())
    pressed = asked(page, kind, **{"note": note} if note else {})
    page = page.send(pressed).send(pressed)
    assert answer(page)["ok"] is done
    held = [one.case_id for one in claims.my_claims(page_database, LOCAL_USER.at(_now()))]
    assert held == ([] if done else [case_id]) and (desk(page)["stage"] == "reviewing") is not done


@pytest.mark.parametrize("kind", ["save", "second", "at_once", "skip", "hold", "draft"])
def test_nothing_is_done_with_a_case_that_went_to_a_colleague_and_what_was_typed_is_kept(
    page_database: Database, kind: str
) -> None:
    (case_id,) = fill(page_database, [Priority.P0])
    page = ask(take_next(OpenDesk()), "draft", form={"label": "unsafe", "certainty": 4, "rev": 1})
    give_to_bo(page_database, case_id)
    form = {"label": "unsafe", "certainty": 4, "note": "typed last", "rev": 2}
    page = ask(page, kind, **({"form": form} if kind in ("save", "draft") else {}))
    assert answer(page)["ok"] is (kind == "draft")
    assert desk(page)["stage"] == "over" and not desk(page)["may_take"] and TEXT not in _shown(page)
    assert _count(page_database, unblindings) == _count(page_database, reviews_table) == 0
    kept = load_draft(page_database, LOCAL_USER, case_id)
    assert kept is not None and kept.get("note") == ("typed last" if kind in ("save", "draft") else None)
    page = ask(page, "take", case=case_id)
    assert not answer(page)["ok"] and TEXT not in _shown(page)
