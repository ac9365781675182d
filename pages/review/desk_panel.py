"""The review desk: what its component asks for, done once each, in a fragment that no other part of the page delays."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import streamlit as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pages.review import inbox_desk
from pages.review.desk_view import away, received_form, view
from pages.review.inbox_desk import Desk, Here, clear, keep, memory, say
from pages.review.inbox_words import is_filled_in, standing_words
from pages.ui import context
from pages.ui.auth import check_session
from pages.ui.context import remember_refusal
from pages.ui.labels import sentence
from pages.ui.shell import passing_words
from screening.review.actors import Acting
from screening.review.policy import Forbidden
from screening.review.rating_form import RatingForm
from screening.review.triage import Tier
from screening.text.display import visible
from storage.database import Database
from storage.review import inbox
from storage.review.adjudication import ReasonNeeded
from storage.review.claims import LeaseLost, NotAvailable
from storage.review.drafts import load_draft, save_draft
from storage.review.inbox import NoteNeeded
from storage.review.ratings import DispositionNeeded, my_readings
from storage.review.standing import standing
from storage.site.accounts import colleagues
from storage.visibility import NotYetRated

Kind = Literal[
    "look", "alive", "draft", "save", "reveal", "next", "urgent", "previous", "undo", "revise", "skip", "not_me",
    "second", "hold", "hand_over", "at_once", "uncover", "take", "leave", "finish", "rest",
]  # fmt: skip
QUIET = frozenset({"look", "reveal", "rest"})
"""Requests that the page makes by itself: no sign that somebody is there."""
BESIDE = QUIET | {"alive", "draft"}
"""Requests that answer nothing: what was said last stays."""
SAVES = frozenset({"save", "revise"})
AFTER_A_SAVE = frozenset({"next", "urgent", "previous", "undo", "finish"})
"""Requests that take the reader away from what they believe to be saved."""

HexId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class Request(BaseModel):
    """One request. ``id`` is made in the browser and is the rating's id where it makes one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: HexId
    kind: Kind
    case: HexId | None = None
    token: Annotated[str, Field(max_length=64)] = ""
    form: Mapping[str, Any] = {}
    note: Annotated[str, Field(max_length=2_000)] = ""
    to: Annotated[str, Field(max_length=64)] = ""
    rating: HexId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Where a request meets the desk."""

    here: Here
    desk: Desk | None
    tiers: Collection[Tier] | None

    @property
    def db(self) -> Database:
        """The database."""
        return self.here.db


class Refused(Exception):
    """A request that cannot be done; the message is for the reader."""


def parse(sent: object) -> list[Request]:
    """The requests in what the browser sent; what is none is left out, since nobody waits for its answer."""
    found = []
    for each in sent if isinstance(sent, list) else []:
        try:
            found.append(Request.model_validate(each))
        except ValidationError:
            continue
    return found


def handle(here: Here, requests: list[Request], tiers: Collection[Tier] | None) -> None:
    """Do each of them that has not been done, in their order, and remember what came of it.

    Once a save was refused, what was asked after it in the belief that it is saved is refused in the same words.
    """
    unsaved = ""
    for request in requests:
        if request.id not in memory().answers:
            if unsaved and request.kind in AFTER_A_SAVE:
                memory().answer(request.id, ok=False, words=unsaved)
            else:
                _act(At(here=here, desk=inbox_desk.current(here), tiers=tiers), request)
        if request.kind in SAVES:
            unsaved = str(memory().answers[request.id]["words"])


def _act(at: At, request: Request) -> None:
    """Do it, and remember what came of it: words where it was refused."""
    try:
        _ACTS[request.kind](at, request)
    except Refused as refused:
        memory().answer(request.id, ok=False, words=str(refused))
    except (DispositionNeeded, NoteNeeded, ReasonNeeded, NotAvailable) as refused:
        memory().answer(request.id, ok=False, words=sentence(refused))
    except (LeaseLost, NotYetRated, Forbidden, KeyError) as lost:
        if isinstance(lost, Forbidden):
            remember_refusal(lost, request.case)
        memory().answer(request.id, ok=False, words=_loss_words(at.here, request))
    else:
        memory().answer(request.id, ok=True)


def _loss_words(here: Here, request: Request) -> str:
    """Why the case is not in their hands, in words."""
    case_id = request.case or ""
    try:
        found = standing(here.db, here.by, case_id, request.token)
        draft = is_filled_in(load_draft(here.db, here.person, case_id))
    except (KeyError, Forbidden):
        return "This case is not assigned to you."
    return standing_words(found, draft=draft)


def _on_desk(at: At, request: Request) -> Desk:
    if at.desk is None or at.desk.case_id != request.case:
        raise Refused("This case is not open here any more.")
    return at.desk


def _look(at: At, request: Request) -> None:
    """Answer with the state of the desk; nothing is changed."""


def _alive(at: At, request: Request) -> None:
    if at.desk is not None and at.desk.case_id == request.case:
        inbox_desk.renew(at.here, at.desk)


def _draft(at: At, request: Request) -> None:
    case_id = request.case or ""
    if at.desk is None or at.desk.case_id != case_id:
        standing(at.db, at.here.by, case_id, None)  # KeyError: no such case
    try:
        save_draft(at.db, at.here.by, case_id, request.form)
    except ValueError as wrong:
        raise Refused(sentence(wrong)) from wrong
    _alive(at, request)


def _form(at: At, request: Request) -> RatingForm:
    text = at.desk.text if at.desk is not None and at.desk.case_id == request.case else None
    try:
        return RatingForm.model_validate(received_form(request.form, text))
    except ValidationError as wrong:
        raise Refused("Something in the form cannot be read, so nothing was saved.") from wrong


def _save(at: At, request: Request) -> None:
    inbox_desk.save(at.here, request.case or "", request.token, _form(at, request), request.id)


def _reveal(at: At, request: Request) -> None:
    desk = _on_desk(at, request)
    if desk.mine is not None and desk.evidence is None:
        inbox_desk.reveal(at.here, desk)


def _next(at: At, request: Request) -> None:
    if inbox_desk.is_in_hand(at.here, at.desk):
        raise Refused("Submit this review (Ctrl+Enter) or skip the case (S) first.")
    if inbox_desk.take_next(at.here, at.tiers) is None:
        say("No unassigned case for you at the moment.")


def _urgent(at: At, request: Request) -> None:
    """The next P0 case, whatever the filter."""
    _next(replace(at, here=replace(at.here, batch=None), tiers=[Tier.P0]), request)


def _previous(at: At, request: Request) -> None:
    """A named case that they have read; without a name the one read before the one on the desk, else the last."""
    before = at.desk.mine.at if at.desk is not None and at.desk.mine is not None else None
    found = my_readings(at.db, at.here.person, limit=1, before=before)
    case_id = request.case or (found[0].case_id if found else None)
    if case_id is None:
        raise Refused("You have reviewed no case before this one.")
    inbox_desk.show_read(at.here, case_id)


def _undo(at: At, request: Request) -> None:
    inbox_desk.undo(at.here, request.case or "", request.rating or "")


def _revise(at: At, request: Request) -> None:
    inbox_desk.revise(at.here, _on_desk(at, request), _form(at, request), request.note, request.id)


def _make_leave(words: str, leave: Callable[[At, Request], object]) -> Callable[[At, Request], None]:
    """A way to leave a case to somebody else."""

    def act(at: At, request: Request) -> None:
        leave(at, request)
        _drop_sent_note(at, request)
        clear()
        say(words)

    return act


def _drop_sent_note(at: At, request: Request) -> None:
    """The note for the next reader has gone with the case: remove it from the draft."""
    draft = dict(load_draft(at.db, at.here.person, request.case or "") or {})
    if request.note and draft.pop("leaving", None):
        save_draft(at.db, at.here.by, request.case or "", draft)


def _who_and_which(at: At, request: Request) -> tuple[Database, Acting, str, str]:
    return at.db, at.here.by, request.case or "", request.token


def _hand_over(at: At, request: Request) -> None:
    inbox.hand_over(*_who_and_which(at, request), request.to, request.note)
    _drop_sent_note(at, request)
    name = next((each.name for each in colleagues(at.db, at.here.person) if each.id == request.to), "a colleague")
    clear()
    say(f"Transferred to {visible(name)}.")


def _second(at: At, request: Request) -> None:
    desk = _on_desk(at, request)
    inbox.ask_second_opinion(*_who_and_which(at, request), request.note)
    _drop_sent_note(at, request)
    keep(replace(desk, asked=True))


def _at_once(at: At, request: Request) -> None:
    inbox_desk.open_at_once(at.here, _on_desk(at, request))


def _uncover(at: At, request: Request) -> None:
    inbox_desk.uncover(at.here, _on_desk(at, request))


def _take(at: At, request: Request) -> None:
    inbox_desk.take(at.here, request.case or "")


def _finish(at: At, request: Request) -> None:
    inbox_desk.finish(at.here, at.desk)
    say("You have no open case.")


_ACTS: Mapping[str, Callable[[At, Request], None]] = {
    "look": _look,
    "rest": _look,  # its answer comes with the whole page
    "alive": _alive,
    "draft": _draft,
    "save": _save,
    "reveal": _reveal,
    "next": _next,
    "urgent": _urgent,
    "previous": _previous,
    "undo": _undo,
    "revise": _revise,
    "skip": _make_leave(
        "Skipped. You will not be offered this case again soon.",
        lambda at, request: inbox.skip(*_who_and_which(at, request), request.note),
    ),
    "not_me": _make_leave(
        "Returned to the queue. You will not be offered this case again.",
        lambda at, request: inbox.decline(*_who_and_which(at, request), request.note),
    ),
    "second": _second,
    "hold": _make_leave(
        "Put on hold for you. Your note is kept.",
        lambda at, request: inbox.hold(*_who_and_which(at, request), request.note),
    ),
    "hand_over": _hand_over,
    "at_once": _at_once,
    "uncover": _uncover,
    "take": _take,
    "leave": lambda at, request: clear(),
    "finish": _finish,
}


if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

COMPONENT = "second-look-browser.desk"
KEY = "desk"
_SENT = "desk_sent"
"""Session key of what the browser sent and the desk has not handled yet."""
STAYS = QUIET | {"alive", "draft", "second", "at_once", "uncover", "revise"}
"""Requests after which the rest of the page is as it was."""


def do_what_is_asked(here: Callable[[], Here], tiers: Collection[Tier] | None) -> None:
    """What the browser asked for since the last run, before a run of the whole page draws anything."""
    _do(here, _open_requests(), tiers)
    memory().behind = False


def desk_panel(here: Callable[[], Here], tiers: Collection[Tier] | None, idle_words: str) -> None:
    """Draw the desk and do what its reviewer asks for. ``here`` is asked anew on each run; ``idle_words`` hold for the
    first, which is of the same moment as the list: a later run of the fragment alone counts anew.
    """
    st.fragment(_desk)(here, tiers, [idle_words])


def _desk(here: Callable[[], Here], tiers: Collection[Tier] | None, counted: list[str]) -> None:
    """Done first and drawn once, so that the answer leaves before anything else; the rest of the page is left behind
    until the browser asks for it.
    """
    with context.database().one_snapshot():
        try:
            _do_and_see(here, tiers, counted.pop() if counted else "")
        except Exception as error:
            words = passing_words(error)
            if words is None or not memory().shown:
                raise
            _mount(away(memory().shown, words, context.now()))
            return
        unheard = parse(_mount(memory().shown))  # after a start of the server the first press is not told to `_hear`
        if _new(unheard):
            check_session(active=_by_a_person(unheard))
            _do(here, unheard, tiers)
            st.rerun()


def _do_and_see(here: Callable[[], Here], tiers: Collection[Tier] | None, idle_words: str) -> None:
    """Do what the browser asked for; what is to be shown then is in the session's memory."""
    requests = _open_requests()
    check_session(active=_by_a_person(requests))
    done = _do(here, requests, tiers)
    if "rest" in done and memory().behind:
        st.rerun()
    memory().behind |= bool(done - STAYS)
    now = here()
    memory().shown = view(now, inbox_desk.current(now), memory(), tiers, "" if done else idle_words)


def _do(here: Callable[[], Here], requests: list[Request], tiers: Collection[Tier] | None) -> frozenset[str]:
    """Each of them that has not been done; the kinds of those."""
    st.session_state.pop(_SENT, None)
    kinds = _new(requests)
    if kinds - BESIDE:
        memory().said = ""
    if requests:
        handle(here(), requests, tiers)
        memory().asked = tuple(request.id for request in requests)
    return kinds


def _new(requests: list[Request]) -> frozenset[str]:
    return frozenset(request.kind for request in requests if request.id not in memory().answers)


def _by_a_person(requests: list[Request]) -> bool:
    """Whether any of them is a sign that somebody is there."""
    return bool(_new(requests) - QUIET)


def _open_requests() -> list[Request]:
    return parse(st.session_state.get(_SENT))


def _hear() -> None:
    """Keep what was sent: the run that it began may be cut short by the next one before it comes to the desk."""
    found = st.session_state.get(KEY) or {}  # nothing is there where the last run failed before it drew the desk
    if isinstance(sent := found.get("requests"), list):
        st.session_state[_SENT] = [*st.session_state.get(_SENT, ()), *sent]


def _mount(shown: dict[str, Any]) -> object:
    """What the component asks for in this run; None mostly."""
    return _component()(key=KEY, data=[shown], on_requests_change=_hear).requests


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    """Register the component, once a process: Streamlit reads its files to do so."""
    return st.components.v2.component(COMPONENT, js="desk.js", css="desk.css", isolate_styles=False)
