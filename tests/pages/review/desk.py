"""The review app without a browser: what a desk is told, and what its reviewer does there."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from pages.review.routes import ROUTES
from pages.ui.http import LIVE
from storage.clock import new_id
from storage.database import Database
from storage.schema import inbox_entries
from tests.databases import write

SITE = "http://localhost"


class OpenDesk:
    """An open inbox; what is in its address, and the state of its desk."""

    def __init__(self, **address: str) -> None:
        self.address = {"page": new_id(datetime.now(UTC)), **address}
        self.shown: dict[str, Any] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self._client = TestClient(Starlette(routes=ROUTES), base_url=SITE, headers={"Origin": SITE})
        self.look()

    def look(self) -> "OpenDesk":
        """What the browser asks for every few seconds."""
        return self._hear(self._client.get(f"{LIVE}/desk", params=self.address))

    def ask_list(self, **more: str) -> "OpenDesk":
        """What the list beside it asks for every few seconds; with ``left`` as the page's last word."""
        assert self._client.get(f"{LIVE}/list", params=self.address | more).status_code == 200
        return self

    def send(self, *actions: dict[str, Any]) -> "OpenDesk":
        """These together, as the browser does with what waited for the line."""
        return self._hear(self._client.post(f"{LIVE}/desk", params=self.address, json=list(actions)))

    def _hear(self, answer: Any) -> "OpenDesk":
        assert answer.status_code == 200, answer.text
        self.shown = answer.json()
        self.answers = self.shown.pop("answers")
        self.address["case"] = (self.shown.get("case") or {}).get("id", "")
        return self


def desk(page: OpenDesk) -> dict[str, Any]:
    """The state of the desk."""
    return page.shown


def ask(page: OpenDesk, kind: str, act_id: str = "", **body: Any) -> OpenDesk:
    """One action, for the case on the desk and under its lease."""
    return page.look() if kind == "look" else page.send(asked(page, kind, act_id, **body))


UNDER_LEASE = ("save", "skip", "not_me", "hold", "second", "hand_over")


def asked(page: OpenDesk, kind: str, act_id: str = "", **body: Any) -> dict[str, Any]:
    """An action as the browser makes it, for the case on the desk and under its lease."""
    case = desk(page).get("case") or {}
    token = {"token": case["token"]} if kind in UNDER_LEASE and "token" in case else {}
    return {"id": act_id or new_id(datetime.now(UTC)), "kind": kind, "case": case.get("id"), **token, **body}


def answer(page: OpenDesk) -> dict[str, Any]:
    """What was answered last."""
    return list(page.answers.values())[-1]


def take_next(page: OpenDesk) -> OpenDesk:
    """N."""
    return ask(page, "next", case=None)


def unfold(page: AppTest, heading: str) -> AppTest:
    """Press a folded part of the page, found by what its heading says."""
    [panel] = [each for each in page.expander if heading in each.label]
    states = page._tree.get_widget_states()
    pressed = states.widgets.add()
    pressed.id, pressed.bool_value = panel.proto.id, True
    page._run(states)
    assert not page.exception
    return page


def save(page: OpenDesk, label: str = "unsafe", certainty: int = 4, **fields: Any) -> OpenDesk:
    """Ctrl+Enter, and the reveal that the browser asks for after it."""
    page = ask(page, "save", form={"label": label, "certainty": certainty, "disposition": "none", "rev": 1, **fields})
    return ask(page, "reveal") if desk(page)["stage"] == "read" else page


def give_to_bo(db: Database, case_id: str) -> None:
    """As another reviewer's claim after expiry does."""
    theirs = {"assignee": "bo", "lease_token": "other", "assigned_until": datetime.now(UTC) + timedelta(minutes=5)}
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == case_id).values(**theirs))
