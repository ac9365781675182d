"""The reviews of a case and its final label: shown, decided and changed."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.review.evidence_view import engine_label
from pages.review.inbox_words import HOW_CERTAIN, LABEL_WORDS, PRIORITY_WORDS, list_name, why_words
from pages.ui.format import local_time
from pages.ui.labels import FLAG_WORDS, error_words, sentence
from pages.ui.texts import FlaggedPhrase
from pages.ui.widgets import forget_typed
from screening.review.actors import Acting, Actor, pseudonym
from screening.review.policy import Action, is_allowed
from screening.review.review_form import ReviewLabel
from screening.text.display import visible
from screening.text.flags import FORBIDS, Flag, Forbids
from screening.text.injection import injection_signs
from screening.words import count_of
from storage.database import Database
from storage.review import adjudication
from storage.review.adjudication import Adjudication, Method, ReasonNeeded, StaleVersion
from storage.review.claims import NotAvailable
from storage.review.evidence import CaseFile, Evidence
from storage.review.reviews import MyReview, Review


def facts_html(external_id: str, file: CaseFile, evidence: Evidence, phrases: Sequence[FlaggedPhrase] = ()) -> str:
    """Its own id, where it came from and what was found, as a list of names and values."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
        for name, value in _facts(external_id, file, evidence, phrases)
    )
    return f'<dl class="sl-facts">{rows}</dl>'


def _facts(
    external_id: str, file: CaseFile, evidence: Evidence, phrases: Sequence[FlaggedPhrase]
) -> Iterator[tuple[str, str]]:
    yield "Id", visible(external_id)
    yield "From", f"{file.batch_name}, row {file.row}"
    yield "Received", f"{local_time(file.received_at)} · SHA-256 {file.text_sha256[:16]}…"
    if file.not_screened is not None:
        yield "Not screened", visible(file.not_screened)
    if file.group is not None:
        yield "Group", file.group
    yield "Original label", _reference(evidence)
    for part, flags in file.flags.items():
        for flag in flags:
            yield f"Found in the {part}", flag_sentence(flag)
    for phrase in phrases:
        yield "Rule", phrase.words
    for name, received in file.parts.items():
        where = "" if name == "text" else f" (in the {name})"
        for sign in sorted({str(sign.kind) for sign in injection_signs(received.model_text, received.text)}):
            yield "Sign of injection", sign.replace("_", " ") + where
    if file.entry is not None:
        entry = file.entry
        state = f"closed {local_time(entry.closed_at)}" if entry.closed_at else f"open, {entry.review_round} review"
        why = why_words(entry.why, settled=engine_label(evidence) is not None)
        yield "Queue", f"{PRIORITY_WORDS[entry.priority]}: {why} · {state}"
    if evidence.configuration_version is not None:
        yield "Ran with", f"configuration {evidence.configuration_version[:16]}…"


def _reference(evidence: Evidence) -> str:
    if evidence.reference is None:
        return "none"
    return f"{evidence.reference} (“{evidence.reference_value}” in the file)"


def flag_sentence(flag: str) -> str:
    """A finding and what it forbids; one that this version does not know forbids safe as well.

    >>> flag_sentence("suspected_injection")
    'appears to address the AI or to answer in its place; safe is not accepted'
    """
    if flag not in set(Flag):
        return f"{flag.replace('_', ' ')}; safe is not accepted"
    known = Flag(flag)
    words = {Forbids.NOTHING: "", Forbids.UNCHECKED_SAFE: "; safe needs a second check"}
    forbids = words.get(FORBIDS[known], "; safe is not accepted")
    return f"{FLAG_WORDS[known].partition(':')[0]}{forbids}"


def errors_html(file: CaseFile) -> str:
    """Failed attempts, the oldest first."""
    rows = "".join(
        f"<dt>{local_time(each.at)}</dt><dd>{escape(error_words(each.kind))}; "
        f"{count_of(each.calls, 'call')} without an answer. {escape(each.message)}</dd>"
        for each in file.errors
    )
    return f'<dl class="sl-facts">{rows}</dl>'


ALONE, DISCUSSED = "alone", "in a discussion"
DECIDED_MEANWHILE = "Somebody else has decided on this case meanwhile: look at it, then press again."
_SEEN = "decide_seen"
"""Session key of the case decided on, and which versions of its label were seen."""


def ways_to_decide(person: Actor, reviewers: Sequence[str], *, closed: bool) -> list[str]:
    """A reviewer whom another one contradicts does not decide between the two alone."""
    party = not closed and adjudication.is_party(person, list(dict.fromkeys(reviewers)))
    return [DISCUSSED] if party else [ALONE, DISCUSSED]


def adjudication_form(
    db: Database, by: Acting, case_id: str, given: Sequence[Review], made: Sequence[Adjudication], *, closed: bool
) -> None:
    """Label, reason and the button, for seniors only; nothing where nobody has read the case, or where it was closed
    without a label because it was erased.
    """
    if not given or (closed and not made) or not is_allowed(by.actor, Action.ADJUDICATE):
        return
    with st.container(border=True, key="adjudication"):
        title = "Change the final label" if closed else "Decide"
        st.html(f'<h2 class="sl-h2">{title}</h2>')
        alert = st.empty()
        first, seen = _versions_seen(case_id, len(made))
        version = f"{case_id}_{first}"
        label = st.pills("Final label", list(LABEL_WORDS), key=f"decide_{version}", format_func=LABEL_WORDS.__getitem__)
        why = f"decide_why_{version}"
        st.text_input("Why", key=why, max_chars=2_000)
        ways = ways_to_decide(by.actor, [review.reviewer for review in given], closed=closed)
        discussed = st.pills("How", ways, key=f"decide_how_{version}_{closed}", default=ways[0])
        if not st.button("Save", key=f"record_{version}", type="primary", icon=":material/gavel:"):
            return
        if seen != len(made):
            st.session_state[_SEEN] = case_id, first, len(made)
            alert.error(DECIDED_MEANWHILE, icon=":material/edit_note:")
        else:
            _record(db, by, case_id, label, why, made, alert, discussed=discussed == DISCUSSED, closed=closed)


def _versions_seen(case_id: str, versions: int) -> tuple[int, int]:
    """How many versions there were when this person began to fill in the form, by which its fields are called, and how
    many they have seen since: what is filled in stays when somebody else decides.
    """
    kept, first, seen = st.session_state.get(_SEEN, ("", 0, 0))
    begun = any(st.session_state.get(f"{name}_{case_id}_{first}") for name in ("decide", "decide_why"))
    if kept != case_id or not begun:
        first = seen = versions
    st.session_state[_SEEN] = case_id, first, seen
    return first, seen


def _record(
    db: Database,
    by: Acting,
    case_id: str,
    label: ReviewLabel | None,
    why: str,
    made: Sequence[Adjudication],
    alert: DeltaGenerator,
    *,
    discussed: bool,
    closed: bool,
) -> None:
    if label is None:
        alert.error("Select a label.", icon=":material/edit:")
        return
    reason: str = st.session_state[why]
    try:
        if closed:
            adjudication.amend(db, by, case_id, label, reason, made[-1].version)
        else:
            method: Literal[Method.DISCUSSION, Method.SENIOR] = Method.DISCUSSION if discussed else Method.SENIOR
            adjudication.adjudicate(db, by, case_id, label, reason, method)
    except (ReasonNeeded, StaleVersion, NotAvailable) as refused:
        alert.error(sentence(refused), icon=":material/edit_note:")
        return
    forget_typed(why)
    del st.session_state[_SEEN]
    st.rerun()


METHOD_WORDS = {
    Method.SINGLE: "one review",
    Method.AGREEMENT: "two reviews agree",
    Method.SENIOR: "senior adjudication",
    Method.DISCUSSION: "consensus discussion",
    Method.AMENDMENT: "changed",
}
_LEFT_OUT = {"label", "certainty", "marks", "read_to_end"}
_NOTHING: tuple[object, ...] = ("", None, [], "not_stated", "undecided")


def who(account_id: str, key: str, me: str) -> str:
    """A reviewer as others may know them."""
    return "you" if account_id == me else "Second Look" if account_id == "system" else pseudonym(key, account_id)


def reviews_html(reviews: Sequence[Review], key: str, me: str) -> str:
    """Every version of every review, in the order given."""
    return "".join(_review(each, who(each.reviewer, key, me)) for each in reviews)


def _review(review: Review, reviewer: str) -> str:
    blind = "blinded" if review.blind else "not blinded"
    version = f", version {review.version}" if review.version > 1 else ""
    reason = f'<p class="s">Changed because: {escape(review.reason)}</p>' if review.reason else ""
    fields = fields_words(review)
    return (
        f'<div class="sl-card"><p><b>{escape(LABEL_WORDS[review.form.label])}</b>, '
        f"{escape(HOW_CERTAIN[review.form.certainty])}</p>"
        f'<p class="s">{escape(reviewer)} · {escape(review.review_round)} review{version} · {blind} · '
        f"{local_time(review.at)}</p>" + (f"<p>{escape(fields)}</p>" if fields else "") + f"{reason}</div>"
    )


def fields_words(review: Review) -> str:
    """The optional fields that were filled in."""
    body = review.form.model_dump(mode="json", exclude=_LEFT_OUT)
    said = {name: value for name, value in body.items() if value not in _NOTHING}
    words = [f"{name.replace('_', ' ')}: {_value(value)}" for name, value in said.items()]
    if review.form.read_to_end is False:
        words.append("submitted before scrolling to the end")
    return "; ".join(words)


def _value(value: object) -> str:
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return shown.replace("_", " ")


def versions_html(versions: Sequence[Adjudication], key: str, me: str) -> str:
    """Every version of the accepted label, each with what it changed."""
    before: Sequence[Adjudication | None] = [None, *versions]
    return "".join(_version(each, last, who(each.by, key, me)) for last, each in zip(before, versions, strict=False))


def _version(made: Adjudication, last: Adjudication | None, by: str) -> str:
    changed = last is not None and last.label is not made.label
    was = f"<del>{escape(LABEL_WORDS[last.label])}</del> → " if last is not None and changed else ""
    label = f"<ins>{escape(LABEL_WORDS[made.label])}</ins>" if changed else escape(LABEL_WORDS[made.label])
    reason = f"<p>{escape(made.reason)}</p>" if made.reason else ""
    return (
        f'<div class="sl-card"><p><b>Version {made.version}: {was}{label}</b></p>'
        f'<p class="s">{escape(METHOD_WORDS[made.method])} · {escape(by)} · on '
        f"{count_of(len(made.review_ids), 'review')} · {local_time(made.at)}</p>{reason}</div>"
    )


def my_reviews_html(given: Sequence[MyReview]) -> str:
    """One's own reviews, the newest first, each with what became of it."""
    shown = "".join(map(_mine, given))
    return shown or '<p class="sl-small">You have reviewed no case yet.</p>'


def _mine(each: MyReview) -> str:
    name = escape(list_name(each.external_id, each.case_id))
    return (
        f'<p class="sl-small"><a href="case?case={escape(each.case_id, quote=True)}" target="_self">{name}</a> · '
        f"{local_time(each.at)} · {escape(LABEL_WORDS[each.label].lower())}, "
        f"{escape(HOW_CERTAIN[each.certainty])} · {escape(_became(each))}</p>"
    )


def _became(each: MyReview) -> str:
    if each.waits_for is not None:
        return "awaiting a senior" if each.waits_for == "third" else "awaiting second review"
    if each.accepted is None:
        return "deleted"
    return f"final label differs: {LABEL_WORDS[each.accepted].lower()}" if each.otherwise else "final"
