"""One case with its text, reviews and whole trail; nothing of the AI before it may be seen."""

from collections.abc import Iterator, Sequence

import streamlit as st

from pages.research.case_list import hide_switch, send_panel
from pages.review.evidence_view import engine_label, evidence_html, flag_sentence, outcome_sentence, trail_html
from pages.review.inbox_words import FOR_WORDS, HOW_CERTAIN, HOW_WORDS, LABEL_WORDS, PRIORITY_WORDS, why_words
from pages.ui import context, shell, widgets
from pages.ui.html import FlaggedPhrase, flagged_phrases, macros, texts_html, where_html
from pages.ui.words import DELTA_MEANING, error_words, local_time, sentence, words_of
from screening.review.policy import Action, Forbidden, is_allowed, pseudonym, require
from screening.text.display import visible
from screening.text.injection import injection_signs
from screening.words import count_of
from storage.batches import batches
from storage.database import Stale
from storage.research.cells import Cell
from storage.review import adjudication, follow_ups, reviews
from storage.review.adjudication import Adjudication, Method
from storage.review.claims import Incomplete, NotAvailable
from storage.review.evidence import CaseFile, CaseText, Evidence, reveal_case_file, reveal_evidence, reveal_text
from storage.review.follow_ups import For, How
from storage.review.reviews import Review
from storage.visibility import NotYetReviewed, Unread, is_erased

METHOD_WORDS = words_of(Method, "method")
ALONE, DISCUSSED = "alone", "in a discussion"
DECIDED_MEANWHILE = "Somebody else has decided on this case meanwhile: look at it, then press again."
SEEN = "decide_seen"
NOT_FILLED_IN: tuple[object, ...] = ("", None, [], "not_stated", "undecided")

db, person = context.database(), context.actor()
by = person.at(context.now())
key = context.settings().pseudonym_secret
trail = macros("trail")


def who(account_id: str) -> str:
    return "you" if account_id == person.id else "Second Look" if account_id == "system" else pseudonym(key, account_id)


def reveal_once(case_id: str) -> tuple[CaseText, Evidence]:
    """Read once a visit, and once more after it was erased: each time is a line in the audit log."""
    name = f"case_page_{case_id}_{is_erased(db, case_id)}"
    if name not in st.session_state:
        shown = reveal_evidence(db, by, case_id, browsing=True)
        read = reveal_text(db, by, case_id), shown
        if shown.outcome is None:
            return read
        st.session_state[name] = read
    found: tuple[CaseText, Evidence] = st.session_state[name]
    return found


def facts(
    text: CaseText, file: CaseFile, evidence: Evidence, phrases: Sequence[FlaggedPhrase]
) -> Iterator[tuple[str, str]]:
    yield "ID", visible(text.external_id)
    row = file.case
    yield "From", f"{row.batch_name}, row {row.row}"
    yield "Received", f"{local_time(row.created_at)} · SHA-256 {row.text_sha256[:16]}…"
    if row.not_screened is not None:
        yield "Not screened", visible(row.not_screened)
    if row.group_name is not None:
        yield "Group", row.group_name
    known = f"{evidence.reference} (“{evidence.reference_value}” in the file)"
    yield "Original label", "none" if evidence.reference is None else known
    for part, flags in row.flags.items():
        for flag in flags:
            yield f"Found in the {part}", flag_sentence(flag)
    for phrase in phrases:
        yield "Rule", phrase.words
    for name, (received, shown) in file.parts.items():
        where = "" if name == "text" else f" (in the {name})"
        for sign in sorted({str(sign.kind) for sign in injection_signs(shown, received)}):
            yield "Sign of injection", sign.replace("_", " ") + where
    if file.entry is not None:
        entry = file.entry
        state = f"closed {local_time(entry.closed_at)}" if entry.closed_at else f"open, {entry.review_round} review"
        why = why_words(entry.why, settled=engine_label(evidence) is not None)
        yield "Queue", f"{PRIORITY_WORDS[entry.priority]}: {why} · {state}"
    if evidence.configuration_version is not None:
        yield "Ran with", f"configuration {evidence.configuration_version[:16]}…"


def fields_words(review: Review) -> str:
    body = review.form.model_dump(mode="json", exclude={"label", "certainty", "marks", "read_to_end"})
    said = {name: value for name, value in body.items() if value not in NOT_FILLED_IN}
    lists = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in said.items()
    }
    words = [f"{name}: {value}".replace("_", " ") for name, value in lists.items()]
    if review.form.read_to_end is False:
        words.append("submitted before scrolling to the end")
    return "; ".join(words)


def reviews_html(given: Sequence[Review]) -> str:
    shown = []
    for each in given:
        version = f", version {each.version}" if each.version > 1 else ""
        blind = "blinded" if each.blind else "not blinded"
        told = (who(each.reviewer), f"{each.review_round} review{version}", blind, local_time(each.at))
        label, certainty = LABEL_WORDS[each.form.label], HOW_CERTAIN[each.form.certainty]
        words = {"label": label, "certainty": certainty, "facts": " · ".join(told)}
        shown.append(words | {"fields": fields_words(each), "reason": each.reason or ""})
    return trail.reviews(shown)


def versions_html(versions: Sequence[Adjudication]) -> str:
    shown = []
    for last, each in zip([None, *versions], versions, strict=False):
        was = LABEL_WORDS[last.label] if last is not None and last.label is not each.label else ""
        given = f"on {count_of(len(each.review_ids), 'review')}"
        told = " · ".join((METHOD_WORDS[each.method], who(each.by), given, local_time(each.at)))
        words = {"was": was, "label": LABEL_WORDS[each.label], "facts": told, "reason": each.reason}
        shown.append({"version": each.version, **words})
    return trail.versions(shown)


def decide(case_id: str, given: Sequence[Review], made: Sequence[Adjudication], *, closed: bool) -> None:
    """Label, reason and the button, for seniors only; nothing where nobody has read the case, or where it was closed
    without a label because it was erased. A reviewer whom another one contradicts does not decide between the two
    alone.
    """
    if not given or (closed and not made) or not is_allowed(person, Action.ADJUDICATE):
        return
    with st.container(border=True, key="adjudication"):
        st.html(f'<h2 class="sl-h2">{"Change the final label" if closed else "Decide"}</h2>')
        alert = st.empty()
        first, seen = versions_seen(case_id, len(made))
        label = st.pills(
            "Final label", list(LABEL_WORDS), key=f"decide_{case_id}_{first}", format_func=LABEL_WORDS.__getitem__
        )
        why = f"decide_why_{case_id}_{first}"
        reason = st.text_input("Why", key=why, max_chars=2_000)
        party = adjudication.is_party(person, list(dict.fromkeys(review.reviewer for review in given)))
        ways = [DISCUSSED] if party else [ALONE, DISCUSSED]
        way = None if closed else st.pills("How", ways, key=f"decide_how_{case_id}_{first}", default=ways[0])
        if not st.button("Save", key=f"record_{case_id}_{first}", type="primary", icon=":material/gavel:"):
            return
        if seen != len(made):
            st.session_state[SEEN] = case_id, first, len(made)
            alert.error(DECIDED_MEANWHILE, icon=":material/edit_note:")
        elif label is None:
            alert.error("Select a label.", icon=":material/edit:")
        else:
            try:
                last = made[-1].version if closed else None
                adjudication.adjudicate(db, by, case_id, label, reason, last, discussed=way == DISCUSSED)
            except (Incomplete, Stale, NotAvailable) as refused:
                alert.error(sentence(refused), icon=":material/edit_note:")
                return
            widgets.forget_typed(why)
            del st.session_state[SEEN]
            st.rerun()


def versions_seen(case_id: str, versions: int) -> tuple[int, int]:
    """How many versions there were when this person began to fill in the form, by which its fields are called, and how
    many they have seen since: what is filled in stays when somebody else decides.
    """
    kept, first, seen = st.session_state.get(SEEN, ("", 0, 0))
    begun = any(st.session_state.get(f"{name}_{case_id}_{first}") for name in ("decide", "decide_why"))
    if kept != case_id or not begun:
        first = seen = versions
    st.session_state[SEEN] = case_id, first, seen
    return first, seen


def closed_follow_ups(case_id: str) -> None:
    """What became of its follow-ups, their closers under pseudonyms as its reviewers are."""
    if not is_allowed(person, Action.FOLLOW_UP, person.id):
        return
    found = follow_ups.closed_ones(db, person, case_id)
    if found:
        st.html('<h2 class="sl-h2">Follow-ups</h2>')
    for one in found:
        late = ", after it was due" if one.closed_at > one.due_at else ""
        done = f"{HOW_WORDS[How(one.how)].lower()} by {who(one.closed_by)}"
        st.text(f"{FOR_WORDS[For(one.disposition)]} · {done}, {local_time(one.closed_at)}{late}")
        st.text(visible(one.note or ""))


def engine(shown: Evidence, file: CaseFile) -> None:
    st.html('<h2 class="sl-h2">What the AI did</h2>')
    st.text(outcome_sentence(shown))
    st.html(trail_html(shown) + evidence_html(shown, opened=True))
    if any(run.label for run in shown.runs):
        st.caption(DELTA_MEANING)
    if file.errors:
        st.html('<h2 class="sl-h2">Attempts that failed</h2>')
        said = [
            f"{error_words(each.kind)}; {count_of(each.calls, 'call')} without an answer. {each.message}"
            for each in file.errors
        ]
        st.html(trail.facts(zip((local_time(each.at) for each in file.errors), said, strict=True)))
    may = file.case.waits_for_retry and is_allowed(person, Action.CONTROL_BATCH, file.case.batch_owner)
    if may and st.button("Retry what failed in this upload", key="retry", icon=":material/replay:"):
        batches.retry_failed(db, by, file.case.batch_id)
        st.rerun()


def people(case_id: str, *, closed: bool) -> None:
    st.html('<h2 class="sl-h2">Reviews</h2>')
    try:
        given = reviews.reveal_reviews(db, by, case_id)
        made = adjudication.reveal_versions(db, by, case_id)
    except (Forbidden, Unread):
        st.caption("Other people's reviews are not shown to you.")
        return
    if given:
        st.html(reviews_html(given))
        if person.id in {each.reviewer for each in given}:
            st.page_link(shell.FOLDER / "inbox.py", label="Edit my review", query_params={"case": case_id})
    else:
        st.caption("Nobody has reviewed it.")
    if made:
        st.html('<h2 class="sl-h2">Final label</h2>')
        st.html(versions_html(made))
    if not is_erased(db, case_id):  # nothing more is decided on it
        decide(case_id, given, made, closed=closed)


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
    text: CaseText = st.session_state[name]
    st.html(texts_html(text.text, text.thread, text.reply))
    people(case_id, closed=False)


def waits(case_id: str) -> None:
    """The page while the case is in review and its outcome hidden: nothing of it is shown yet."""
    st.info("In review. Its history is shown once you have reviewed it yourself.", icon=":material/lock:")
    if is_allowed(person, Action.CLAIM_NAMED, person.id):
        st.page_link(shell.FOLDER / "inbox.py", label="Review this case", query_params={"case": case_id})


def case(case_id: str) -> None:
    if is_allowed(person, Action.VIEW_RESULTS):
        hide_switch(db, person)
    try:
        text, shown = reveal_once(case_id)
        file = reveal_case_file(db, by, case_id, browsing=True)
    except NotYetReviewed:
        blind(case_id)
        return
    except Forbidden as refused:
        context.remember_refusal(refused, case_id)
        words = "This case is not assigned to you. Its history is shown to those who have reviewed it."
        st.info(words, icon=":material/lock:")
        if is_allowed(person, Action.CLAIM_NEXT):
            st.page_link(shell.FOLDER / "inbox.py", label="Open the queue")
        return
    except KeyError:
        st.warning("There is no such case.", icon=":material/search_off:")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        phrases = (*flagged_phrases(text.text, text.thread), *flagged_phrases(text.reply or ""))
        st.html(trail.facts(facts(text, file, shown, phrases)) + where_html(shown.where_to_act))
        st.html(texts_html(text.text, text.thread, text.reply, flagged=True))
        closed_follow_ups(case_id)
        people(case_id, closed=file.entry is not None and file.entry.closed_at is not None)
        if file.entry is None and shown.outcome is not None:
            send_panel(db, person, Cell(batch_id=file.case.batch_id, outcome=shown.outcome), [case_id])
    with right:
        engine(shown, file)


require(person, Action.VIEW_EVIDENCE, person.id)
st.title("Case")
if (named := widgets.case_of(st.query_params.to_dict())) is not None:
    case(named)
else:
    st.info("No case selected.", icon=":material/article:")
widgets.keep_typed(person)
