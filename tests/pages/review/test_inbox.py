"""The desk: blind first, drafts, leases, refusals, and what is said when nothing waits; and what an open inbox is told:
counts, late ones, the list its reviewer may see, and only to the browser it is in.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pages.review import desk, routes
from pages.review.routes import View, offer, snapshot
from pages.ui import auth, context, http
from pages.ui.words import last_midnight
from screening.labels import Label
from screening.review.policy import LOCAL_USER, Actor, Forbidden, Role
from screening.review.review_form import TextMark
from screening.review.triage import TARGETS, Placement, Priority, Why
from storage import audit_log, settings_store
from storage.batches.entries import settle
from storage.database import Database
from storage.review import claims, inbox, queue, reviews
from storage.review.adjudication import has_asked
from storage.review.erasure import erase_rows
from storage.review.evidence import notes
from storage.review.queue import Sort, counts, find
from storage.review.reports import exposure
from storage.review.reviews import load_draft
from storage.schema import ERASED, batches, cases, unblindings
from storage.schema import reviews as reviews_table
from storage.schema.columns import new_id
from storage.settings_store import SiteSettings
from storage.site.accounts import Ended, SessionEnded
from tests.databases import write
from tests.pages.conftest import refusals
from tests.pages.review.desk import GIVEN, OpenDesk, requests
from tests.storage.inbox_cases import fill, form, put, register, take
from tests.storage.people import ADMIN, ANN, BO, CY, MINUTE, NOW, RESEARCHER, SENIOR

TEXT = "canary text number 1"


def _now() -> datetime:
    return datetime.now(UTC)


def _count(db: Database, table: Any) -> int:
    return db.value(select(func.count()).select_from(table))


def _mine(db: Database, case_id: str) -> reviews.Review:
    mine = reviews.my_review(db, LOCAL_USER, case_id)
    assert mine is not None
    return mine


def _give_to_bo(db: Database, case_id: str) -> None:
    """As another reviewer's claim after expiry does."""
    put(db, case_id, assignee="bo", lease_token="other", assigned_until=_now() + timedelta(minutes=5))


@pytest.fixture
def case_id(page_database: Database) -> str:
    return fill(page_database)[0]


@pytest.fixture
def page(case_id: str) -> OpenDesk:
    return OpenDesk().take_next()


@pytest.mark.parametrize(
    ("outcome", "why", "engine"),
    [("human_review", "Awaiting review", "Escalated"), ("safe", "Labeled by the AI", "Labeled safe")],
)
def test_nothing_of_the_engine_before_the_reveal(page_database: Database, outcome: str, why: str, engine: str) -> None:
    fill(page_database, outcome=outcome)
    page = OpenDesk().take_next()
    assert (page["case"]["text"], page["case"]["why"]) == (TEXT, "Awaiting review")
    assert "exhausted" not in str(page.told) and engine not in str(page.told)
    page.ask("save", form=GIVEN)
    assert (page["stage"], page["read"]["revealed"]) == ("read", False)
    assert engine not in str(page.told) and _count(page_database, unblindings) == 0
    page.ask("reveal")
    assert engine in page["read"]["engine"] and page["case"]["why"] == why and _count(page_database, unblindings) == 1


def test_drafts_and_what_was_asked_for_outlive_reloads(page_database: Database, case_id: str, page: OpenDesk) -> None:
    """And refusals; the note for the next reviewer goes with the case. Others are not told who asked for what."""
    filled = {"label": "insufficient_information", "certainty": 2, "note": "so far", "leaving": "ask", "rev": 7}
    assert page.ask("draft", form=filled).answer["ok"] and page.ask("second")["case"]["asked"]
    page = OpenDesk(case=case_id)  # a session that knows nothing, as after a reload
    assert load_draft(page_database, LOCAL_USER, case_id) == page["draft"] == filled
    assert page["case"]["text"] == TEXT and page["case"]["asked"] and not has_asked(page_database, BO, case_id)
    page.ask("hold", note="ask").ask("take", case=case_id)
    assert page["case"]["asked"] and page["draft"]["note"] == "so far" and not page["draft"].get("leaving")
    for missing in ("certainty", "disposition"):
        given = {name: value for name, value in GIVEN.items() if name != missing}
        page.ask("draft", form=given | {"note": "as she wrote"}).ask("save", form=given)
        assert not page.answer["ok"] and page["stage"] == "reviewing" and page["draft"]["note"] == "as she wrote"
    assert _count(page_database, reviews_table) == 0
    assert page.save(leaving="typed and not sent")["stage"] == "read", "it is no field of a review"


def test_marks_are_kept_in_the_text_as_received_and_come_with_the_reveal(page_database: Database, case_id: str) -> None:
    register(page_database, BO, CY)
    write(page_database, update(cases).values(text="one \u202etwo three"))
    claim = take(page_database, BO, _now())
    marked = form("insufficient_information").model_copy(update={"marks": (TextMark(start=5, end=8),)})
    reviews.submit_review(page_database, BO.at(_now()), case_id, claim.token, marked, new_id(_now()))
    page = OpenDesk().take_next()
    shown = {"part": "text", "start": 12, "end": 15}
    assert page["case"]["text"] == "one ⟨U+202E⟩two three" and "'end': 15" not in str(page.told)
    page.save(marks=[shown], read_to_end=False)
    mine = _mine(page_database, case_id)
    assert mine.form.marks == (TextMark(start=5, end=8),) and mine.form.read_to_end is False
    [other] = page["read"]["others"]
    assert page["read"]["form"]["marks"] == other["marks"] == [shown] and "bo" not in other["who"].lower()


def test_a_review_taken_back_is_replaced_blind(page_database: Database, case_id: str, page: OpenDesk) -> None:
    """In another page, too."""
    page.ask("save", form={"label": "safe", "certainty": 5, "note": "why"})
    OpenDesk(case=case_id).ask("undo", case=case_id, review=page["last"]["review"])
    page.ask("reveal")
    assert page.answer["ok"] and page["stage"] == "reviewing" and page["draft"]["note"] == "why"
    assert _count(page_database, unblindings) == 0
    page.save("unsafe")
    mine = _mine(page_database, case_id)
    assert (mine.version, mine.blind, mine.form.label) == (1, True, "unsafe")


def test_after_the_reveal_a_review_is_revised_with_a_reason(page_database: Database) -> None:
    """What does not fit together is said only while it is changed; the case before it is another case."""
    first, second = fill(page_database, [Priority.P1, Priority.P2])
    page = OpenDesk().take_next().save().take_next().save()
    assert not page.ask("undo", case=second, review=page["last"]["review"]).answer["ok"] and page["stage"] == "read"
    doubtful = {"label": "safe", "certainty": 4, "disposition": "contact_now", "rev": 2}
    assert len(page.ask("draft", form=doubtful | {"revision": True})["points"]) == 1
    assert page.ask("draft", form=doubtful)["points"] == [], "of a page that had not heard of the save"
    assert not page.ask("revise", form=doubtful).answer["ok"]
    page.ask("revise", form=doubtful, note="second thoughts")
    assert page["last"] is None and page["draft"] == {"marks": []} and page["points"] == []
    assert (page["case"]["id"], page["read"]["version"], page["read"]["blind"]) == (second, 2, False)
    assert page.ask("previous", case=None)["case"]["id"] == first


def test_a_case_may_become_urgent_or_be_erased_while_it_is_open(
    page_database: Database, case_id: str, page: OpenDesk
) -> None:
    """The list beside it says so; nobody may take five minutes for four hours."""
    assert "P2" in page["case"]["priority_words"]
    with page_database.write() as conn:
        placed = Placement(priority=Priority.P0, why=Why.LIKELY_URGENT)
        settle(conn, case_id, placed, Label.UNSAFE, _now(), SiteSettings(), research_order=False)
    page.look()
    assert "P0" in page["case"]["priority_words"] and page["case"]["needs_note"] and page["said"]
    assert 240 < page["case"]["due"] / 1000 - _now().timestamp() <= 300
    assert TEXT in str(page.save().told)
    with page_database.write() as conn:
        erase_rows(conn, [case_id], None, _now())
    page.look()
    assert TEXT not in str(page.told) and (page["stage"], page["case"]["text"]) == ("read", ERASED)
    seen = len(audit_log.events(page_database, LOCAL_USER))
    assert page.look()["case"]["text"] == ERASED
    assert len(audit_log.events(page_database, LOCAL_USER)) == seen, "it is read anew once"


def test_a_p0_case_may_be_opened_at_once_and_is_then_not_blind(page_database: Database) -> None:
    [urgent] = fill(page_database, [Priority.P0])
    page = OpenDesk().take_next().ask("at_once")
    assert page["case"]["evidence"]
    assert page.save()["read"]["blind"] is False and _mine(page_database, urgent).blind is False


def test_a_case_that_is_not_in_hand_shows_nothing_of_itself(page_database: Database, case_id: str) -> None:
    claims.claim_next(page_database, BO.at(_now()))
    page = OpenDesk(case=case_id)
    assert page["stage"] == "named" and TEXT not in str(page.told)
    assert not page.ask("take", case=case_id).answer["ok"] and TEXT not in str(page.told)
    [other] = fill(page_database)
    assert page.take_next()["case"]["id"] == other, "no dead end"


def test_two_windows_of_one_person_get_two_cases_and_one_that_was_left_its_own(page_database: Database) -> None:
    fill(page_database, [Priority.P2] * 3)
    windows = [OpenDesk().ask_list().take_next() for _ in range(2)]
    first, second = (window["case"]["id"] for window in windows)
    assert first != second
    windows[0].ask_list(left="1")
    assert OpenDesk().ask_list().take_next()["case"]["id"] == first, "after a reload it goes on"


def test_covered_texts_are_neither_loaded_nor_counted(page_database: Database, case_id: str) -> None:
    page = OpenDesk(cover="1").take_next()
    for action, opened in (("alive", 0), ("uncover", 1)):
        assert (TEXT in str(page.ask(action).told)) is bool(opened)
        assert exposure(page_database, LOCAL_USER.at(_now()), last_midnight(_now())).texts == opened


def test_a_break_is_offered_between_cases_and_loses_nothing(page_database: Database) -> None:
    first, *_others = fill(page_database, [Priority.P2, Priority.P3, Priority.P3])
    words = "{texts} read. **Tea** <img src=x onerror=alert(1)>?"
    few = SiteSettings(break_after_texts=2, break_wording=words)
    settings_store.change(page_database, LOCAL_USER.at(_now()), few, settings_store.current(page_database).version)
    page = OpenDesk().take_next()
    assert page.save()["rest"] == "", "not before it is due"
    assert page.take_next()["rest"] == "", "never in the midst of a case"
    assert page.save()["rest"] == words.format(texts=2) and page.ask("go_on")["rest"] == "", "put off"
    assert page.ask("take_break")["stage"] == "idle"
    assert claims.my_claims(page_database, LOCAL_USER.at(_now())) == ()
    assert _mine(page_database, first) and counts(page_database, LOCAL_USER.at(_now())).free == 1


@pytest.mark.parametrize(
    ("disposition", "alone", "closed"),
    [("none", "safe", True), ("contact_now", "unsafe", False), ("none", "insufficient_information", False)],
)
def test_it_is_closed_only_where_nothing_is_open(page: OpenDesk, disposition: str, alone: str, closed: bool) -> None:
    """A follow-up, or a second review that nobody is there to give, is told with whom it is and until when."""
    read = page.save(alone, disposition=disposition)["read"]
    assert ("closed" in read["becomes"].lower()) is closed and len(read["follow_ups"]) == (not closed)
    assert all("for you" in one["words"] and one["due"] > 1_000 * time() for one in read["follow_ups"])


def test_what_is_no_action_is_answered_and_left_alone(page: OpenDesk) -> None:
    for nonsense in ({"kind": "delete"}, {"kind": "skip", "id_": "x"}, {"kind": "skip", "case": "' or 1=1"}):
        page.send(page.asked("skip") | nonsense)
        assert page.answer["ok"] is False and page["stage"] == "reviewing"
    assert not page.ask("draft", case="0" * 32, form={"note": "x"}).answer["ok"]


@pytest.mark.parametrize("after", ["next", "previous", "undo", "finish", "open", "leave"])
def test_what_follows_a_refused_save_is_refused(page_database: Database, page: OpenDesk, after: str) -> None:
    case_id = page["case"]["id"]
    fill(page_database)
    _give_to_bo(page_database, case_id)
    saving = page.asked("save", form={"label": "unsafe", "certainty": 4})
    for _ in range(2):  # the second time as if its answer had not arrived
        page.send(saving, page.asked(after, case=None))
        first, second = page.answers.values()
        assert first == second and not first["ok"] and page["stage"] == "over" and page["words"] == first["words"]
        assert page["case"]["id"] == case_id


def test_an_answer_that_was_lost_is_told_again_and_the_action_done_once(page_database: Database) -> None:
    first, second = fill(page_database, [Priority.P1, Priority.P2])
    page = OpenDesk().take_next()
    sent = page.asked("save", form=GIVEN), page.asked("next", case=None)
    before = dict(page.address)
    for _ in range(2):
        page.address = before.copy()  # the browser has not heard of it
        page.send(*sent)
        assert [each["ok"] for each in page.answers.values()] == [True, True]
        assert page["case"]["id"] == second and page["last"]["case"] == first
    after_restart = OpenDesk(case=first).send(sent[0])
    assert after_restart.answer["ok"] and after_restart["stage"] == "read"
    assert _mine(page_database, first).id == sent[0]["id"] and _count(page_database, reviews_table) == 1


@pytest.mark.parametrize("kind", ["save", "second", "at_once", "skip", "hold", "draft"])
def test_a_case_that_went_to_a_colleague_is_let_alone(page_database: Database, kind: str) -> None:
    """And what was typed is kept."""
    (case_id,) = fill(page_database, [Priority.P0])
    page = OpenDesk().take_next().ask("draft", form={"label": "unsafe", "certainty": 4, "rev": 1})
    _give_to_bo(page_database, case_id)
    typed = {"form": {"label": "unsafe", "certainty": 4, "note": "typed last", "rev": 2}}
    page.ask(kind, **(typed if kind in ("save", "draft") else {}))
    assert page.answer["ok"] is (kind == "draft")
    assert page["stage"] == "over" and not page["may_take"] and TEXT not in str(page.told)
    assert _count(page_database, unblindings) == _count(page_database, reviews_table) == 0
    kept = load_draft(page_database, LOCAL_USER, case_id) or {}
    assert kept.get("note") == ("typed last" if kind in ("save", "draft") else None)
    assert not page.ask("take", case=case_id).answer["ok"] and TEXT not in str(page.told)


BOTH = Actor(id="both", name="Both", roles=frozenset({Role.REVIEWER, Role.SENIOR}))
P0, P1, P2, P3 = Priority
PAGE = "0" * 31 + "a"


def _told(db: Database, who: Actor = BOTH, **view: Any) -> Any:
    return snapshot(db, who.at(NOW), View(**view))


def _ids(told: Any) -> list[str]:
    return [row["id"] for row in told["rows"]]


def test_it_counts_what_waits_and_what_is_late_and_names_no_text(db: Database) -> None:
    ids = fill(db, [P0, P1, P3])
    write(db, update(cases).where(cases.c.id == ids[2]).values(external_id="<b>\u202e[x](http://out.example)"))
    told = snapshot(db, SENIOR.at(NOW + TARGETS[P0] + MINUTE), View())
    assert (told["waits"], told["urgent"], told["late"]) == (3, 2, "1 overdue")
    assert [(pill["open"], pill["late"]) for pill in told["pills"]] == [(1, "1 overdue"), (1, ""), (0, ""), (1, "")]
    first, _, last = told["rows"]
    assert (first["id"], first["late"], first["left"]) == (ids[0], True, "overdue 1 min")
    assert "\u202e" not in last["name"] and "canary" not in json.dumps(told)


def test_a_new_p0_case_moves_the_mark_on_and_is_said_as_long_as_this_person_may_take_it(db: Database) -> None:
    fill(db, [P1])
    assert _told(db)["newest"] is None
    fill(db, [P0], entered_at=[NOW])
    first = _told(db)["newest"]
    said = [_told(db, *asked)["p0"] for asked in ((ANN,), (ADMIN,))]
    said.append(_told(db, ANN, priorities=[P3])["p0"])
    assert len(set(said)) == 3 and all("P0" in each for each in said) and "outside your filter" in said[-1]
    claims.claim_next(db, ANN.at(NOW))
    assert _told(db, ANN)["p0"] == _told(db, BO)["p0"] == ""
    fill(db, [P1, P0], entered_at=[NOW, NOW + MINUTE])
    assert _told(db)["newest"] == first + 60


def test_a_reviewer_sees_only_what_is_on_hold_for_them_and_a_researcher_no_list(db: Database) -> None:
    _first, second = fill(db, [P1, P3])
    claim = claims.claim(db, SENIOR.at(NOW), second)
    inbox.hold(db, SENIOR.at(NOW), second, claim.token, "later")
    assert _ids(_told(db, ANN)) == _ids(_told(db, RESEARCHER)) == []
    assert _ids(_told(db, SENIOR))[-1] == second
    assert not any(row["free"] for row in _told(db, ADMIN)["rows"])


def test_what_a_filter_hides_is_given_all_the_same(page_database: Database) -> None:
    urgent, calm = fill(page_database, [P0, P2])
    told = [_told(page_database, LOCAL_USER, priorities=some) for some in (None, [P2], [P0])]
    assert [(len(one["rows"]), one["of"], one["hidden"]) for one in told] == [(2, 2, 0), (1, 1, 1), (1, 1, 0)]
    page = OpenDesk(priorities="P2").ask("urgent", case=None)
    assert page["case"]["id"] == urgent
    assert _told(page_database, LOCAL_USER, priorities=[P2])["hidden"] == 0, "in hand"
    assert page.save().take_next()["case"]["id"] == calm


def test_each_is_told_their_own_reviews_and_how_many_texts_they_opened(page_database: Database) -> None:
    """Reviews only where they are asked for; and of which upload the list is, by its name."""
    first, second = fill(page_database, [P1, P2])
    page = OpenDesk().take_next().save("safe").take_next()
    assert page["case"]["id"] == second
    batch = page_database.value(select(cases.c.batch_id).where(cases.c.id == first))
    now = _now()
    told = [snapshot(page_database, LOCAL_USER.at(now), View(reviews=some, batch=batch)) for some in (False, True)]
    assert "reviews" not in told[0] and len(told[1]["reviews"]) == 1 and told[0]["batch"] == "posts.csv"
    [(case_id, name, words)] = told[1]["reviews"]
    assert (case_id, name) == (first, "post-1") and words.endswith("safe, high confidence · final label")
    assert page["exposure"].endswith(": 2 · since last break (last 8 hours): 2 (visible only to you)")
    unknown = snapshot(page_database, SENIOR.at(now), View(reviews=True, batch="0" * 32))
    assert unknown["batch"] == "one upload" and not unknown.get("reviews")
    assert "reviews" not in set(snapshot(page_database, RESEARCHER.at(now), View(reviews=True)))


def _finder(db: Database, **how: Any) -> Callable[[str], list[str]]:
    return lambda words: [each.case_id for each in find(db, BOTH.at(NOW), words, **how)[0]]


def test_cases_are_found_by_id_group_and_batch(db: Database) -> None:
    first, second = fill(db, [P3, P1])
    (other,) = fill(db, [P2])
    fill(db, entered=False)  # closed
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == other).values(group_name="forum_7", external_id="100%"))
        of_other = select(cases.c.batch_id).where(cases.c.id == other).scalar_subquery()
        conn.execute(update(batches).where(batches.c.id == of_other).values(name="Night_shift.csv"))
    found = _finder(db)
    assert found("post-2") == [second] and found("post-") == [second, first] and found(first) == [first]
    assert (found("forum_"), found("night_SHIFT"), found("100%")) == ([other], [other], [other])
    assert found("forumx") == found("%") == found("Night-shift") == found(" ") == found("canary") == []
    assert _finder(db, priorities=[P1])("post") == [second]
    with pytest.raises(Forbidden):
        find(db, ANN.at(NOW), "post-2")


def test_words_of_a_text_are_looked_for_as_the_role_allows(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far it looked is said where it ended before the last text."""
    first, second, chinese = fill(db, [P3, P0, P1])
    said = {
        first: {"text": "The Bridge at night, 100% sure"},
        second: {"text": "day", "reply": "Which bridge, by night?"},
        chinese: {"text": "我今晚想自杀", "model_text": None},
    }
    for case_id, parts in said.items():
        write(db, update(cases).where(cases.c.id == case_id).values(parts))
    found = _finder(db, texts=True)
    assert found("night bridge") == [second, first] and found("bridge sure") == found("100%") == [first]
    assert found("10_%") == found("ridges") == _finder(db)("bridge") == [] and found("杀") == [chinese]
    assert _ids(_told(db, find="sure", texts=True)) == [first]
    assert _ids(_told(db, ADMIN, find="sure", texts=True)) == [], "who runs the site reads no texts"
    with pytest.raises(Forbidden):
        find(db, ADMIN.at(NOW), "sure", texts=True)
    assert find(db, BOTH.at(NOW), "sure", texts=True)[1] is None
    monkeypatch.setattr(queue, "FIRST_READ", 2)
    assert [find(db, BOTH.at(NOW), words, texts=True)[1] for words in ("ridge", "sure")] == [2, 2]
    assert found("ridge") == [second] and found("sure") == []


@pytest.mark.parametrize("words", ["", "post"])
def test_the_list_is_sorted_as_asked_inside_a_filter_too(db: Database, words: str) -> None:
    ids = fill(db, [P3, P0, P1, P3], entered_at=[NOW + n * MINUTE for n in (0, 2, 1, 3)])
    oldest, urgent, middle, newest = ids

    def order(sort: Sort, chosen: list[Priority] | None = None) -> list[str]:
        return _ids(_told(db, priorities=chosen, sort=sort, find=words))

    assert order(Sort.LONGEST) == [oldest, middle, urgent, newest]
    assert order(Sort.NEWEST) == [newest, urgent, middle, oldest]
    assert order(Sort.URGENT) == [urgent, middle, oldest, newest]
    assert order(Sort.NEWEST, [P0, P3]) == [newest, urgent, oldest]


@pytest.fixture
def asked_by(monkeypatch: pytest.MonkeyPatch) -> list[Actor]:
    """Who sends the requests: the one in the list, when they send it."""
    found = [LOCAL_USER]
    monkeypatch.setattr(auth, "who_asks", lambda _scope: lambda active=True, who=found[0]: who)
    return found


def _get(what: str, page_id: str = PAGE, **headers: str) -> int:
    return requests(**headers).get(f"{http.LIVE}/{what}", params={"page": page_id}).status_code


def _post(content: object, **headers: str) -> int:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return requests(**headers).post(f"{http.LIVE}/desk", params={"page": PAGE}, content=body).status_code


@pytest.mark.parametrize(
    ("headers", "look", "act"),
    [
        ({"Origin": "http://localhost"}, 200, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200, 403),
        ({"Origin": "http://localhost.example"}, 403, 403),
        ({"Origin": "null"}, 403, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403, 403),
        ({"X-None": ""}, 200, 403),
    ],
)
def test_pages_of_this_site_alone_are_answered(page_database: Database, headers: Any, look: int, act: int) -> None:
    fill(page_database)
    assert _get("desk", **headers) == look
    assert _post([{"id": "0" * 31 + "1", "kind": "next"}], **headers) == act
    assert len(claims.my_claims(page_database, LOCAL_USER.at(context.now()))) == (act == 200)


@pytest.mark.parametrize("body", [b"", b"{", b"[" + b" " * routes.MOST_BYTES])
def test_what_is_no_list_of_actions_does_nothing(page_database: Database, body: bytes) -> None:
    assert _post(body) in (400, 413)


def test_each_request_is_answered_by_the_role_of_then(
    page_database: Database, asked_by: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    (case_id,) = fill(page_database)
    register(page_database, ANN, BO)
    assert offer(page_database, BOTH)["colleagues"] == [["ann", "Ann"], ["bo", "Bo"]]
    assert offer(page_database, ANN) == {"colleagues": [], "may_search_texts": False}
    asked_by[:] = [BOTH]
    given = OpenDesk().ask("assign", case=None, to=ANN.id, cases=[case_id])
    assert given.answer["ok"] and not given.ask("assign", case=None, to="nobody", cases=[case_id]).answer["ok"]
    asked_by[:] = [ANN]
    assert not OpenDesk().ask("assign", case=None, to=BO.id, cases=[case_id]).answer["ok"]
    saving = [OpenDesk().take_next().asked("save", form=GIVEN)]
    asked_by[:] = [replace(ANN, roles=frozenset())]
    assert [_get("list"), _get("desk"), _post(saving)] == [403] * 3
    duties = ("claim_next", "claim_next", "view_counts", "assign")
    assert refusals(page_database) == [(ANN.id, None, duty) for duty in duties]

    def ended(*_args: object, **_named: object) -> Actor:
        raise SessionEnded(Ended.IDLE)

    monkeypatch.setattr(auth, "who_asks", ended)
    assert _post(saving) == 401
    assert page_database.value(select(func.count()).select_from(reviews_table)) == 0


def test_a_closed_tab_gives_its_case_back(
    page_database: Database, asked_by: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most urgent case must not wait for a claim to run out behind a tab that is gone. What its reviewer took
    elsewhere is let alone.
    """
    register(page_database, ANN, BO)
    begun = context.now()
    case_id, other = fill(page_database, [P0, P1], entered_at=[begun] * 2)

    def waits(who: Actor, page_id: str, after: float, case: str = "") -> int:
        monkeypatch.setattr(context, "now", lambda: begun + after * desk.GONE_AFTER)
        asked_by[:] = [who]
        asked = {"page": page_id * 32, "case": case, "priorities": "P0"}
        return int(requests().get(f"{http.LIVE}/list", params=asked).json()["urgent"])

    take(page_database, ANN, begun)
    waits(ANN, "a", 0, case_id)
    waits(ANN, "d", 0, other)  # not theirs
    waits(BO, "b", 0)
    waits(ANN, "c", 0.5, case_id)
    assert waits(BO, "b", 1.25) == 1, "the page that was loaded again has it on its desk"
    assert waits(BO, "b", 1.75) == 2, "no page has"
    taken = take(page_database, BO, context.now())
    [released] = [event for event in audit_log.events(page_database, ADMIN) if event.action == "released"]
    assert (released.actor, released.subject) == (ANN.id, case_id)
    assert [note.note for note in notes(page_database, BO.at(context.now()), case_id, taken.token)] == [desk.NOTE]
    assert desk.open_pages().find(BO.id, PAGE, lambda: BO) is not desk.open_pages().find(ANN.id, PAGE, lambda: ANN)
