"""One case of a list after the other: its text, what is known of it, tags, remarks, the way to its neighbours."""

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from pages.components import resources
from pages.components.case_link import case_link
from pages.components.refusals import remember_refusal
from pages.components.thread import texts_html
from pages.components.words import literal
from pages.research.case_words import outcome_words, reason_words
from screening.research.likeness import MOST_COMPARED, most_alike
from screening.review.actors import Actor
from screening.review.policy import Forbidden
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.erased import is_erased_now
from storage.research.case_tags import add_remark, add_tag, remarks, remove_tag, tag_counts
from storage.research.cells import CaseInCell, listed_case, take_texts_to_compare
from storage.review.evidence import CaseText, reveal_text

QUICK_TAGS = 5
OPEN = "reader_case"


def open_case(case_id: str | None) -> None:
    """Show this case in the reader; None closes it. For callbacks: a fast key is not lost."""
    st.session_state[OPEN] = case_id
    if case_id is None:
        st.query_params.pop("case", None)
    else:
        st.query_params["case"] = case_id


def open_case_id(ids: Sequence[str]) -> str | None:
    """The case that is open in the reader, if it is one of this list."""
    case_id = st.query_params.get("case")
    return case_id if case_id in ids else None


def reader(db: Database, person: Actor, ids: Sequence[str], case_id: str) -> None:
    """The case, and buttons with keys to the one before and after it in the list."""
    case = listed_case(db, person.at(resources.now()), case_id)
    if case is None:
        return
    with st.container(border=True, key="reader"):
        _steps(ids, case)
        _text(db, person, case)
        st.html(f'<p style="margin:0">{facts_html(case)}</p>')
        if case.hidden:
            st.caption("In review: its outcome is hidden by the switch above the list.")
        else:
            _alike(db, person, ids, case)
            _tags(db, person, case)
            _remarks(db, person, case)


def facts_html(case: CaseInCell) -> str:
    """Reference with the file's own value, the accepted label, and how the agents ended, in a line."""
    value = f" ({escape(visible(case.reference_value))}, file)" if case.reference_value else ""
    facts = [f"Reference <b>{escape(case.reference or 'none')}</b>{value}"]
    if case.hidden:
        return facts[0]
    if case.accepted:
        facts.append(f"final label <b>{escape(case.accepted.replace('_', ' '))}</b>")
    facts.append(f"outcome <b>{escape(outcome_words(case.outcome))}</b>")
    if case.node:
        facts.append(f"{escape(case.node.title())}: {escape(reason_words(case.reason))}")
    if case.calls is not None:
        facts.append(count_of(case.calls, "call"))
    if case.gap is not None:
        facts.append(f"gap {case.gap:.2f}")
    return " · ".join(facts)


def _steps(ids: Sequence[str], case: CaseInCell) -> None:
    at = ids.index(case.case_id)
    before, after = (ids[at - 1] if at else None), (ids[at + 1] if at + 1 < len(ids) else None)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(f"<b>{escape(visible(case.external_id))}</b> row {case.row:,} · {at + 1:,} of {len(ids):,}")
        for words, key, target in (("Previous", "k", before), ("Next", "j", after)):
            st.button(
                words, key=f"reader_{words}", shortcut=key, on_click=open_case, args=(target,), disabled=target is None
            )
        case_link(case.case_id)
        st.button("Close", key="reader_close", on_click=open_case, args=(None,))


def _text(db: Database, person: Actor, case: CaseInCell) -> None:
    """Each text is read, and logged, once a visit, and once more after it was erased."""
    kept = f"reader_texts_{is_erased_now(db, case.case_id)}"
    seen: dict[str, CaseText | None] = st.session_state.setdefault(kept, {})
    if case.case_id not in seen:
        try:
            seen[case.case_id] = reveal_text(db, person.at(resources.now()), case.case_id)
        except Forbidden as refused:
            remember_refusal(refused, case.case_id)
            seen[case.case_id] = None
    text = seen[case.case_id]
    if text is None:
        st.caption("Your role does not let you read texts.")
        return
    st.html(texts_html(text.text, text.thread, text.reply, label="Text"))


def _alike(db: Database, person: Actor, ids: Sequence[str], case: CaseInCell) -> None:
    """The most alike of the list, by choice: their texts are compared, not shown."""
    if len(ids) < 2 or not st.toggle("The most like it in this list", key="reader_alike"):
        return
    near = ids[max(0, ids.index(case.case_id) - MOST_COMPARED // 2) :][:MOST_COMPARED]
    key = f"alike_{hash(tuple(near))}"
    texts: Mapping[str, str] = st.session_state.get(key) or {}
    try:
        texts = texts or take_texts_to_compare(db, person.at(resources.now()), near)
    except Forbidden as refused:
        remember_refusal(refused)
        st.caption("Your role does not let you compare texts.")
        return
    st.session_state[key] = texts
    found = most_alike(texts, case.case_id)
    if not found:
        st.caption("No other text of this list is like it.")
    with st.container(horizontal=True):
        for place, (other, alike) in enumerate(found):
            row = ids.index(other) + 1
            words = f"Number {row:,} of the list ({alike:.2f})"
            st.button(words, key=f"alike_{place}", on_click=open_case, args=(other,))


def _tags(db: Database, person: Actor, case: CaseInCell) -> None:
    counts = tag_counts(db, person, case.batch_id)
    for tag in case.tags:
        st.button(f"✕ {literal(tag)}", key=f"untag_{tag}", on_click=_untag, args=(db, person, case.case_id, tag))
    quick = [tag for tag in counts if tag not in case.tags][:QUICK_TAGS]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for number, tag in enumerate(quick, start=1):
            st.button(
                f"{literal(tag)} ({counts[tag]:,})",
                key=f"tag_{case.case_id}_{number}",
                shortcut=str(number),
                on_click=_tag,
                args=(db, person, case.case_id, tag),
            )
        with st.form(f"new_tag_{case.case_id}", clear_on_submit=True, border=False), st.container(horizontal=True):
            words = st.text_input("New tag", placeholder="sarcasm, lyrics …", max_chars=40, width=220)
            if st.form_submit_button("Tag") and words.strip():
                _tag(db, person, case.case_id, words)
                st.rerun()


def _tag(db: Database, person: Actor, case_id: str, words: str) -> None:
    try:
        add_tag(db, person.at(resources.now()), case_id, words)
    except ValueError as refused:
        st.toast(literal(str(refused)))


def _untag(db: Database, person: Actor, case_id: str, tag: str) -> None:
    remove_tag(db, person.at(resources.now()), case_id, tag)


def _remarks(db: Database, person: Actor, case: CaseInCell) -> None:
    written = remarks(db, person, case.case_id)
    with st.expander(f"Remarks ({len(written)})"):
        for one in written:
            st.text(f"{one.at:%Y-%m-%d %H:%M} {visible(one.author)}: {visible(one.remark)}")
        with st.form(f"remark_{case.case_id}", clear_on_submit=True, border=False):
            st.text_area("New remark", max_chars=4_000, height=80, key=f"new_remark_{case.case_id}")
            st.form_submit_button("Keep this remark", on_click=_remark, args=(db, person, case.case_id))


def _remark(db: Database, person: Actor, case_id: str) -> None:
    """Keep it, or say why not and show what was written: the field is empty by then, or gone with the case."""
    words = str(st.session_state[f"new_remark_{case_id}"])
    try:
        if words.strip():
            add_remark(db, person.at(resources.now()), case_id, words)
    except ValueError as refused:
        st.error(f"Your remark was not kept: {literal(str(refused))}.")
        st.code(visible(words), language=None, wrap_lines=True)
