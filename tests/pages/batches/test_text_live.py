"""What a page that watches a text is told between its runs: what changed, to whoever handed the text in alone."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update
from starlette.applications import Starlette
from starlette.testclient import TestClient

from jobs.agents import Agents
from jobs.intake import configuration
from pages.batches.single_text import Typed, hand_in
from pages.batches.text_live import GOOD_FOR_S, ROUTE, SEEN_EVERY_S, parts_of, seats
from pages.ui import context
from pages.ui.live import Seat
from screening.engine.pipeline import preset
from screening.review.actors import LOCAL_USER, Actor
from screening.settings import Settings
from storage.audit_log import events
from storage.batches import live, single_texts
from storage.database import Database
from storage.schema import live_runs
from storage.site import heartbeats
from storage.site.accounts import Ended, SessionEnded
from tests.pages.conftest import Opener
from tests.pages.working import work
from tests.storage.inbox_cases import ADMIN, ANN
from tests.storage.statements import statements

PLACES = re.compile(r'class="(?:sl-live )?(sl-status|sl-budget|sl-dag|sl-node)"')


@pytest.fixture
def case_id(page_database: Database) -> str:
    """A text that waits for its draws."""
    return _hand_in(page_database, "A canary <b>sang</b>.")


def _hand_in(db: Database, text: str) -> str:
    settings = Settings(_env_file=None, sampler="simulated")
    kept = configuration(settings, Agents(settings), preset("recommended"))
    return hand_in(db, LOCAL_USER.at(datetime.now(UTC)), Typed(text=text), kept, settings)


@pytest.fixture
def client() -> TestClient:
    """A browser without a sign-in."""
    return TestClient(Starlette(routes=[ROUTE]))


def _seat(case_id: str, who: Actor = LOCAL_USER, browser: str = "") -> Seat:
    return Seat(browser=browser, who=lambda: who, case_id=case_id)


def _draw(db: Database, case_id: str, node: str, codes: str) -> None:
    live.update_live(db, case_id, node, "main", codes, datetime.now(UTC))


def _have(page) -> tuple[str, str]:
    """Where the page's browser asks, and what it says that it has."""
    (component,) = (each.proto for each in page.get("bidi_component") if each.proto.component_name.endswith(".live"))
    given = json.loads(component.json)[0]
    return given["address"], given["have"]


def test_a_page_is_told_what_changed_since_it_was_drawn_and_nothing_twice(
    open_page: Opener, page_database: Database, case_id: str, client: TestClient
) -> None:
    page = open_page("screen", case=case_id)
    drawn = " ".join(element.proto.body for element in page.get("html"))
    assert PLACES.findall(drawn) == ["sl-status", "sl-budget", "sl-dag", "sl-node", "sl-node", "sl-node"]
    address, have = _have(page)
    _draw(page_database, case_id, "worker", "SE")
    told = client.get(address, params={"have": have}).json()
    assert sorted(told["parts"]) == ["1", "2", "3"]  # the budget, the diagram, the first agent's row
    assert all(PLACES.findall(part) == [name] for part, name in zip(
        told["parts"].values(), ["sl-budget", "sl-dag", "sl-node"], strict=True
    ))  # fmt: skip
    assert "2 of ≤ 100 calls" in told["parts"]["2"] and "canary" not in json.dumps(told)
    again = client.get(address, params={"have": told["have"]})
    assert again.status_code == 204 or set(again.json()["parts"]) == {"1"}  # where a second more has gone by


def test_what_did_not_change_is_a_tiny_answer(case_id: str, client: TestClient, monkeypatch) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr("pages.ui.context.now", lambda: now)
    address = seats().take(_seat(case_id))
    assert client.get(address).json() == {"again": True}  # it has nothing: the page is to be drawn
    have = ",".join(["0"] * 7)
    first = client.get(address, params={"have": have}).json()
    assert first == {"again": True}, "what lasts is not what it has"
    lasting = _lasting(case_id, now)
    told = client.get(address, params={"have": ",".join([lasting, *["0"] * 6])}).json()
    assert len(told["parts"]) == 6
    unchanged = client.get(address, params={"have": told["have"]})
    assert (unchanged.status_code, unchanged.content) == (204, b"")
    assert unchanged.headers["cache-control"] == "no-store"


def _lasting(case_id: str, now: datetime) -> str:
    return parts_of(single_texts.look(context.database(), LOCAL_USER, case_id), LOCAL_USER.at(now))[0][0]


def test_that_no_worker_answers_is_said_within_seconds_with_the_last_sign_of_life(
    open_page: Opener, page_database: Database, case_id: str, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
    monkeypatch.setattr("pages.ui.context.now", lambda: now)
    monkeypatch.setattr("pages.batches.text_live.monotonic", lambda: now.timestamp())
    now = began
    heartbeats.beat(page_database, "one", "worker", now)
    _draw(page_database, case_id, "worker", "SE")
    address, have = _have(page := open_page("screen", case=case_id))
    now = began + timedelta(seconds=11)
    assert "No worker" not in str(client.get(address, params={"have": have}).content)
    now = began + timedelta(seconds=14)
    said = client.get(address, params={"have": have}).json()["parts"]["0"]
    assert "No worker is answering" in said and "The last sign of life came at 09:00 UTC." in said
    assert "kept, undecided" in said and "Asking" not in said
    heartbeats.beat(page_database, "two", "worker", now)
    now += timedelta(seconds=3)
    assert "No worker is answering" not in " ".join(element.proto.body for element in page.run().get("html"))
    heartbeats.end(page_database, "two")
    heartbeats.end(page_database, "one")
    now += timedelta(seconds=3)
    assert "None is running." in client.get(address, params={"have": have}).json()["parts"]["0"]


def test_that_no_answer_comes_is_said_with_the_moment_of_the_last(page_database: Database, case_id: str) -> None:
    began = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
    live.update_live(page_database, case_id, "worker", "main", "SE", began)

    def said(seconds: float) -> str:
        now = began + timedelta(seconds=seconds)
        heartbeats.beat(page_database, "one", "worker", now)
        return parts_of(single_texts.look(page_database, LOCAL_USER, case_id), LOCAL_USER.at(now))[1][0]

    assert "Asking the agents" in said(9) and "No answer" not in said(9)
    assert "No answer has come since 09:00 UTC" in said(11) == said(15)
    live.record_viewers(page_database, [case_id], began + timedelta(seconds=16))
    assert said(17) == said(11), "that somebody watches is no answer"
    live.update_live(page_database, case_id, "worker", "main", "SES", began + timedelta(seconds=18))
    assert "No answer" not in said(19)


def test_what_has_ended_is_left_to_the_page(page_database: Database, case_id: str, client: TestClient) -> None:
    address = seats().take(_seat(case_id))
    work(page_database)
    told = client.get(address)
    assert told.json() == {"again": True}
    gone = seats().take(_seat("0" * 32))
    assert client.get(gone).json() == {"again": True}


def test_a_second_look_is_a_row_more_which_the_page_draws(
    open_page: Opener, page_database: Database, case_id: str, client: TestClient
) -> None:
    address, have = _have(open_page("screen", case=case_id))
    live.update_live(page_database, case_id, "worker", "second_look", "S", datetime.now(UTC))
    assert client.get(address, params={"have": have}).json() == {"again": True}


def test_strangers_are_refused(case_id: str, client: TestClient) -> None:
    other = seats().take(_seat(case_id, browser="another browser"))
    for address in (other, f"{ROUTE.path.rpartition('/')[0]}/made-up"):
        answer = client.get(address)
        assert answer.status_code == 404 and "sl-" not in answer.text

    def over() -> Actor:
        raise SessionEnded(Ended.SIGNED_OUT)

    ended = seats().take(Seat(browser="", who=over, case_id=case_id))
    assert client.get(ended).status_code == 401


@pytest.mark.parametrize(
    "who",
    [ANN, ADMIN, Actor(id=LOCAL_USER.id, name="No role", roles=frozenset())],
    ids=["who is to read it blind", "an administrator", "who has lost the role"],
)
def test_nobody_else_is_shown_anything_of_a_text_and_the_refusal_is_kept(
    page_database: Database, case_id: str, client: TestClient, who: Actor
) -> None:
    _draw(page_database, case_id, "worker", "UUUU")
    before = _seen(page_database, case_id)
    answer = client.get(seats().take(_seat(case_id, who)))
    assert answer.status_code == 403
    assert not re.search("unsafe|escalate|sl-", answer.text)
    assert _seen(page_database, case_id) == before, "who may not look keeps nothing going"
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert [(event.actor, event.subject) for event in refused] == [(who.id, case_id)]


def test_whoever_asks_at_nearly_the_same_time_shares_one_look_and_sees_no_older_draws(
    page_database: Database, case_id: str, client: TestClient, clock: list[float]
) -> None:
    pages = [seats().take(_seat(case_id)) for _ in range(3)]
    have = ",".join([_lasting(case_id, datetime.now(UTC)), *["0"] * 6])
    client.get(pages[0], params={"have": have})
    _draw(page_database, case_id, "worker", "SE")
    with statements() as sent:
        told = [client.get(page, params={"have": have}).json() for page in pages]
        assert told[0] == told[1] == told[2] and not sent
    assert "2 of ≤" not in told[0]["parts"]["2"]
    clock[0] += GOOD_FOR_S
    assert "2 of ≤ 100 calls" in client.get(pages[0], params={"have": have}).json()["parts"]["2"]


def test_an_answer_is_compressed_for_those_who_take_it_and_says_the_same(case_id: str, client: TestClient) -> None:
    page, have = seats().take(_seat(case_id)), ",".join([_lasting(case_id, datetime.now(UTC)), *["0"] * 6])
    packed = client.get(page, params={"have": have}, headers={"accept-encoding": "gzip"})
    plain = client.get(page, params={"have": have}, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert packed.json() == plain.json() and int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


def test_it_is_written_down_every_two_seconds_which_texts_are_watched(
    page_database: Database, case_id: str, client: TestClient, clock: list[float]
) -> None:
    address = seats().take(_seat(case_id))
    first = _aged(page_database, case_id)
    client.get(address)
    second = _seen(page_database, case_id)
    assert second > first
    client.get(address)
    assert _seen(page_database, case_id) == second
    clock[0] += SEEN_EVERY_S
    client.get(address)
    assert _seen(page_database, case_id) > second


def test_whose_watching_ended_is_not_kept_going_by_others(
    page_database: Database, case_id: str, client: TestClient, clock: list[float]
) -> None:
    other = _hand_in(page_database, "Another.")
    pages = {each: seats().take(_seat(each)) for each in (case_id, other)}
    for page in pages.values():
        client.get(page)
    single_texts.stop(page_database, LOCAL_USER.at(datetime.now(UTC)), case_id)
    left, watched = _seen(page_database, case_id), _aged(page_database, other)
    clock[0] += SEEN_EVERY_S
    client.get(pages[other])
    assert _seen(page_database, case_id) == left and _seen(page_database, other) > watched


def test_who_asks_seldom_over_a_bad_line_is_written_down_beside_those_who_ask_often(
    page_database: Database, case_id: str, client: TestClient, clock: list[float]
) -> None:
    other = _hand_in(page_database, "Another.")
    often, seldom = (seats().take(_seat(each)) for each in (other, case_id))
    live.record_viewer(page_database, case_id, datetime.now(UTC))
    before = _aged(page_database, case_id)
    client.get(often)
    client.get(seldom)
    clock[0] += 2 * SEEN_EVERY_S
    client.get(often)
    assert _seen(page_database, case_id) > before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The process's clock, which stands still until it is put forward."""
    at = [1_000.0]
    monkeypatch.setattr("pages.batches.text_live.monotonic", lambda: at[0])
    return at


def _aged(db: Database, case_id: str) -> datetime:
    """As if it had last been watched a minute ago."""
    with db.write() as conn:
        long_ago = datetime.now(UTC) - timedelta(minutes=1)
        conn.execute(update(live_runs).where(live_runs.c.case_id == case_id).values(viewer_seen_at=long_ago))
    return _seen(db, case_id)


def _seen(db: Database, case_id: str) -> datetime:
    return db.value(select(live_runs.c.viewer_seen_at).where(live_runs.c.case_id == case_id))
