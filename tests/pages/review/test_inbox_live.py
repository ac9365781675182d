"""What an open inbox is told: counts, late ones, the list its reviewer may see, and only to the browser it is in."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pages.review import desk, routes
from pages.review.routes import View, offer, snapshot
from pages.ui import auth, context, http
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import TARGETS, Priority
from storage.audit_log import events
from storage.database import Database
from storage.review import claims, inbox, queue
from storage.review.evidence import notes
from storage.review.queue import Sort, find
from storage.schema import batches, cases, reviews
from storage.site.accounts import Ended, SessionEnded
from tests.databases import write
from tests.pages.conftest import refusals
from tests.pages.review.desk import GIVEN, OpenDesk, requests
from tests.storage.inbox_cases import fill, register, take
from tests.storage.people import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR

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


def test_a_reviewer_sees_only_what_is_set_aside_for_them_and_a_researcher_no_list(db: Database) -> None:
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
    monkeypatch.setattr(auth, "asks_over", lambda _scope, active: (found[0], lambda who=found[0]: who))
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

    monkeypatch.setattr(auth, "asks_over", ended)
    assert _post(saving) == 401
    assert page_database.value(select(func.count()).select_from(reviews)) == 0


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
    [released] = [event for event in events(page_database, ADMIN) if event.action == "released"]
    assert (released.actor, released.subject) == (ANN.id, case_id)
    assert [note.note for note in notes(page_database, BO.at(context.now()), case_id, taken.token)] == [desk.NOTE]
    assert desk.open_pages().find(BO.id, PAGE, lambda: BO) is not desk.open_pages().find(ANN.id, PAGE, lambda: ANN)
