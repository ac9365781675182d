"""The beginnings of texts in a list: only by choice, without what identifies people, fetched and logged once each."""

import re
from collections.abc import Mapping, MutableMapping, Sequence

import streamlit as st

from pages.components import resources
from screening.review.actors import Actor
from screening.text.display import visible
from storage.database import Database
from storage.research.cells import reveal_text_starts

_IDENTIFYING = re.compile(r"\bhttps?://\S+|\bwww\.\S+|\S+@\S+\.\S+|[@#]\w+|u/\w+|\d(?:[\d ./-]*\d){3,}", re.IGNORECASE)


def mask_line(start: str) -> str:
    """One line of text with addresses, handles and long numbers taken out.

    >>> mask_line("call me on 0123 456 789,\\nor @someone")
    'call me on ▒▒▒, or ▒▒▒'
    """
    return _IDENTIFYING.sub("▒▒▒", visible(" ".join(start.split())))


def starts_of(db: Database, person: Actor, case_ids: Sequence[str]) -> Mapping[str, str]:
    """The masked beginning of each text; each is one view in the audit log, however often the page is drawn."""
    seen: MutableMapping[str, str] = st.session_state.setdefault("text_starts", {})
    if missing := [case_id for case_id in case_ids if case_id not in seen]:
        found = reveal_text_starts(db, person, missing, resources.now())
        seen.update({case_id: mask_line(start) for case_id, start in found.items()})
    return seen
