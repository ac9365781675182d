"""What a reviewer does at the desk: each action is checked, done once and answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pages.review import desk_view, inbox_words
from pages.review.desk import (
    Desk,
    Here,
    is_in_hand,
    lay_out,
    my_review,
    open_case,
    open_named,
    open_next_desk,
    renew,
    with_text,
)
from pages.ui.words import last_midnight, sentence
from screening.review.policy import Forbidden
from screening.review.review_form import ReviewForm
from screening.review.triage import Priority
from screening.text.display import visible
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.review import claims, evidence, inbox, reports, reviews
from storage.review.claims import Incomplete, LeaseLost, NotAvailable
from storage.review.reviews import load_draft, save_draft
from storage.site.accounts import colleagues, release_all
from storage.visibility import NotYetReviewed

HexId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Words = Annotated[str, Field(max_length=2_000)]
Token = Annotated[str, Field(max_length=64)]


class Act(BaseModel):
    """One action. ``id`` is made in the browser, and is the review's id where the action makes one; ``token`` is the
    lease that the case was shown with, ``form`` what is filled in. Without what its kind needs it is refused as one
    whose lease is lost, or whose form cannot be read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: HexId
    kind: Literal[
        "open", "alive", "draft", "save", "revise", "reveal", "next", "urgent", "previous", "undo", "take", "uncover",
        "at_once", "leave", "finish", "skip", "decline", "hold", "hand_over", "second", "take_break", "go_on", "assign",
    ]  # fmt: skip
    case: HexId | None = None
    token: Token = ""
    form: Mapping[str, Any] = {}
    note: Words = ""
    to: Token = ""
    review: HexId | None = None
    cases: list[HexId] = []

    @property
    def case_id(self) -> str:
        """The case that it is for; an id that no case has where none is named."""
        return self.case or ""


BESIDE = frozenset({"reveal", "alive", "draft"})
"""Actions that answer nothing: what was said last stays."""
SAVES = frozenset({"save", "revise"})
AFTER_A_SAVE = frozenset({"next", "urgent", "previous", "undo", "finish", "open", "leave"})
"""Actions that take the reviewer away from what they believe to be saved."""
NOT_UNDERSTOOD = "This was not understood: reload the page."


class Refused(Exception):
    """An action that cannot be done; the message is for the reviewer."""


def parse(sent: object) -> list[Act | str]:
    """The actions in what the browser sent; the id alone of one that cannot be read, for its answer."""
    found: list[Act | str] = []
    for each in sent if isinstance(sent, list) else []:
        try:
            found.append(Act.model_validate(each))
        except ValidationError:
            if isinstance(each, dict) and isinstance(each.get("id"), str):
                found.append(each["id"])
    return found


def handle(here: Here, actions: list[Act | str]) -> dict[str, dict[str, object]]:
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
            words = unsaved if unsaved and each.kind in AFTER_A_SAVE else _do(here, each)
            page.answer(each.id, ok=not words, words=words)
        answers[each.id] = page.answers[each.id]
        if each.kind in SAVES:
            unsaved = str(answers[each.id]["words"])
    return answers


def _do(here: Here, act: Act) -> str:
    try:
        _ACTS[act.kind](here, act)
    except Refused as refused:
        return str(refused)
    except (Incomplete, NotAvailable) as refused:
        return sentence(refused)
    except (LeaseLost, NotYetReviewed, Forbidden, KeyError) as lost:
        if isinstance(lost, Forbidden):
            record_refusal(here.db, here.by, lost.action, act.case)
        return "Your role does not let you do this." if act.kind == "assign" else _loss_words(here, act)
    return ""


def _loss_words(here: Here, act: Act) -> str:
    try:
        found = inbox.standing(here.db, here.by, act.case_id, act.token)
        draft = inbox_words.is_filled_in(load_draft(here.db, here.person, act.case_id))
    except (KeyError, Forbidden):
        return "This case is not assigned to you."
    return inbox_words.standing_words(found, draft=draft)


def _on_desk(here: Here, act: Act) -> Desk:
    if here.desk is None or here.desk.case_id != act.case:
        raise Refused("This case is not open here any more.")
    return here.desk


def _alive(here: Here, act: Act) -> None:
    if here.desk is not None and here.desk.case_id == act.case:
        renew(here, here.desk)


def _draft(here: Here, act: Act) -> None:
    if here.desk is None or here.desk.case_id != act.case_id:
        inbox.standing(here.db, here.by, act.case_id, None)  # KeyError: no such case
    try:
        save_draft(here.db, here.by, act.case_id, act.form)
    except ValueError as wrong:
        raise Refused(sentence(wrong)) from wrong
    _alive(here, act)


def _form(here: Here, act: Act) -> ReviewForm:
    text = here.desk.text if here.desk is not None and here.desk.case_id == act.case else None
    try:
        return ReviewForm.model_validate(desk_view.received_form(act.form, text))
    except ValidationError as wrong:
        raise Refused("Something in the form cannot be read, so nothing was saved.") from wrong


def _save(here: Here, act: Act) -> None:
    form = _form(here, act)
    reviews.submit_review(here.db, here.by, act.case_id, act.token, form, submission_id=act.id)
    mine = my_review(here, act.case_id)
    if mine is not None and here.desk is not None and here.desk.case_id == act.case_id:
        here.page.last = replace(here.desk, mine=mine, evidence=None)
        here.page.lay(here.page.last)


def _revise(here: Here, act: Act) -> None:
    desk = _on_desk(here, act)
    reviews.revise(here.db, here.by, desk.case_id, _form(here, act), act.note, submission_id=act.id)
    here.page.lay(replace(desk, mine=my_review(here, desk.case_id)))
    last = here.page.last
    if last is not None and last.case_id == desk.case_id:
        here.page.last = None  # what it says is out of date, and nothing can be taken back


def _reveal(here: Here, act: Act) -> None:
    """What the AI and others said, once their own review is saved; where they took it back, the case."""
    desk = _on_desk(here, act)
    if desk.mine is None or desk.evidence is not None:
        return
    if my_review(here, desk.case_id) is None:
        open_case(here, desk.case_id)
        return
    shown = evidence.reveal_evidence(here.db, here.by, desk.case_id)
    given = reviews.reveal_reviews(here.db, here.by, desk.case_id)
    others = tuple({each.reviewer: each for each in given if each.reviewer != here.person.id}.values())
    left = evidence.notes(here.db, here.by, desk.case_id)
    here.page.lay(replace(desk, evidence=shown, others=others, left=left))


def _next(here: Here, _act: Act) -> None:
    if is_in_hand(here):
        raise Refused("Submit this review (Ctrl+Enter) or skip the case (S) first.")
    here.page.lay(open_next_desk(here))
    if here.desk is None:
        here.page.said = "No unassigned case for you at the moment."


def _take(here: Here, act: Act) -> None:
    if is_in_hand(here):
        raise Refused("Submit or leave the case you have open first.")
    wanted = here.db, here.by, act.case_id, here.site.lease
    if here.covered:
        here.page.lay(lay_out(here, claims.claim(*wanted)))
    else:
        here.page.lay(lay_out(here, *evidence.open_named(*wanted)))


def _previous(here: Here, act: Act) -> None:
    """A named case that they have read; without a name the one read before the one on the desk, else the last."""
    before = here.desk.mine.at if here.desk is not None and here.desk.mine is not None else None
    found = reviews.my_reviews(here.db, here.person, limit=1, before=before)
    case_id = act.case or (found[0].case_id if found else None)
    if case_id is None:
        raise Refused("You have reviewed no case before this one.")
    if (mine := my_review(here, case_id)) is not None:
        here.page.lay(with_text(here, Desk(case_id=case_id, mine=mine)))  # its evidence comes with the reveal


def _undo(here: Here, act: Act) -> None:
    claim = reviews.take_back(here.db, here.by, act.case_id, act.review or "", here.site.lease)
    here.page.lay(lay_out(here, claim))
    here.page.last = None


def _open_at_once(here: Here, act: Act) -> None:
    """The evidence of a P0 case before the review, which is then not blind."""
    desk = _on_desk(here, act)
    here.page.lay(replace(desk, evidence=evidence.reveal_evidence(here.db, here.by, desk.case_id, open_at_once=True)))


def _leave(words: str, leave: Callable[..., object]) -> Callable[[Here, Act], None]:
    def do(here: Here, act: Act) -> None:
        leave(here.db, here.by, act.case_id, act.token, act.note)
        _clear(here, act, words)

    return do


def _clear(here: Here, act: Act, words: str) -> None:
    _drop_sent_note(here, act)
    here.page.lay(None)
    here.page.said = words


def _drop_sent_note(here: Here, act: Act) -> None:
    """The note for the next reviewer has gone with the case: remove it from the draft."""
    draft = dict(load_draft(here.db, here.person, act.case_id) or {})
    if act.note and draft.pop("leaving", None):
        save_draft(here.db, here.by, act.case_id, draft)


def _hand_over(here: Here, act: Act) -> None:
    inbox.hand_over(here.db, here.by, act.case_id, act.token, act.to, act.note)
    name = next((each.name for each in colleagues(here.db, here.person) if each.id == act.to), "a colleague")
    _clear(here, act, f"Transferred to {visible(name)}.")


def _second(here: Here, act: Act) -> None:
    desk = _on_desk(here, act)
    inbox.ask_second_opinion(here.db, here.by, desk.case_id, act.token, act.note)
    _drop_sent_note(here, act)
    here.page.lay(replace(desk, asked=True))


def _finish(here: Here, _act: Act) -> None:
    release_all(here.db, here.by, note="session ended")
    if here.desk is None or not here.desk.busy:
        here.page.lay(None)
    here.page.said = "You have no open case."


def _take_break(here: Here, act: Act) -> None:
    _finish(here, act)
    reports.take_break(here.db, here.by)
    here.page.said += " Come back when you are ready."


def _go_on(here: Here, _act: Act) -> None:
    """Without a break: it is offered again after half as many texts."""
    read = reports.exposure(here.db, here.by, last_midnight(here.now)).since_break
    here.page.break_put_off = read + here.site.break_after_texts // 2 + 1


def _assign(here: Here, act: Act) -> None:
    try:
        here.page.said = assigned_words(*inbox.assign(here.db, here.by, act.cases, act.to))
    except ValueError as refused:
        raise Refused(sentence(refused)) from refused


def assigned_words(given: Sequence[str], refused: Mapping[str, str]) -> str:
    """How many cases are reserved now, and how many are not, by reason.

    >>> assigned_words(["a", "b"], {"c": "was taken meanwhile"})
    '2 cases are reserved for them. 1 case is not: it was taken meanwhile.'
    """
    words = f"{_cases(len(given))} {'is' if len(given) == 1 else 'are'} reserved for them."
    for reason in sorted(set(refused.values())):
        number = sum(each == reason for each in refused.values())
        words += f" {_cases(number)} {'is' if number == 1 else 'are'} not: {'it' if number == 1 else 'each'} {reason}."
    return words


def _cases(number: int) -> str:
    return count_of(number, "case") if number else "No cases"


_ACTS: Mapping[str, Callable[[Here, Act], None]] = {
    "open": lambda here, act: open_named(here, act.case),
    "alive": _alive,
    "draft": _draft,
    "save": _save,
    "revise": _revise,
    "reveal": _reveal,
    "next": _next,
    "urgent": lambda here, act: _next(replace(here, batch=None, priorities=[Priority.P0]), act),
    "previous": _previous,
    "undo": _undo,
    "take": _take,
    "uncover": lambda here, act: here.page.lay(with_text(here, _on_desk(here, act))),
    "at_once": _open_at_once,
    "leave": lambda here, act: here.page.lay(None),
    "finish": _finish,
    "skip": _leave("Skipped. You will not be offered this case again soon.", inbox.skip),
    "decline": _leave("Returned to the queue. You will not be offered this case again.", inbox.decline),
    "hold": _leave("Put on hold for you. Your note is kept.", inbox.hold),
    "hand_over": _hand_over,
    "second": _second,
    "take_break": _take_break,
    "go_on": _go_on,
    "assign": _assign,
}
