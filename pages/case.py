"""One case with its text, reviews and whole trail; nothing of the engine before it may be seen."""

import streamlit as st

from pages.research.case_list import hide_switch, send_panel
from pages.review.case_trail import adjudication_form, errors_html, facts_html, reviews_html, versions_html
from pages.review.evidence_view import evidence_html, outcome_sentence, trail_html
from pages.review.follow_up_panel import closed_follow_ups
from pages.ui import context
from pages.ui.context import remember_refusal
from pages.ui.labels import DELTA_MEANING
from pages.ui.shell import FOLDER
from pages.ui.texts import flagged_phrases, texts_html, where_html
from pages.ui.widgets import case_of, keep_typed
from screening.review.policy import Action, Forbidden, is_allowed, require
from storage.batches import batches
from storage.research.listed import Cell
from storage.review import adjudication, reviews
from storage.review.evidence import CaseFile, CaseText, Evidence, reveal_case_file, reveal_evidence, reveal_text
from storage.visibility import NotYetRated, Unread, is_erased_now

db, person = context.database(), context.actor()
by = person.at(context.now())
key = context.settings().pseudonym_secret


def reveal_once(case_id: str) -> tuple[CaseText, Evidence]:
    """Read once a visit, and once more after it was erased: each time the text or the evidence is read is a line in
    the audit log.
    """
    name = f"case_page_{case_id}_{is_erased_now(db, case_id)}"
    if name not in st.session_state:
        shown = reveal_evidence(db, by, case_id, browsing=True)
        read = reveal_text(db, by, case_id), shown
        if shown.outcome is None:
            return read
        st.session_state[name] = read
    found: tuple[CaseText, Evidence] = st.session_state[name]
    return found


def engine(shown: Evidence, file: CaseFile) -> None:
    """Show what the agents did, and which attempts failed."""
    st.html('<h2 class="sl-h2">What the AI did</h2>')
    st.text(outcome_sentence(shown))
    st.html(trail_html(shown) + evidence_html(shown, opened=True))
    if any(run.label for run in shown.runs):
        st.caption(DELTA_MEANING)
    if file.errors:
        st.html('<h2 class="sl-h2">Attempts that failed</h2>')
        st.html(errors_html(file))
    may = file.waits_for_retry and is_allowed(person, Action.CONTROL_BATCH, file.batch_owner)
    if may and st.button("Retry what failed in this upload", key="retry", icon=":material/replay:"):
        batches.retry_failed(db, by, file.batch_id)
        st.rerun()


def texts(text: CaseText, *, flagged: bool = False) -> None:
    """The text or conversation, and the reply to it."""
    st.html(texts_html(text.text, text.thread, text.reply, flagged=flagged))


def people(case_id: str, *, closed: bool) -> None:
    """Reviews and accepted labels, for whom they are."""
    st.html('<h2 class="sl-h2">Reviews</h2>')
    try:
        given = reviews.reveal_reviews(db, by, case_id)
        made = adjudication.reveal_versions(db, by, case_id)
    except (Forbidden, Unread):
        st.caption("Other people's reviews are not shown to you.")
        return
    if given:
        st.html(reviews_html(given, key, person.id))
    else:
        st.caption("Nobody has reviewed it.")
    if made:
        st.html('<h2 class="sl-h2">Final label</h2>')
        st.html(versions_html(made, key, person.id))
    if not is_erased_now(db, case_id):  # nothing more is decided on it
        adjudication_form(db, by, case_id, given, made, closed=closed)


def blind(case_id: str) -> None:
    """An open case that this person has not read; a senior may decide between reviewers who disagree."""
    try:
        reviews.reveal_reviews(db, by, case_id)
    except (Forbidden, Unread):
        waits(case_id)
        return
    st.info(
        "Two reviewers disagree. The AI's result stays hidden, since you have not reviewed the case. A review of your "
        "own would not count as blinded any more, since theirs are shown to you here.",
        icon=":material/gavel:",
    )
    name = f"case_text_{case_id}"
    if name not in st.session_state:
        st.session_state[name] = reveal_text(db, by, case_id)
    texts(st.session_state[name])
    people(case_id, closed=False)


def waits(case_id: str) -> None:
    """The page while the case is in review and its outcome hidden: nothing of it is shown yet."""
    st.info("In review. Its history is shown once you have reviewed it yourself.", icon=":material/lock:")
    if is_allowed(person, Action.CLAIM_NAMED, person.id):
        st.page_link(FOLDER / "inbox.py", label="Review this case", query_params={"case": case_id})


def not_theirs() -> None:
    """The page for somebody who may see only their own cases, and neither holds this one nor has read it."""
    st.info(
        "This case is not assigned to you. Its history is shown to those who have reviewed it.", icon=":material/lock:"
    )
    if is_allowed(person, Action.CLAIM_NEXT):
        st.page_link(FOLDER / "inbox.py", label="To the inbox")


def case(case_id: str) -> None:
    """The page of one case."""
    if is_allowed(person, Action.VIEW_RESULTS):
        hide_switch(db, person)
    try:
        text, shown = reveal_once(case_id)
        file = reveal_case_file(db, by, case_id, browsing=True)
    except NotYetRated:
        blind(case_id)
        return
    except Forbidden as refused:
        remember_refusal(refused, case_id)
        not_theirs()
        return
    except KeyError:
        st.warning("There is no such case.", icon=":material/search_off:")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        phrases = (*flagged_phrases(text.text, text.thread), *flagged_phrases(text.reply or ""))
        st.html(facts_html(text.external_id, file, shown, phrases) + where_html(shown.where_to_act))
        texts(text, flagged=True)
        closed_follow_ups(db, person, case_id, key)
        people(case_id, closed=file.entry is not None and file.entry.closed_at is not None)
        if file.entry is None and shown.outcome is not None:
            send_panel(db, person, Cell(batch_id=file.batch_id, outcome=shown.outcome), [case_id])
    with right:
        engine(shown, file)


require(person, Action.VIEW_EVIDENCE, person.id)
st.html('<div class="sl-title"><h1>Case</h1></div>')
if (named := case_of(st.query_params.to_dict())) is not None:
    case(named)
else:
    st.info("No case selected.", icon=":material/article:")
keep_typed(person)
