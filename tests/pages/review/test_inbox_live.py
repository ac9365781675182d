"""What an open inbox is told: counts, late ones, the list its reader may see, and only to the browser it is in."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pages.review.inbox_desk import Here
from pages.review.inbox_live import GONE_AFTER, NOTE, ROUTE, OpenInbox, View, closed_pages, seats, snapshot, view_of
from pages.review.inbox_queue import act, offer
from pages.ui import context
from pages.ui.live import Seat, Seats
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import TARGETS, Tier
from storage.audit_log import events
from storage.database import Database
from storage.review import claims, inbox, search
from storage.review.drafts import notes
from storage.review.queue import Sort
from storage.review.search import find
from storage.schema import batches, cases
from storage.settings_store import SiteSettings
from tests.databases import write
from tests.pages.conftest import Opener
from tests.pages.review.desk import ask, desk, save, take_next
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, read, register, take

BOTH = Actor(id="both", name="Both", roles=frozenset({Role.REVIEWER, Role.SENIOR}))


def _refused(db: Database) -> list[tuple[str, object]]:
    return [(event.actor, event.details) for event in events(db, ADMIN) if event.action == "refused"]


def test_it_counts_what_waits_and_what_is_late_and_names_no_text(db: Database) -> None:
    ids = fill(db, [Tier.P0, Tier.P1, Tier.P3])
    write(db, update(cases).where(cases.c.id == ids[2]).values(external_id="<b>\u202e[x](http://out.example)"))
    told = snapshot(db, SENIOR.at(NOW + TARGETS[Tier.P0] + MINUTE), View())
    assert (told["waits"], told["urgent"], told["late"]) == (3, 2, "1 overdue")
    assert [(pill["open"], pill["late"]) for pill in told["pills"]] == [(1, "1 overdue"), (1, ""), (0, ""), (1, "")]
    first, _, last = told["rows"]
    assert (first["id"], first["late"], first["left"], first["meaning"]) == (ids[0], True, "overdue 1 min", "Immediate")
    assert "\u202e" not in last["name"] and "canary" not in json.dumps(told)


def test_what_a_person_has_read_is_counted_from_the_midnight_that_is_named(db: Database) -> None:
    """Their own midnight may be another: the words say which."""
    evening, night, morning = (NOW.replace(hour=23, minute=59), NOW + timedelta(hours=15), NOW + timedelta(hours=20))
    fill(db, [Tier.P3] * 2)
    read(db, ANN, form("safe"), "a", evening)
    told = snapshot(db, ANN.at(evening), View())
    assert (told["done"], told["read"]) == (1, "You have reviewed 1 case today")
    told = snapshot(db, ANN.at(night), View())
    assert (told["done"], told["read"]) == (0, "You have reviewed 0 cases today")
    read(db, ANN, form("safe"), "b", night)
    elsewhere = morning.astimezone(ZoneInfo("America/New_York"))
    assert snapshot(db, ANN.at(elsewhere), View())["done"] == 1


def test_a_new_p0_case_moves_the_mark_on_and_nothing_else_does(db: Database) -> None:
    fill(db, [Tier.P1])
    assert snapshot(db, ANN.at(NOW), View())["newest"] is None
    fill(db, [Tier.P0], entered_at=[NOW])
    first = snapshot(db, ANN.at(NOW), View())["newest"]
    fill(db, [Tier.P1, Tier.P0], entered_at=[NOW, NOW + MINUTE])
    assert snapshot(db, ANN.at(NOW), View())["newest"] == first + 60


def test_a_p0_case_is_said_as_long_as_this_person_may_take_it(db: Database) -> None:
    came = "▲▲ A P0 case has come in"
    fill(db, [Tier.P0, Tier.P3])
    assert snapshot(db, ANN.at(NOW), View())["p0"] == f"{came}: take the next case."
    assert snapshot(db, ANN.at(NOW), View(tiers=[Tier.P3]))["p0"] == f"{came}, outside your filter."
    assert snapshot(db, ADMIN.at(NOW), View())["p0"] == f"{came}."
    claims.claim_next(db, ANN.at(NOW))
    assert snapshot(db, ANN.at(NOW), View())["p0"] == snapshot(db, BO.at(NOW), View())["p0"] == ""


def test_a_reader_sees_only_what_is_set_aside_for_them_and_a_researcher_no_list(db: Database) -> None:
    _first, second = fill(db, [Tier.P1, Tier.P3])
    claim = claims.claim(db, SENIOR.at(NOW), second)
    from_senior = inbox.hold(db, SENIOR.at(NOW), second, claim.token, "later")
    assert from_senior > NOW
    assert snapshot(db, ANN.at(NOW), View())["rows"] == []
    assert [row["id"] for row in snapshot(db, SENIOR.at(NOW), View())["rows"]][-1] == second
    assert snapshot(db, RESEARCHER.at(NOW), View())["rows"] == []
    assert not any(row["free"] for row in snapshot(db, ADMIN.at(NOW), View())["rows"])


def test_the_list_says_8_of_12_and_a_filter_narrows_it(db: Database) -> None:
    fill(db, [Tier.P1] * 3 + [Tier.P3] * 9)
    told = snapshot(db, BOTH.at(NOW), View())
    assert (len(told["rows"]), told["of"]) == (8, 12)
    assert snapshot(db, BOTH.at(NOW), View(tiers=[Tier.P1]))["of"] == 3
    assert len(snapshot(db, BOTH.at(NOW), View(rows=40))["rows"]) == 12


def test_cases_are_found_by_id_group_and_batch(db: Database) -> None:
    first, second = fill(db, [Tier.P3, Tier.P1])
    (other,) = fill(db, [Tier.P2])
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == other).values(group_name="forum_7", external_id="100%"))
        batch = cases.c.batch_id
        of_other = conn.execute(cases.select().with_only_columns(batch).where(cases.c.id == other)).scalar_one()
        conn.execute(update(batches).where(batches.c.id == of_other).values(name="Night_shift.csv"))

    def found(words: str) -> list[str]:
        return [each.case_id for each in find(db, BOTH.at(NOW), words).cases]

    assert found("post-2") == [second] and found("post-") == [second, first]
    assert found(first) == [first]
    assert (found("forum_"), found("night_SHIFT"), found("100%")) == ([other], [other], [other])
    assert found("forumx") == found("%") == found("Night-shift") == found(" ") == found("canary") == []
    assert [each.case_id for each in find(db, BOTH.at(NOW), "post", tiers=[Tier.P1]).cases] == [second]
    with pytest.raises(Forbidden):
        find(db, ANN.at(NOW), "post-2")


def test_words_of_a_text_are_looked_for_where_asked_and_where_the_role_may_read(db: Database) -> None:
    first, second = fill(db, [Tier.P3, Tier.P1])
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == first).values(text="The Bridge at night, 100% sure"))
        conn.execute(update(cases).where(cases.c.id == second).values(text="day", reply="Which bridge, by night?"))

    def found(words: str, *, texts: bool = True) -> list[str]:
        return [each.case_id for each in find(db, BOTH.at(NOW), words, texts=texts).cases]

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
    _, bridge, chinese = fill(db, [Tier.P0, Tier.P1, Tier.P2])
    with db.write() as conn:
        for case_id, text in ((bridge, "The Bridge at night"), (chinese, "我今晚想自杀")):
            conn.execute(update(cases).where(cases.c.id == case_id).values(text=text, model_text=None))

    def found(words: str) -> tuple[list[str], int | None]:
        cases_found, texts_read = find(db, BOTH.at(NOW), words, texts=True)
        return [each.case_id for each in cases_found], texts_read

    assert found("杀") == ([chinese], None) and found("ridges") == ([], None)
    monkeypatch.setattr(search, "FIRST_READ", 2)
    assert found("ridge") == ([bridge], 2) and found("杀") == ([], 2)


@pytest.mark.parametrize("words", ["", "post"])
def test_the_list_is_sorted_as_asked_inside_a_filter_too(db: Database, words: str) -> None:
    tiers = [Tier.P3, Tier.P0, Tier.P1, Tier.P3]
    ids = fill(db, tiers, entered_at=[NOW + n * MINUTE for n in (0, 2, 1, 3)])
    oldest, middle, urgent, newest = ids[0], ids[2], ids[1], ids[3]

    def order(sort: Sort, chosen: list[Tier] | None = None) -> list[str]:
        view = View(tiers=chosen, sort=sort, find=words)
        return [row["id"] for row in snapshot(db, BOTH.at(NOW), view)["rows"]]

    assert order(Sort.LONGEST) == [oldest, middle, urgent, newest]
    assert order(Sort.NEWEST) == [newest, urgent, middle, oldest]
    assert order(Sort.URGENT) == [urgent, middle, oldest, newest]
    assert order(Sort.NEWEST, [Tier.P0, Tier.P3]) == [newest, urgent, oldest]


def test_whatever_a_browser_asks_of_the_list_is_answered_in_words(db: Database) -> None:
    register(db, BO)
    (case_id,) = fill(db, [Tier.P2])
    here = Here(db=db, person=BOTH, site=SiteSettings(), now=NOW)
    assert offer(here)["colleagues"] == [["bo", "Bo"]]
    assert act(here, {"kind": "assign", "to": "bo", "cases": [case_id]}) == "1 case is reserved for them."
    for nonsense in (None, [], {"kind": "drop"}, {"kind": "assign", "to": "bo", "cases": "all"}, {"kind": "keep"}):
        assert act(here, nonsense)
    readers = Here(db=db, person=ANN, site=SiteSettings(), now=NOW)
    assert offer(readers)["colleagues"] == [] and offer(readers)["may_search_texts"] is False
    assert act(readers, {"kind": "assign", "to": "bo", "cases": [case_id]}) == "Your role does not let you do this."
    assert _refused(db) == [(ANN.id, {"asked": "assign"})]


def test_an_open_inbox_that_is_refused_is_answered_403_and_is_in_the_audit_log(page_database: Database) -> None:
    nobody = Actor(id="nemo", name="Nemo", roles=frozenset())
    address = seats().take(OpenInbox(browser="", who=lambda: nobody))
    with TestClient(Starlette(routes=[ROUTE])) as client:
        assert client.get(address).status_code == 403
    assert _refused(page_database) == [(nobody.id, {"asked": "view_counts"})]


def _ask(address: str, **query: str) -> dict[str, object]:
    with TestClient(Starlette(routes=[ROUTE])) as client:
        answer = client.get(address, params=query)
        assert answer.status_code == 200
        return dict(answer.json())


def _later(monkeypatch: pytest.MonkeyPatch, after: timedelta) -> None:
    moment = context.now() + after
    monkeypatch.setattr(context, "now", lambda: moment)


def test_a_closed_tab_gives_its_case_back_and_a_page_that_lies_open_keeps_it(
    page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most urgent case must not wait for a claim to run out behind a tab that is gone."""
    register(page_database, ANN, BO)
    now = context.now()
    (case_id,) = fill(page_database, [Tier.P0], entered_at=[now])
    of_ann, reloaded, of_bo = (seats().take(OpenInbox(browser="", who=lambda who=who: who)) for who in (ANN, ANN, BO))  # type: ignore[misc]
    take(page_database, ANN, now)
    for address in (of_ann, of_bo):
        _ask(address, case=case_id if address == of_ann else "")
    _later(monkeypatch, GONE_AFTER / 2)
    _ask(reloaded, case=case_id)
    _later(monkeypatch, GONE_AFTER * 3 / 4)
    assert _ask(of_bo)["urgent"] == 0, "the page that was loaded again has it on its desk"
    _later(monkeypatch, GONE_AFTER / 2)
    assert _ask(of_bo)["urgent"] == 1, "no page has"
    taken = take(page_database, BO, context.now())
    [released] = [event for event in events(page_database, ADMIN) if event.action == "released"]
    assert (released.actor, released.subject) == (ANN.id, case_id)
    told = [note.note for note in notes(page_database, BO.at(context.now()), case_id, taken.token)]
    assert told == [NOTE]


def test_a_case_that_its_reader_left_or_took_elsewhere_is_let_alone(page_database: Database) -> None:
    now = context.now()
    first, second = fill(page_database, [Tier.P1, Tier.P2], entered_at=[now] * 2)
    seat = OpenInbox(browser="", who=lambda: ANN)
    seats().take(seat)
    held = take(page_database, ANN, now)
    assert held.case_id == first
    seat.asks(now, ANN.id, second)  # not theirs
    assert closed_pages().give_back(page_database, seats(), now + 2 * GONE_AFTER) == 0
    assert [one.case_id for one in claims.my_claims(page_database, ANN.at(now))] == [first]


def test_a_closed_case_is_not_found(db: Database) -> None:
    fill(db, entered=False)
    assert find(db, BOTH.at(NOW), "post-1") == ((), None)


def test_a_seat_is_good_for_its_browser_and_the_oldest_is_forgotten() -> None:
    seats = Seats[Seat]("/_live", most=2)
    addresses = [seats.take(Seat(browser="one", who=lambda: ANN)) for _ in range(3)]
    tokens = [address.rpartition("/")[2] for address in addresses]
    assert seats.find(tokens[0], "one") is None
    assert seats.find(tokens[2], "another") is None
    assert seats.find(tokens[2], "one") is not None


@pytest.mark.parametrize("rows", ["", "-1", "٣", "99999", "1e9", "0"])
def test_an_address_that_asks_for_nonsense_gets_an_ordinary_view(rows: str) -> None:
    assert 1 <= view_of({"rows": rows, "tiers": ",;P7"}).rows <= 8
    assert view_of({"rows": rows, "tiers": ",;P7"}).tiers is None


def test_what_a_filter_hides_of_the_most_urgent_is_counted_and_given_all_the_same(
    open_page: Opener, page_database: Database
) -> None:
    urgent, calm = fill(page_database, [Tier.P0, Tier.P2])
    by = LOCAL_USER.at(datetime.now(UTC))
    hidden = {name: snapshot(page_database, by, View(tiers=tiers))["hidden"] for name, tiers in (
        ("no filter", None), ("with it", [Tier.P0]), ("without it", [Tier.P2]))}  # fmt: skip
    assert hidden == {"no filter": 0, "with it": 0, "without it": 1}
    page = ask(open_page("inbox", tiers="P2"), "urgent", case=None)
    assert desk(page)["case"]["id"] == urgent
    assert snapshot(page_database, by, View(tiers=[Tier.P2]))["hidden"] == 0, "in hand"
    assert desk(take_next(save(page)))["case"]["id"] == calm
