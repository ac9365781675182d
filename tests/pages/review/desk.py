"""The review app without a browser: what a desk is told, and what its reviewer does there."""

from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.testclient import TestClient

from pages.review.routes import ROUTES
from pages.ui.http import LIVE
from storage.schema.columns import new_id

SITE = "http://localhost"
UNDER_LEASE = ("save", "skip", "decline", "hold", "second", "hand_over")
GIVEN = {"label": "unsafe", "certainty": 4, "disposition": "none"}


def requests(**headers: str) -> TestClient:
    """What a page of this site sends, or with headers of its own another one."""
    return TestClient(Starlette(routes=ROUTES), base_url=SITE, headers=headers or {"Origin": SITE})


class OpenDesk:
    """An open inbox; what is in its address, and the state of its desk: ``page["stage"]``."""

    def __init__(self, **address: str) -> None:
        self.address = {"page": new_id(datetime.now(UTC)), **address}
        self.told: dict[str, Any] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self._client = requests()
        self.look()

    def __getitem__(self, name: str) -> Any:
        return self.told[name]

    @property
    def answer(self) -> dict[str, Any]:
        return list(self.answers.values())[-1]

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
        self.told = answer.json()
        self.answers = self.told.pop("answers")
        self.address["case"] = (self.told.get("case") or {}).get("id", "")
        return self

    def asked(self, kind: str, act_id: str = "", **body: Any) -> dict[str, Any]:
        """An action as the browser makes it, for the case on the desk and under its lease."""
        case = self.told.get("case") or {}
        token = {"token": case["token"]} if kind in UNDER_LEASE and "token" in case else {}
        return {"id": act_id or new_id(datetime.now(UTC)), "kind": kind, "case": case.get("id"), **token, **body}

    def ask(self, kind: str, act_id: str = "", **body: Any) -> "OpenDesk":
        return self.send(self.asked(kind, act_id, **body))

    def take_next(self) -> "OpenDesk":
        return self.ask("next", case=None)

    def save(self, label: str = "unsafe", certainty: int = 4, **fields: Any) -> "OpenDesk":
        """Ctrl+Enter, and the reveal that the browser asks for after it."""
        self.ask("save", form=GIVEN | {"label": label, "certainty": certainty, "rev": 1, **fields})
        return self.ask("reveal") if self["stage"] == "read" else self
