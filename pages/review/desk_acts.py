"""What a reviewer does at the desk: each action is checked, done once and answered."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pages.review import desk as on_desk
from pages.review.desk import Desk, Here
from pages.review.desk_view import received_form
from pages.review.inbox_words import is_filled_in, standing_words
from pages.ui.format import last_midnight
from pages.ui.labels import sentence
from screening.review.policy import Forbidden
from screening.review.review_form import ReviewForm
from screening.review.triage import Priority
from screening.text.display import visible
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.review import inbox, reports
from storage.review.adjudication import ReasonNeeded
from storage.review.claims import LeaseLost, NotAvailable
from storage.review.drafts import load_draft, save_draft
from storage.review.inbox import Assigned, NoteNeeded, standing
from storage.review.reviews import DispositionNeeded, my_reviews
from storage.site.accounts import colleagues
from storage.visibility import NotYetRated

HexId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Words = Annotated[str, Field(max_length=2_000)]
Token = Annotated[str, Field(max_length=64)]


class Act(BaseModel):
    """One action. ``id`` is made in the browser, and is the review's id where the action makes one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: HexId
    case: HexId | None = None


class Press(Act):
    """What takes no more than a key or a button, and what the page does by itself."""

    kind: Literal[
        "open", "alive", "reveal", "next", "urgent", "previous", "take", "uncover", "at_once", "leave", "finish",
        "take_break", "go_on",
    ]  # fmt: skip


class Draft(Act):
    """What is filled in so far."""

    kind: Literal["draft"]
    form: Mapping[str, Any]


class Save(Act):
    """Submit the review, under the lease that the case was shown with."""

    kind: Literal["save"]
    token: Token
    form: Mapping[str, Any]


class Revise(Act):
    """Change a saved review, with a reason."""

    kind: Literal["revise"]
    form: Mapping[str, Any]
    note: Words = ""


class Undo(Act):
    """Take a review back."""

    kind: Literal["undo"]
    review: HexId | None = None


class Leave(Act):
    """Leave the case to somebody else, or have somebody else read it too."""

    kind: Literal["skip", "not_me", "hold", "second"]
    token: Token
    note: Words = ""


class HandOver(Act):
    """Transfer the case to a colleague."""

    kind: Literal["hand_over"]
    token: Token
    note: Words = ""
    to: Token


class Assign(Act):
    """Reserve cases of the list for a colleague."""

    kind: Literal["assign"]
    to: Token
    cases: list[HexId]


Action = Annotated[Press | Draft | Save | Revise | Undo | Leave | HandOver | Assign, Field(discriminator="kind")]
_ACTION: TypeAdapter[Action] = TypeAdapter(Action)

QUIET = frozenset({"reveal"})
"""Actions that the page makes by itself: no sign that somebody is there."""
BESIDE = QUIET | {"alive", "draft"}
"""Actions that answer nothing: what was said last stays."""
SAVES = frozenset({"save", "revise"})
AFTER_A_SAVE = frozenset({"next", "urgent", "previous", "undo", "finish"})
"""Actions that take the reviewer away from what they believe to be saved."""
NOT_UNDERSTOOD = "This was not understood: reload the page."


class Refused(Exception):
    """An action that cannot be done; the message is for the reviewer."""


def parse(sent: object) -> list[Action | str]:
    """The actions in what the browser sent; the id alone of one that cannot be read, for its answer."""
    found: list[Action | str] = []
    for each in sent if isinstance(sent, list) else []:
        try:
            found.append(_ACTION.validate_python(each))
        except ValidationError:
            if isinstance(each, dict) and isinstance(each.get("id"), str):
                found.append(each["id"])
    return found


def is_by_a_person(actions: list[Action | str]) -> bool:
    """Whether any of them is a sign that somebody is there."""
    return any(not isinstance(each, str) and each.kind not in QUIET for each in actions)


def handle(here: Here, actions: list[Action | str]) -> dict[str, dict[str, object]]:
    """Do each of them that has not been done, in their order; the answers by id.

    Once a save was refused, what was asked after it in the belief that it is saved is refused in the same words.
    """
    page, unsaved = here.page, ""
    if any(not isinstance(each, str) and each.id not in page.answers and each.kind not in BESIDE for each in actions):
        page.said = ""
    answers: dict[str, dict[str, object]] = {}
    for each in actions:
        if isinstance(each, str):
            answers[each] = {"ok": False, "words": NOT_UNDERSTOOD}
            continue
        if each.id not in page.answers:
            if unsaved and each.kind in AFTER_A_SAVE:
                page.answer(each.id, ok=False, words=unsaved)
            else:
                _do(here, each)
        answers[each.id] = page.answers[each.id]
        if each.kind in SAVES:
            unsaved = str(answers[each.id]["words"])
    return answers


def _do(here: Here, action: Action) -> None:
    """Do it, and remember what came of it: words where it was refused."""
    words = ""
    try:
        _ACTS[action.kind](here, action)
    except Refused as refused:
        words = str(refused)
    except (DispositionNeeded, NoteNeeded, ReasonNeeded, NotAvailable) as refused:
        words = sentence(refused)
    except (LeaseLost, NotYetRated, Forbidden, KeyError) as lost:
        if isinstance(lost, Forbidden):
            record_refusal(here.db, here.by, lost.action, action.case)
        words = "Your role does not let you do this." if isinstance(action, Assign) else _loss_words(here, action)
    here.page.answer(action.id, ok=not words, words=words)


def _loss_words(here: Here, action: Action) -> str:
    """Why the case is not in their hands, in words."""
    case_id = action.case or ""
    try:
        found = standing(here.db, here.by, case_id, getattr(action, "token", ""))
        draft = is_filled_in(load_draft(here.db, here.person, case_id))
    except (KeyError, Forbidden):
        return "This case is not assigned to you."
    return standing_words(found, draft=draft)


def _on_desk(here: Here, action: Act) -> Desk:
    if here.desk is None or here.desk.case_id != action.case:
        raise Refused("This case is not open here any more.")
    return here.desk


def _open(here: Here, action: Act) -> None:
    on_desk.open_case(here, action.case)


def _alive(here: Here, action: Act) -> None:
    if here.desk is not None and here.desk.case_id == action.case:
        on_desk.renew(here, here.desk)


def _draft(here: Here, action: Draft) -> None:
    case_id = action.case or ""
    if here.desk is None or here.desk.case_id != case_id:
        standing(here.db, here.by, case_id, None)  # KeyError: no such case
    try:
        save_draft(here.db, here.by, case_id, action.form)
    except ValueError as wrong:
        raise Refused(sentence(wrong)) from wrong
    _alive(here, action)


def _form(here: Here, action: Save | Revise) -> ReviewForm:
    text = here.desk.text if here.desk is not None and here.desk.case_id == action.case else None
    try:
        return ReviewForm.model_validate(received_form(action.form, text))
    except ValidationError as wrong:
        raise Refused("Something in the form cannot be read, so nothing was saved.") from wrong


def _save(here: Here, action: Save) -> None:
    on_desk.save(here, action.case or "", action.token, _form(here, action), action.id)


def _revise(here: Here, action: Revise) -> None:
    on_desk.revise(here, _on_desk(here, action), _form(here, action), action.note, action.id)


def _reveal(here: Here, action: Act) -> None:
    desk = _on_desk(here, action)
    if desk.mine is not None and desk.evidence is None:
        on_desk.reveal(here, desk)


def _next(here: Here, _action: Act) -> None:
    if on_desk.is_in_hand(here):
        raise Refused("Submit this review (Ctrl+Enter) or skip the case (S) first.")
    if not on_desk.take_next(here):
        here.page.said = "No unassigned case for you at the moment."


def _urgent(here: Here, action: Act) -> None:
    """The next P0 case, whatever the filter."""
    _next(replace(here, batch=None, priorities=[Priority.P0]), action)


def _take(here: Here, action: Act) -> None:
    if on_desk.is_in_hand(here):
        raise Refused("Submit or leave the case you have open first.")
    on_desk.take(here, action.case or "")


def _previous(here: Here, action: Act) -> None:
    """A named case that they have read; without a name the one read before the one on the desk, else the last."""
    before = here.desk.mine.at if here.desk is not None and here.desk.mine is not None else None
    found = my_reviews(here.db, here.person, limit=1, before=before)
    case_id = action.case or (found[0].case_id if found else None)
    if case_id is None:
        raise Refused("You have reviewed no case before this one.")
    on_desk.show_read(here, case_id)


def _undo(here: Here, action: Undo) -> None:
    on_desk.undo(here, action.case or "", action.review or "")


def _leave(words: str, leave: Callable[..., object]) -> Callable[[Here, Any], None]:
    """A way to leave a case to somebody else."""

    def act(here: Here, action: Leave) -> None:
        leave(here.db, here.by, action.case or "", action.token, action.note)
        _drop_sent_note(here, action)
        here.page.lay(None)
        here.page.said = words

    return act


def _drop_sent_note(here: Here, action: Leave | HandOver) -> None:
    """The note for the next reviewer has gone with the case: remove it from the draft."""
    draft = dict(load_draft(here.db, here.person, action.case or "") or {})
    if action.note and draft.pop("leaving", None):
        save_draft(here.db, here.by, action.case or "", draft)


def _hand_over(here: Here, action: HandOver) -> None:
    inbox.hand_over(here.db, here.by, action.case or "", action.token, action.to, action.note)
    _drop_sent_note(here, action)
    name = next((each.name for each in colleagues(here.db, here.person) if each.id == action.to), "a colleague")
    here.page.lay(None)
    here.page.said = f"Transferred to {visible(name)}."


def _second(here: Here, action: Leave) -> None:
    desk = _on_desk(here, action)
    inbox.ask_second_opinion(here.db, here.by, desk.case_id, action.token, action.note)
    _drop_sent_note(here, action)
    here.page.lay(replace(desk, asked=True))


def _finish(here: Here, _action: Act) -> None:
    on_desk.finish(here)
    here.page.said = "You have no open case."


def _take_break(here: Here, _action: Act) -> None:
    on_desk.finish(here)
    reports.take_break(here.db, here.by)
    here.page.said = "You have no open case. Come back when you are ready."


def _go_on(here: Here, _action: Act) -> None:
    """Without a break: it is offered again after half as many texts."""
    read = reports.exposure(here.db, here.by, last_midnight(here.now)).since_break
    here.page.break_put_off = read + here.site.break_after_texts // 2 + 1


def _assign(here: Here, action: Assign) -> None:
    try:
        done = inbox.assign(here.db, here.by, action.cases, action.to)
    except ValueError as refused:
        raise Refused(sentence(refused)) from refused
    here.page.said = assigned_words(done)


def assigned_words(done: Assigned) -> str:
    """How many cases are reserved now, and how many are not, by reason.

    >>> assigned_words(Assigned(given=("a", "b"), refused={"c": "was taken meanwhile"}))
    '2 cases are reserved for them. 1 case is not: it was taken meanwhile.'
    """
    words = f"{_cases(len(done.given))} {'is' if len(done.given) == 1 else 'are'} reserved for them."
    for reason in sorted(set(done.refused.values())):
        number = sum(each == reason for each in done.refused.values())
        words += f" {_cases(number)} {'is' if number == 1 else 'are'} not: {'it' if number == 1 else 'each'} {reason}."
    return words


def _cases(number: int) -> str:
    return count_of(number, "case") if number else "No cases"


_ACTS: Mapping[str, Callable[[Here, Any], None]] = {
    "open": _open,
    "alive": _alive,
    "draft": _draft,
    "save": _save,
    "revise": _revise,
    "reveal": _reveal,
    "next": _next,
    "urgent": _urgent,
    "previous": _previous,
    "undo": _undo,
    "take": _take,
    "uncover": lambda here, action: on_desk.uncover(here, _on_desk(here, action)),
    "at_once": lambda here, action: on_desk.open_at_once(here, _on_desk(here, action)),
    "leave": lambda here, action: here.page.lay(None),
    "finish": _finish,
    "skip": _leave("Skipped. You will not be offered this case again soon.", inbox.skip),
    "not_me": _leave("Returned to the queue. You will not be offered this case again.", inbox.decline),
    "hold": _leave("Put on hold for you. Your note is kept.", inbox.hold),
    "hand_over": _hand_over,
    "second": _second,
    "take_break": _take_break,
    "go_on": _go_on,
    "assign": _assign,
}
