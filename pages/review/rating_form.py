"""The form on the right of the inbox. Digit keys only select; nothing is stored but the draft until it is saved."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import streamlit as st
from pydantic import ValidationError

from pages.review.inbox_desk import Here
from pages.review.inbox_words import CERTAINTY_WORDS, LABEL_WORDS
from pages.review.shortcuts import key_of
from screening.review.rating_form import (
    Behaviour,
    Disposition,
    Intent,
    Means,
    Plan,
    ProtectiveFactor,
    RatingForm,
    RatingLabel,
    ReasonCode,
    Subject,
    Timeframe,
    contradictions,
)
from storage.review.drafts import load_draft, save_draft

LABEL_KEYS = {RatingLabel.SAFE: "1", RatingLabel.UNSAFE: "2", RatingLabel.INSUFFICIENT_INFORMATION: "3"}
CERTAINTY_KEYS = {1: "4", 2: "5", 3: "6", 4: "7", 5: "8"}
LEVELS = {
    0: "0 denied",
    1: "1 wish to be dead",
    2: "2 thoughts of it",
    3: "3 with a method",
    4: "4 with intent",
    5: "5 with a plan",
}
_CODING: tuple[tuple[str, str, type[StrEnum]], ...] = (
    ("intent", "Intent", Intent),
    ("plan", "Plan", Plan),
    ("means", "Means", Means),
    ("behaviour", "Behaviour", Behaviour),
    ("timeframe", "Timeframe", Timeframe),
)

Draft = dict[str, Any]


def words(value: Any) -> str:
    """A value of the form as it is shown."""
    return str(value).replace("_", " ")


def draft_of(here: Here, case_id: str, start: RatingForm | None = None) -> Draft:
    """What is filled in so far: from the session, else as it was kept, else from a reading to be revised."""
    name = f"draft_{case_id}{'' if start is None else '_revision'}"
    if name not in st.session_state:
        kept = load_draft(here.db, here.person, case_id) if start is None else start.model_dump(mode="json")
        st.session_state[name] = dict(kept or {})
    draft: Draft = st.session_state[name]
    return draft


def choices(draft: Draft, case_id: str) -> bool:
    """Label and certainty as buttons with digit keys; true when one was chosen in this run."""
    chosen = False
    with st.container(key="label_choice", gap="xsmall"):
        st.html('<p class="sl-small" id="label-of-label">Label of the text</p>')
        with st.container(horizontal=True, gap="xsmall"):
            for label, key in LABEL_KEYS.items():
                chosen |= _choice(draft, "label", label.value, LABEL_WORDS[label], f"label_{case_id}_{label}", key)
    with st.container(key="certainty_choice", gap="xsmall"):
        st.html('<p class="sl-small">How certain you are</p>')
        with st.container(horizontal=True, gap="xsmall"):
            for level, key in CERTAINTY_KEYS.items():
                name = f"certainty_{case_id}_{level}"
                chosen |= _choice(draft, "certainty", level, CERTAINTY_WORDS[level], name, key)
    return chosen


def _choice(draft: Draft, field: str, value: Any, shown: str, name: str, key: str) -> bool:
    picked = draft.get(field) == value
    mark = "✓ " if picked else ""
    if st.button(f"{mark}{shown}", key=name, shortcut=key_of(key), type="primary" if picked else "secondary"):
        draft[field] = value
        return True
    return False


def more_fields(draft: Draft, case_id: str) -> None:
    """The fields that are not compulsory, folded; all of them can be reached by Tab."""
    with st.expander("What the text says (optional)", key=f"coding_{case_id}"):
        _one(draft, case_id, "subject", "Whom it is about", _values(Subject))
        _one(draft, case_id, "ideation", "Ideation; nothing chosen is not stated", list(LEVELS), LEVELS)
        for field, title, values in _CODING:
            _one(draft, case_id, field, title, _values(values))
        _many(draft, case_id, "protective_factors", "Protective factors", _values(ProtectiveFactor))
    with st.expander("Reasons, disposition, note (optional)", key=f"reasons_{case_id}"):
        _many(draft, case_id, "reason_codes", "What makes it hard, or went wrong", _values(ReasonCode))
        _one(draft, case_id, "disposition", "What should happen next", _values(Disposition))
        draft["note"] = st.text_area(
            "Note", key=_held(draft, case_id, "note", ""), height=90, max_chars=4_000, help="Kept with your reading."
        )


def _values(kind: type[StrEnum]) -> list[str]:
    """What can be chosen: choosing nothing is "not stated" or "undecided"."""
    return [value.value for value in kind if value.value not in ("not_stated", "undecided")]


def _held(draft: Draft, case_id: str, field: str, nothing: Any) -> str:
    """The widget's key, its value set from the draft when it is first shown."""
    name = f"{field}_{case_id}"
    if name not in st.session_state:
        st.session_state[name] = draft.get(field, nothing)
    return name


def _one(
    draft: Draft, case_id: str, field: str, title: str, values: Sequence[Any], shown: Mapping[Any, str] | None = None
) -> None:
    name = _held(draft, case_id, field, None)
    if st.session_state[name] not in values:
        st.session_state[name] = None  # "not stated" is nothing chosen
    picked = st.pills(title, values, key=name, format_func=shown.__getitem__ if shown else words)
    if picked is None:
        draft.pop(field, None)
    else:
        draft[field] = picked


def _many(draft: Draft, case_id: str, field: str, title: str, values: Sequence[Any]) -> None:
    name = _held(draft, case_id, field, [])
    draft[field] = list(st.pills(title, values, key=name, selection_mode="multi", format_func=words))


def keep_draft(here: Here, case_id: str, draft: Draft) -> None:
    """Keep it in the database where it differs from what was kept last."""
    last = f"kept_{case_id}"
    filled = {field: value for field, value in draft.items() if value not in ("", [], None)}
    if st.session_state.get(last) != filled and (filled or last in st.session_state):
        save_draft(here.db, here.person, case_id, filled, here.now)
        st.session_state[last] = filled


def keep_typed(here: Here, case_id: str, draft: Draft) -> None:
    """The draft with a note that was typed since, for a session that ends before the page runs again."""
    typed = st.session_state.get(f"note_{case_id}") or draft.get("note", "")
    keep_draft(here, case_id, {**draft, "note": typed})


def form_of(draft: Draft) -> RatingForm | None:
    """The form, None while label or certainty are missing."""
    try:
        return RatingForm.model_validate({field: value for field, value in draft.items() if value is not None})
    except ValidationError:
        return None


def missing(draft: Draft) -> str:
    """What is still to be chosen, in words."""
    lacking = [name for field, name in (("label", "a label"), ("certainty", "a certainty")) if field not in draft]
    return f"Choose {' and '.join(lacking)} first." if lacking else "Something in the form cannot be read."


def point_out(draft: Draft) -> None:
    """Contradictions, said and never corrected."""
    form = form_of(draft)
    if form is not None and (found := contradictions(form)):
        st.warning("  \n".join(found), icon=":material/compare_arrows:")
