"""The desk's component without a browser: what it is given to show, and what it asks for."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from storage.database import Database
from storage.identifiers import new_id
from storage.schema import inbox_entries
from tests.databases import write


def _desks(page: AppTest) -> list[Any]:
    """The desk's component, none of the others."""
    return [each for each in page.get("bidi_component") if each.proto.component_name.endswith(".desk")]


def has_desk(page: AppTest) -> bool:
    """Whether the page has one."""
    return bool(_desks(page))


def _component(page: AppTest) -> Any:
    [found] = _desks(page)
    return found.proto


def desk(page: AppTest) -> dict[str, Any]:
    """What the component was given."""
    shown: dict[str, Any] = json.loads(_component(page).json)[0]
    return shown


def ask(page: AppTest, kind: str, request_id: str = "", **body: Any) -> AppTest:
    """Send one request as the component does, for the case on the desk and under its lease."""
    return send(page, asked(page, kind, request_id, **body))


def asked(page: AppTest, kind: str, request_id: str = "", **body: Any) -> dict[str, Any]:
    """A request as the component makes it, for the case on the desk and under its lease."""
    case = desk(page).get("case") or {}
    given = {"case": case.get("id"), **({"token": case["token"]} if "token" in case else {}), **body}
    return {"id": request_id or new_id(datetime.now(UTC)), "kind": kind, **given}


def send(page: AppTest, *requests: dict[str, Any]) -> AppTest:
    """Send these together, as the component does with what waited for the line."""
    states = page._tree.get_widget_states()
    trigger = states.widgets.add()
    trigger.id = f"$$STREAMLIT_INTERNAL_KEY_{_component(page).id}__events"
    trigger.json_trigger_value = json.dumps({"event": "requests", "value": list(requests)})
    page._run(states)
    assert not page.exception
    return page


def answer(page: AppTest) -> dict[str, Any]:
    """What was answered last."""
    answers = desk(page)["answers"]
    found: dict[str, Any] = answers[list(answers)[-1]]
    return found


def take_next(page: AppTest) -> AppTest:
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


def save(page: AppTest, label: str = "unsafe", certainty: int = 4, **fields: Any) -> AppTest:
    """Ctrl+Enter, and the reveal that the component asks for after it."""
    page = ask(page, "save", form={"label": label, "certainty": certainty, "disposition": "none", "rev": 1, **fields})
    return ask(page, "reveal") if desk(page)["stage"] == "read" else page


def give_to_bo(db: Database, case_id: str) -> None:
    """As another reader's claim after expiry does."""
    theirs = {"assignee": "bo", "lease_token": "other", "assigned_until": datetime.now(UTC) + timedelta(minutes=5)}
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == case_id).values(**theirs))
