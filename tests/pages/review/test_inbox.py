"""The inbox under AppTest: blind first, drafts, leases, refusals, and what is said when nothing waits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import time

import pytest
from sqlalchemy import func, select, update
from streamlit.testing.v1 import AppTest

from pages.review.inbox_live import View, snapshot
from pages.review.inbox_words import plain_name
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
from storage.review import adjudication, claims, ratings
from storage.review.adjudication import has_asked
from storage.review.drafts import load_draft
from storage.review.erasure import erase_rows
from storage.review.queue import counts
from storage.schema import ERASED, cases, inbox_entries, unblindings
from storage.schema import ratings as ratings_table
from storage.settings_store import SiteSettings
from tests.databases import write
from tests.pages.conftest import Opener
from tests.pages.review.desk import answer, ask, asked, desk, give_to_bo, has_desk, save, send, take_next
from tests.storage.inbox_cases import BO, CY, fill, form, register, take
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


def test_a_run_of_the_page_counts_once_what_waits(open_page: Opener, page_database: Database) -> None:
    fill(page_database, [Tier.P2] * 2)
    page = open_page("inbox")
    with statements() as asked:
        page.run()
    assert sum("disputed" in str(values) for _, values in asked) == 1 and len(asked) <= 10
    assert desk(page)["words"] == "2 cases to review."


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


def test_a_lease_that_ran_out_is_taken_up_again(open_page: Opener, page_database: Database, case_id: str) -> None:
    page = take_next(open_page("inbox"))
    write(page_database, update(inbox_entries).values(assigned_until=_now() - timedelta(seconds=1)))
    page = ask(page, "look")
    assert desk(page)["words"] == "This case is not assigned to you any more: others may take it."
    assert desk(page)["may_take"] and TEXT not in _shown(page)
    page = ask(page, "take", case=case_id)
    assert desk(page)["stage"] == "reading" and desk(page)["case"]["text"] == TEXT


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


def test_the_case_before_a_changed_reading_is_another_case(open_page: Opener, page_database: Database) -> None:
    first, second = fill(page_database, [Tier.P0, Tier.P1])
    page = save(take_next(save(take_next(open_page("inbox")))))
    page = ask(
        ask(page, "reveal"), "revise", form={"label": "safe", "certainty": 4, "disposition": "none"}, note="read again"
    )
    assert desk(page)["case"]["id"] == second and desk(page)["read"]["version"] == 2
    assert desk(ask(page, "previous", case=None))["case"]["id"] == first


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
    assert not answer(page)["ok"] and TEXT not in _shown(page)
    [other] = fill(page_database)
    assert take_next(page).query_params["case"] in (other, [other]), "no dead end"


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


@pytest.mark.parametrize("name", ["[a](b)", ":red[x]", "$x$", "<b>", "*a*", "`a`", "a\nb", "http://x.example", ""])
def test_names_that_could_be_markup_are_replaced(name: str) -> None:
    assert plain_name(name, "0" * 32) == "case 000000"


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


def test_what_is_no_request_is_left_alone(open_page: Opener, page_database: Database, case_id: str) -> None:
    page = take_next(open_page("inbox"))
    for nonsense in ({"kind": "delete"}, {"id_": "x"}, {"case": "' or 1=1"}):
        before = desk(page)["answers"]
        page = ask(page, **{"kind": "skip", **nonsense})
        assert desk(page)["answers"] == before and desk(page)["stage"] == "reading"
    assert answer(ask(page, "draft", case="0" * 32, form={"note": "x"}))["words"] == "This case is not assigned to you."


@pytest.mark.parametrize("after", ["next", "previous", "undo", "finish"])
def test_what_was_asked_after_a_save_that_is_refused_is_refused_in_its_words(
    open_page: Opener, page_database: Database, case_id: str, after: str
) -> None:
    page = take_next(open_page("inbox"))
    other = fill(page_database)
    give_to_bo(page_database, case_id)
    saving = asked(page, "save", form={"label": "unsafe", "certainty": 4})
    page = send(page, saving, asked(page, after, case=None))
    said = "This case is assigned to another reviewer now. What you filled in is kept as a draft."
    assert list(desk(page)["answers"].values()) == [{"ok": False, "words": said}] * 2
    assert desk(page)["stage"] == "over" and desk(page)["words"] == said and other
    again = send(page, saving, asked(page, after, case=None))  # its answer had not arrived
    assert answer(again) == {"ok": False, "words": said} and desk(again)["case"]["id"] == case_id


def test_a_reading_taken_back_in_another_page_is_not_revealed_in_the_first(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    first = ask(take_next(open_page("inbox")), "save", form={"label": "safe", "certainty": 5})
    last = desk(first)["last"]
    ask(open_page("inbox", case=case_id), "undo", case=case_id, rating=last["rating"])
    first = ask(first, "reveal")
    assert answer(first)["ok"] and desk(first)["stage"] == "reading" and desk(first)["draft"]["label"] == "safe"
    assert _count(page_database, unblindings) == 0


def test_what_does_not_fit_together_is_said_of_a_read_case_only_while_its_reading_is_changed(
    open_page: Opener, case_id: str
) -> None:
    page = save(take_next(open_page("inbox")))
    doubtful = {"label": "safe", "certainty": 4, "disposition": "contact_now", "rev": 2}
    page = ask(page, "draft", form=doubtful | {"revision": True})
    assert desk(page)["points"] == ["The label is safe, but the disposition is contact now."]
    page = ask(page, "draft", form=doubtful)  # of a page that had not heard of the save
    assert desk(page)["points"] == []
    page = ask(ask(page, "draft", form=doubtful | {"revision": True}), "revise", form=doubtful, note="second thoughts")
    assert desk(page)["draft"] == {"marks": []} and desk(page)["points"] == []


def test_a_second_opinion_stays_asked_for_after_a_reload_and_is_not_told_to_others(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = take_next(open_page("inbox"))
    assert not desk(page)["case"]["asked"]
    page = ask(page, "second")
    assert desk(page)["case"]["asked"] and desk(open_page("inbox", case=case_id))["case"]["asked"]
    ask(page, "hold", note="ask the ward")
    assert desk(ask(open_page("inbox", case=case_id), "take", case=case_id))["case"]["asked"]
    assert not has_asked(page_database, BO, case_id)


def test_nothing_of_the_engine_before_the_reading_nor_with_its_save_and_all_of_it_once_asked_for(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = take_next(open_page("inbox"))
    assert page.query_params["case"] in (case_id, [case_id]) and desk(page)["case"]["text"] == TEXT
    assert "exhausted" not in _shown(page) and "Escalated" not in _shown(page)
    page = ask(page, "save", form={"label": "unsafe", "certainty": 4, "disposition": "none"})
    assert (desk(page)["stage"], desk(page)["read"]["revealed"]) == ("read", False)
    assert "Escalated" not in _shown(page) and _count(page_database, unblindings) == 0
    page = ask(page, "reveal")
    assert "Escalated" in desk(page)["read"]["engine"] and _count(page_database, unblindings) == 1


@pytest.mark.parametrize("missing", ["certainty", "disposition"])
def test_a_save_without_what_it_needs_is_refused_and_loses_nothing(
    open_page: Opener, page_database: Database, case_id: str, missing: str
) -> None:
    given = {"label": "unsafe", "certainty": 4, "disposition": "none", "note": "as she wrote", "rev": 1}
    del given[missing]
    page = ask(ask(take_next(open_page("inbox")), "draft", form=given), "save", form=given)
    assert not answer(page)["ok"] and desk(page)["stage"] == "reading"
    assert desk(page)["draft"]["note"] == "as she wrote" and _count(page_database, ratings_table) == 0


@pytest.mark.parametrize(
    ("tier", "kind", "note", "done"),
    [
        (Tier.P1, "skip", "", False),
        (Tier.P1, "skip", "I know the writer.", True),
        (Tier.P2, "skip", "", True),
        (Tier.P0, "not_me", "", True),
        (Tier.P2, "hold", "ask the ward", True),
        (Tier.P2, "next", "", False),
        (Tier.P2, "finish", "", True),
    ],
)
def test_what_leaves_a_case_leaves_it_once_and_what_is_refused_keeps_it(
    open_page: Opener, page_database: Database, tier: Tier, kind: str, note: str, done: bool
) -> None:
    (case_id,) = fill(page_database, [tier])
    page = take_next(open_page("inbox"))
    pressed = asked(page, kind, **{"note": note} if note else {})
    page = send(send(page, pressed), pressed)
    assert answer(page)["ok"] is done
    held = [one.case_id for one in claims.my_claims(page_database, LOCAL_USER.at(_now()))]
    assert held == ([] if done else [case_id]) and (desk(page)["stage"] == "reading") is not done


@pytest.mark.parametrize("kind", ["save", "second", "at_once", "skip", "hold", "draft"])
def test_nothing_is_done_with_a_case_that_went_to_a_colleague_and_what_was_typed_is_kept(
    open_page: Opener, page_database: Database, kind: str
) -> None:
    (case_id,) = fill(page_database, [Tier.P0])
    page = ask(take_next(open_page("inbox")), "draft", form={"label": "unsafe", "certainty": 4, "rev": 1})
    give_to_bo(page_database, case_id)
    page = ask(page, kind, note="x", form={"label": "unsafe", "certainty": 4, "note": "typed last", "rev": 2})
    assert answer(page)["ok"] is (kind == "draft")
    assert desk(page)["stage"] == "over" and not desk(page)["may_take"] and TEXT not in _shown(page)
    assert _count(page_database, unblindings) == _count(page_database, ratings_table) == 0
    kept = load_draft(page_database, LOCAL_USER, case_id)
    assert kept is not None and kept.get("note") == ("typed last" if kind in ("save", "draft") else None)
    page = ask(page, "take", case=case_id)
    assert not answer(page)["ok"] and TEXT not in _shown(page)
