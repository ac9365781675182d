"""The left of the inbox as values for the browser: how many wait, the priorities, the list for those who may browse."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pages.review.inbox_words import (
    PRIORITY_MARKS,
    PRIORITY_MEANINGS,
    counts_words,
    due_words,
    late_words,
    list_name,
    read_words,
    state_words,
    waiting_words,
    why_words,
)
from pages.ui.format import duration, last_midnight, local_time
from pages.ui.shell import standstill_lines
from pages.ui.widgets import unique_labels
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, is_allowed
from screening.review.triage import Priority
from screening.text.display import visible
from storage.database import Database
from storage.review import reports
from storage.review.adjudication import disagreements
from storage.review.queue import Counts, Sort, State, Waiting, counts, queue, reserved_cases, sort_of
from storage.review.search import LONGEST, find
from storage.site.accounts import colleagues

FEW_ROWS, MOST_ROWS = 8, 200
LONGEST_ID = 32
URGENT = (Priority.P0, Priority.P1)
_TAKEABLE = (State.FREE, State.MINE, State.SKIPPED, State.RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What of the queue is looked at: ``priorities`` None is all, ``rows`` how many lines, ``find`` what names a case
    or, with ``texts``, stands in its text.
    """

    priorities: Collection[Priority] | None = None
    rows: int = FEW_ROWS
    find: str = ""
    texts: bool = False
    sort: Sort = Sort.URGENT
    batch: str | None = None


def snapshot(db: Database, by: Acting, view: View) -> Mapping[str, Any]:
    """Counts and list as this person may see them. Never any of a text."""
    found = counts(db, by, view.priorities, view.batch)
    read = reports.count_cases_read(db, by.actor, last_midnight(by.now))
    return {
        "at": local_time(by.now, by.now),
        "words": counts_words(found),
        "empty": waiting_words(found),
        "still": standstill_lines(db, by.now),
        "waits": found.open,
        "urgent": sum(found.open_by_priority[priority] for priority in URGENT) - _taken_count(found),
        "hidden": _hidden_p0(found),
        "p0": _p0_words(by.actor, found),
        "newest": None if found.newest_urgent is None else found.newest_urgent.timestamp(),
        "done": read,
        "read": read_words(read),
        "late": late_words(sum(found.late_by_priority.values())),
        "pills": [_pill(found, priority, view.priorities) for priority in Priority],
        **_rows(db, by, view, found),
        **_disputed_cases(db, by, found),
    }


def _taken_count(found: Counts) -> int:
    """P0 and P1 cases that are not waiting for this person: in other hands, read by them, or on hold."""
    return sum(found.kept_by_priority[priority] for priority in URGENT)


def _hidden_p0(found: Counts) -> int:
    """P0 cases that this person could be given and that their filter, of priorities or of one upload, leaves out."""
    return (
        found.open_by_priority[Priority.P0] - found.kept_by_priority[Priority.P0] - found.free_by_priority[Priority.P0]
    )


def _p0_words(actor: Actor, found: Counts) -> str:
    """What is said of a P0 case that has come in; empty while none is free for this person."""
    if found.open_by_priority[Priority.P0] == found.kept_by_priority[Priority.P0]:
        return ""
    came = f"{PRIORITY_MARKS[Priority.P0]} A P0 case has come in"
    if not is_allowed(actor, Action.CLAIM_NEXT):
        return f"{came}."
    return f"{came}: take the next case." if found.free_by_priority[Priority.P0] else f"{came}, outside your filter."


def _pill(found: Counts, priority: Priority, chosen: Collection[Priority] | None) -> Mapping[str, Any]:
    return {
        "priority": priority.name,
        "mark": PRIORITY_MARKS[priority],
        "meaning": PRIORITY_MEANINGS[priority],
        "open": found.open_by_priority[priority],
        "late": late_words(found.late_by_priority[priority]),
        "on": chosen is not None and priority in chosen,
    }


def _rows(db: Database, by: Acting, view: View, found: Counts) -> Mapping[str, Any]:
    browse = is_allowed(by.actor, Action.BROWSE_QUEUE)
    texts_read = None
    if browse and view.find:
        texts = view.texts and is_allowed(by.actor, Action.VIEW_TEXT)
        waiting, texts_read = find(
            db, by, view.find, texts=texts, priorities=view.priorities, sort=view.sort, limit=MOST_ROWS
        )
        of = len(waiting)
    elif browse:
        waiting = queue(db, by, view.priorities, limit=view.rows, sort=view.sort, batch=view.batch)
        of = found.open - found.outside_filter
    else:
        waiting = reserved_cases(db, by) if is_allowed(by.actor, Action.CLAIM_NEXT) else ()
        of = len(waiting)
    named = is_allowed(by.actor, Action.CLAIM_NAMED, by.id)
    rows = [_row(row, by.now, named=named) for row in waiting[: view.rows]]
    return {"browse": browse, "rows": rows, "of": of, "texts_read": texts_read}


def _row(row: Waiting, now: datetime, *, named: bool) -> Mapping[str, Any]:
    return {
        "id": row.case_id,
        "name": list_name(row.external_id, row.case_id),
        "priority": row.priority.name,
        "mark": PRIORITY_MARKS[row.priority],
        "meaning": PRIORITY_MEANINGS[row.priority],
        "left": due_words(row.due_at, now),
        "late": row.due_at <= now,
        "why": why_words(row.why),
        "age": f"{duration(now - row.entered_at, least=60)} in queue",
        "state": state_words(row.state),
        "mine": row.state is State.MINE,
        "free": named and row.state in _TAKEABLE,
    }


def _disputed_cases(db: Database, by: Acting, found: Counts) -> Mapping[str, Any]:
    """Cases on which two reviewers disagree, for whoever decides them: each with the address of its page."""
    if not found.disputed or not is_allowed(by.actor, Action.ADJUDICATE):
        return {"disputed": []}
    return {
        "disputed": [
            {
                "href": f"/case?case={each.case_id}",
                "name": list_name(each.external_id, each.case_id),
                "priority": Priority(each.priority).name,
                "left": due_words(each.due_at, by.now),
                "mine": bool(each.read_by_me),
            }
            for each in disagreements(db, by.actor, limit=5)
        ]
    }


def view_of(query: Mapping[str, str]) -> View:
    """What an address asks to see; whatever cannot be read is as if it were not there.

    >>> view_of({"priorities": "P0,P9", "rows": "many"})
    View(priorities=[<Priority.P0: 0>], rows=8, find='', texts=False, sort=<Sort.URGENT: 'urgent'>, batch=None)
    """
    priorities = [Priority[name] for name in query.get("priorities", "").split(",") if name in Priority.__members__]
    rows = query.get("rows", "")
    wanted = int(rows) if rows.isascii() and rows.isdigit() and len(rows) < 5 else FEW_ROWS
    return View(
        priorities=priorities or None,
        rows=max(1, min(wanted, MOST_ROWS)),
        find=query.get("find", "")[:LONGEST],
        texts=query.get("texts") == "1",
        sort=sort_of(query.get("sort", "")),
        batch=query.get("batch", "")[:LONGEST_ID] or None,
    )


def offer(db: Database, person: Actor) -> dict[str, Any]:
    """What this person may do with the list beside opening a case: whom they may give cases to, search in texts."""
    giving = is_allowed(person, Action.ASSIGN) and is_allowed(person, Action.CLAIM_NEXT)
    names = unique_labels({each.id: visible(each.name) for each in (colleagues(db, person) if giving else ())})
    return {
        "colleagues": [[account, name] for account, name in names.items()],
        "may_search_texts": is_allowed(person, Action.BROWSE_QUEUE) and is_allowed(person, Action.VIEW_TEXT),
    }
