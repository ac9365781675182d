"""What an open inbox is told: counts, late ones, the list its reviewer may see, and only to the browser it is in."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from httpx import Response
from sqlalchemy import func, select, update
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pages.review import routes
from pages.review.desk import GONE_AFTER, NOTE, open_pages
from pages.review.routes import View, offer, snapshot, view_of
from pages.ui import context
from pages.ui.http import LIVE
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
from tests.pages.review.desk import SITE, OpenDesk, answer, ask, asked, desk, save, take_next
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, read, register, take

BOTH = Actor(id="both", name="Both", roles=frozenset({Role.REVIEWER, Role.SENIOR}))


def _refused(db: Database) -> list[tuple[str, object]]:
    return [(event.actor, event.details) for event in events(db, ADMIN) if event.action == "refused"]


def test_it_counts_what_waits_and_what_is_late_and_names_no_text(db: Database) -> None:
    ids = fill(db, [Priority.P0, Priority.P1, Priority.P3])
    write(db, update(cases).where(cases.c.id == ids[2]).values(external_id="<b>\u202e[x](http://out.example)"))
    told = snapshot(db, SENIOR.at(NOW + TARGETS[Priority.P0] + MINUTE), View())
    assert (told["waits"], told["urgent"], told["late"]) == (3, 2, "1 overdue")
    assert [(pill["open"], pill["late"]) for pill in told["pills"]] == [(1, "1 overdue"), (1, ""), (0, ""), (1, "")]
    first, _, last = told["rows"]
    assert (first["id"], first["late"], first["left"], first["meaning"]) == (ids[0], True, "overdue 1 min", "Immediate")
    assert "\u202e" not in last["name"] and "canary" not in json.dumps(told)


def test_what_a_person_has_read_is_counted_from_the_midnight_that_is_named(db: Database) -> None:
    """Their own midnight may be another: the words say which."""
    evening, night, morning = (NOW.replace(hour=23, minute=59), NOW + timedelta(hours=15), NOW + timedelta(hours=20))
    fill(db, [Priority.P3] * 2)
    read(db, ANN, form("safe"), "a", evening)
    told = snapshot(db, ANN.at(evening), View())
    assert (told["done"], told["read"]) == (1, "You have reviewed 1 case today")
    told = snapshot(db, ANN.at(night), View())
    assert (told["done"], told["read"]) == (0, "You have reviewed 0 cases today")
    read(db, ANN, form("safe"), "b", night)
    elsewhere = morning.astimezone(ZoneInfo("America/New_York"))
    assert snapshot(db, ANN.at(elsewhere), View())["done"] == 1


def test_a_new_p0_case_moves_the_mark_on_and_nothing_else_does(db: Database) -> None:
    fill(db, [Priority.P1])
    assert snapshot(db, ANN.at(NOW), View())["newest"] is None
    fill(db, [Priority.P0], entered_at=[NOW])
    first = snapshot(db, ANN.at(NOW), View())["newest"]
    fill(db, [Priority.P1, Priority.P0], entered_at=[NOW, NOW + MINUTE])
    assert snapshot(db, ANN.at(NOW), View())["newest"] == first + 60


def test_a_p0_case_is_said_as_long_as_this_person_may_take_it(db: Database) -> None:
    came = "▲▲ A P0 case has come in"
    fill(db, [Priority.P0, Priority.P3])
    assert snapshot(db, ANN.at(NOW), View())["p0"] == f"{came}: take the next case."
    assert snapshot(db, ANN.at(NOW), View(priorities=[Priority.P3]))["p0"] == f"{came}, outside your filter."
    assert snapshot(db, ADMIN.at(NOW), View())["p0"] == f"{came}."
    claims.claim_next(db, ANN.at(NOW))
    assert snapshot(db, ANN.at(NOW), View())["p0"] == snapshot(db, BO.at(NOW), View())["p0"] == ""


def test_a_reviewer_sees_only_what_is_set_aside_for_them_and_a_researcher_no_list(db: Database) -> None:
    _first, second = fill(db, [Priority.P1, Priority.P3])
    claim = claims.claim(db, SENIOR.at(NOW), second)
    from_senior = inbox.hold(db, SENIOR.at(NOW), second, claim.token, "later")
    assert from_senior > NOW
    assert snapshot(db, ANN.at(NOW), View())["rows"] == []
    assert [row["id"] for row in snapshot(db, SENIOR.at(NOW), View())["rows"]][-1] == second
    assert snapshot(db, RESEARCHER.at(NOW), View())["rows"] == []
    assert not any(row["free"] for row in snapshot(db, ADMIN.at(NOW), View())["rows"])


def test_the_list_says_8_of_12_and_a_filter_narrows_it(db: Database) -> None:
    fill(db, [Priority.P1] * 3 + [Priority.P3] * 9)
    told = snapshot(db, BOTH.at(NOW), View())
    assert (len(told["rows"]), told["of"]) == (8, 12)
    assert snapshot(db, BOTH.at(NOW), View(priorities=[Priority.P1]))["of"] == 3
    assert len(snapshot(db, BOTH.at(NOW), View(rows=40))["rows"]) == 12


def test_cases_are_found_by_id_group_and_batch(db: Database) -> None:
    first, second = fill(db, [Priority.P3, Priority.P1])
    (other,) = fill(db, [Priority.P2])
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == other).values(group_name="forum_7", external_id="100%"))
        batch = cases.c.batch_id
        of_other = conn.execute(cases.select().with_only_columns(batch).where(cases.c.id == other)).scalar_one()
        conn.execute(update(batches).where(batches.c.id == of_other).values(name="Night_shift.csv"))

    def found(words: str) -> list[str]:
        return [each.case_id for each in find(db, BOTH.at(NOW), words)[0]]

    assert found("post-2") == [second] and found("post-") == [second, first]
    assert found(first) == [first]
    assert (found("forum_"), found("night_SHIFT"), found("100%")) == ([other], [other], [other])
    assert found("forumx") == found("%") == found("Night-shift") == found(" ") == found("canary") == []
    assert [each.case_id for each in find(db, BOTH.at(NOW), "post", priorities=[Priority.P1])[0]] == [second]
    with pytest.raises(Forbidden):
        find(db, ANN.at(NOW), "post-2")


def test_words_of_a_text_are_looked_for_where_asked_and_where_the_role_may_read(db: Database) -> None:
    first, second = fill(db, [Priority.P3, Priority.P1])
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == first).values(text="The Bridge at night, 100% sure"))
        conn.execute(update(cases).where(cases.c.id == second).values(text="day", reply="Which bridge, by night?"))

    def found(words: str, *, texts: bool = True) -> list[str]:
        return [each.case_id for each in find(db, BOTH.at(NOW), words, texts=texts)[0]]

    assert found("night bridge") == [second, first]
    assert (found("100%"), found("10_%"), found("bridge sure"), found("bridge", texts=False)) == (
        [first],
        [],
        [first],
        [],
    )
    assert [row["id"] for row in snapshot(db, BOTH.at(NOW), View(find="sure", texts=True))["rows"]] == [first]
    assert snapshot(db, ADMIN.at(NOW), View(find="sure", texts=True))["rows"] == [], "who runs the site reads no texts"
    with pytest.raises(Forbidden):
        find(db, ADMIN.at(NOW), "sure", texts=True)


def test_a_search_of_texts_says_how_far_it_looked(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _, bridge, chinese = fill(db, [Priority.P0, Priority.P1, Priority.P2])
    with db.write() as conn:
        for case_id, text in ((bridge, "The Bridge at night"), (chinese, "我今晚想自杀")):
            conn.execute(update(cases).where(cases.c.id == case_id).values(text=text, model_text=None))

    def found(words: str) -> tuple[list[str], int | None]:
        cases_found, texts_read = find(db, BOTH.at(NOW), words, texts=True)
        return [each.case_id for each in cases_found], texts_read

    assert found("杀") == ([chinese], None) and found("ridges") == ([], None)
    monkeypatch.setattr(queue, "FIRST_READ", 2)
    assert found("ridge") == ([bridge], 2) and found("杀") == ([], 2)


@pytest.mark.parametrize("words", ["", "post"])
def test_the_list_is_sorted_as_asked_inside_a_filter_too(db: Database, words: str) -> None:
    priorities = [Priority.P3, Priority.P0, Priority.P1, Priority.P3]
    ids = fill(db, priorities, entered_at=[NOW + n * MINUTE for n in (0, 2, 1, 3)])
    oldest, middle, urgent, newest = ids[0], ids[2], ids[1], ids[3]

    def order(sort: Sort, chosen: list[Priority] | None = None) -> list[str]:
        view = View(priorities=chosen, sort=sort, find=words)
        return [row["id"] for row in snapshot(db, BOTH.at(NOW), view)["rows"]]

    assert order(Sort.LONGEST) == [oldest, middle, urgent, newest]
    assert order(Sort.NEWEST) == [newest, urgent, middle, oldest]
    assert order(Sort.URGENT) == [urgent, middle, oldest, newest]
    assert order(Sort.NEWEST, [Priority.P0, Priority.P3]) == [newest, urgent, oldest]


def test_cases_are_given_away_by_whoever_may_and_the_refusal_of_others_is_in_the_audit_log(
    page_database: Database, asked_by: list[Actor]
) -> None:
    register(page_database, ANN, BO)
    (case_id,) = fill(page_database, [Priority.P2])
    assert offer(page_database, BOTH)["colleagues"] == [["ann", "Ann"], ["bo", "Bo"]]
    assert offer(page_database, ANN) == {"colleagues": [], "may_search_texts": False}
    asked_by[:] = [ANN]
    refused = ask(OpenDesk(), "assign", case=None, to="bo", cases=[case_id])
    assert answer(refused) == {"ok": False, "words": "Your role does not let you do this."}
    assert _refused(page_database) == [(ANN.id, {"asked": "assign"})]
    asked_by[:] = [BOTH]
    assert (
        desk(ask(OpenDesk(), "assign", case=None, to="bo", cases=[case_id]))["said"] == "1 case is reserved for them."
    )
    assert answer(ask(OpenDesk(), "assign", case=None, to="nobody", cases=[case_id]))["ok"] is False


@pytest.mark.parametrize(("what", "duty"), [("list", "view_counts"), ("desk", "claim_next")])
def test_whoever_may_not_is_answered_403_and_is_in_the_audit_log(
    page_database: Database, asked_by: list[Actor], what: str, duty: str
) -> None:
    asked_by[:] = [Actor(id="nemo", name="Nemo", roles=frozenset())]
    assert _get(what).status_code == 403
    assert _refused(page_database) == [("nemo", {"asked": duty})]


NEXT = [{"id": "0" * 31 + "1", "kind": "next"}]


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Origin": SITE}, True),
        ({"Origin": "http://localhost.example"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
    ],
)
def test_an_action_is_taken_from_a_page_of_this_site_alone(
    page_database: Database, headers: dict[str, str], allowed: bool
) -> None:
    fill(page_database)
    with TestClient(Starlette(routes=routes.ROUTES), base_url=SITE, headers=headers) as client:
        answered = client.post(f"{LIVE}/desk", params={"page": PAGE}, json=NEXT)
    assert answered.status_code == (200 if allowed else 403)
    assert len(claims.my_claims(page_database, LOCAL_USER.at(context.now()))) == allowed


def test_a_question_of_another_site_is_not_answered(page_database: Database) -> None:
    for headers in ({"Origin": "http://other.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert _get("desk", headers=headers).status_code == 403
    assert _get("desk", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[" + b" " * routes.MOST_BYTES])
def test_what_is_no_list_of_actions_does_nothing(page_database: Database, body: bytes) -> None:
    with TestClient(Starlette(routes=routes.ROUTES), base_url=SITE, headers={"Origin": SITE}) as client:
        assert client.post(f"{LIVE}/desk", params={"page": PAGE}, content=body).status_code in (400, 413)


def test_a_role_taken_away_or_a_session_that_ended_ends_the_next_action(
    page_database: Database, asked_by: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    (case_id,) = fill(page_database)
    register(page_database, ANN)
    asked_by[:] = [ANN]
    page = take_next(OpenDesk())
    token = desk(page)["case"]["token"]
    form = {"label": "safe", "certainty": 4}
    saving = [{"id": "0" * 31 + "2", "kind": "save", "case": case_id, "token": token, "form": form}]
    asked_by[:] = [replace(ANN, roles=frozenset({Role.RESEARCHER}))]
    assert _post(saving).status_code == 403

    def ended(*_args: object, **_named: object) -> Actor:
        raise SessionEnded(Ended.IDLE)

    monkeypatch.setattr(routes, "asks_over", ended)
    assert _post(saving).status_code == 401
    assert page_database.value(select(func.count()).select_from(reviews)) == 0


def test_an_answer_that_was_lost_is_told_again_and_the_action_done_once(page_database: Database) -> None:
    first, second = fill(page_database, [Priority.P1, Priority.P2])
    page = OpenDesk()
    going_on = asked(page, "next", case=None)
    page = page.send(going_on)
    read = asked(page, "save", form={"label": "safe", "certainty": 4, "disposition": "none"})
    on = asked(page, "next", case=None)
    before = dict(page.address)
    page = page.send(read, on)
    assert desk(page)["case"]["id"] == second
    page.address = before  # the browser has not heard of it
    page = page.send(read, on)
    assert [each["ok"] for each in page.answers.values()] == [True, True]
    assert desk(page)["case"]["id"] == second and desk(page)["last"]["case"] == first
    assert page_database.value(select(func.count()).select_from(reviews)) == 1


PAGE = "0" * 31 + "a"


@pytest.fixture
def asked_by(monkeypatch: pytest.MonkeyPatch) -> list[Actor]:
    """Who sends the requests: the one in the list, when they send it."""
    found = [LOCAL_USER]
    monkeypatch.setattr(routes, "asks_over", lambda _scope, active: (found[0], lambda who=found[0]: who))
    return found


def _get(what: str, page_id: str = PAGE, headers: dict[str, str] | None = None, **query: str) -> Response:
    with TestClient(Starlette(routes=routes.ROUTES), base_url=SITE) as client:
        return client.get(f"{LIVE}/{what}", params={"page": page_id, **query}, headers=headers)


def _post(actions: list[dict[str, object]]) -> Response:
    with TestClient(Starlette(routes=routes.ROUTES), base_url=SITE, headers={"Origin": SITE}) as client:
        return client.post(f"{LIVE}/desk", params={"page": PAGE}, json=actions)


def _later(monkeypatch: pytest.MonkeyPatch, after: timedelta) -> None:
    moment = context.now() + after
    monkeypatch.setattr(context, "now", lambda: moment)


def test_a_closed_tab_gives_its_case_back_and_a_page_that_lies_open_keeps_it(
    page_database: Database, asked_by: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most urgent case must not wait for a claim to run out behind a tab that is gone."""
    register(page_database, ANN, BO)
    now = context.now()
    (case_id,) = fill(page_database, [Priority.P0], entered_at=[now])

    def waits(who: Actor, page_id: str, case: str = "") -> int:
        asked_by[:] = [who]
        return int(_get("list", page_id, case=case).json()["urgent"])

    take(page_database, ANN, now)
    waits(ANN, "a" * 32, case_id)
    waits(BO, "b" * 32)
    _later(monkeypatch, GONE_AFTER / 2)
    waits(ANN, "c" * 32, case_id)
    _later(monkeypatch, GONE_AFTER * 3 / 4)
    assert waits(BO, "b" * 32) == 0, "the page that was loaded again has it on its desk"
    _later(monkeypatch, GONE_AFTER / 2)
    assert waits(BO, "b" * 32) == 1, "no page has"
    taken = take(page_database, BO, context.now())
    [released] = [event for event in events(page_database, ADMIN) if event.action == "released"]
    assert (released.actor, released.subject) == (ANN.id, case_id)
    told = [note.note for note in notes(page_database, BO.at(context.now()), case_id, taken.token)]
    assert told == [NOTE]


def test_a_case_that_its_reviewer_left_or_took_elsewhere_is_let_alone(page_database: Database) -> None:
    now = context.now()
    first, second = fill(page_database, [Priority.P1, Priority.P2], entered_at=[now] * 2)
    page = open_pages().find(ANN.id, PAGE, lambda: ANN)
    held = take(page_database, ANN, now)
    assert held.case_id == first
    page.asked_at, page.on_desk = now, second  # not theirs
    assert open_pages().give_back(page_database, now + 2 * GONE_AFTER) == 0
    assert [one.case_id for one in claims.my_claims(page_database, ANN.at(now))] == [first]


def test_a_closed_case_is_not_found(db: Database) -> None:
    fill(db, entered=False)
    assert find(db, BOTH.at(NOW), "post-1") == ((), None)


def test_a_page_is_of_its_person_alone(page_database: Database) -> None:
    of_ann = open_pages().find(ANN.id, PAGE, lambda: ANN)
    assert open_pages().find(ANN.id, PAGE, lambda: ANN) is of_ann
    assert open_pages().find(BO.id, PAGE, lambda: BO) is not of_ann


@pytest.mark.parametrize("rows", ["", "-1", "٣", "99999", "1e9", "0"])
def test_an_address_that_asks_for_nonsense_gets_an_ordinary_view(rows: str) -> None:
    assert 1 <= view_of({"rows": rows, "priorities": ",;P7"}).rows <= 8
    assert view_of({"rows": rows, "priorities": ",;P7"}).priorities is None


def test_what_a_filter_hides_of_the_most_urgent_is_counted_and_given_all_the_same(page_database: Database) -> None:
    urgent, calm = fill(page_database, [Priority.P0, Priority.P2])
    by = LOCAL_USER.at(datetime.now(UTC))
    filters = {"no filter": None, "with it": [Priority.P0], "without it": [Priority.P2]}
    hidden = {
        name: snapshot(page_database, by, View(priorities=priorities))["hidden"] for name, priorities in filters.items()
    }
    assert hidden == {"no filter": 0, "with it": 0, "without it": 1}
    page = ask(OpenDesk(priorities="P2"), "urgent", case=None)
    assert desk(page)["case"]["id"] == urgent
    assert snapshot(page_database, by, View(priorities=[Priority.P2]))["hidden"] == 0, "in hand"
    assert desk(take_next(save(page)))["case"]["id"] == calm
