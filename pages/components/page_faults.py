"""What a page says when it fails: that the database can't be used now, or that the program is at fault."""

import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.notices import notice_html
from pages.components.words import literal, sentence
from storage.batches.configurations import UnreadableConfiguration
from storage.batches.pipelines import UnreadablePipeline
from storage.database import Fault, passing_fault
from storage.settings_store import SiteSettings

RETRY_S = 2.0
WORDS: Mapping[Fault, str] = {
    Fault.AWAY: "The database does not answer.",
    Fault.LOST: "The database does not answer.",
    Fault.BUSY: "The database is busy or full.",
    Fault.STATEMENT: "The database did not answer in time.",
    Fault.READ_ONLY: "The database cannot be written: its disk is read-only.",
    Fault.DAMAGED: "The database is damaged: call whoever runs this site. The last backup has to be restored.",
}
SAVED = "What said that it was saved is saved; what you pressed last may not be."
BY_ITSELF = "What this page shows may be out of date. It tries again by itself."
AGAIN = "Try again in a moment."
OURS = "This page met a fault of the program."
NUMBER = "Load the page again. If it fails again, give this number to whoever runs this site:"
ANOTHER = "It is in force: an administrator puts another one in force on the page Pipelines."
ELSEWHERE = "What was screened with it stands in Results, Errors and the exports."
NOTICED = "noticed"
"""In the session once its page has its notice."""

log = logging.getLogger(__name__)


def passing_words(error: Exception) -> str | None:
    """What is wrong with the database where that passes by itself; None for every other error.

    >>> from sqlalchemy.exc import TimeoutError
    >>> passing_words(TimeoutError()), passing_words(ValueError())
    ('The database is busy or full.', None)
    """
    fault = passing_fault(error)
    return None if fault is None else WORDS[fault]


def say_notice(place: DeltaGenerator, html: str) -> None:
    """Write every page's notice in its place, where it stays until a run writes it anew: emptied at a run's begin, it
    would move all that stands below it.
    """
    place.html(html)
    st.session_state[NOTICED] = True


@contextmanager
def run_again_while_away(notice: DeltaGenerator, place: DeltaGenerator) -> Iterator[None]:
    """Around a run of the whole page: while the database can't be used, ``place`` says so and the page runs again.
    A page that has no ``notice`` yet gets the one that every site has.

    What the page showed stays meanwhile, since a run that ends in another one clears nothing: a desk and what is
    filled in on it are still there afterwards.
    """
    try:
        yield
    except Exception as error:
        if (words := passing_words(error)) is None:
            raise
        if NOTICED not in st.session_state:
            say_notice(notice, notice_html(SiteSettings(), simulated=False))
        place.error(f"{words} {SAVED} {BY_ITSELF}", icon=":material/database_off:")
        time.sleep(RETRY_S)
        st.rerun()


def say_fault(error: Exception) -> bool:
    """Say in our words that the page, or the part of it that ran alone, failed; True: the library need not say it.

    For the app's ``on_script_error``. The library has logged the error by then; the number leads to its place there.
    """
    if (words := passing_words(error)) is not None:
        st.error(f"{words} {SAVED} {AGAIN}", icon=":material/database_off:")
    elif isinstance(error, UnreadablePipeline):
        st.error(f"{literal(sentence(error))} {ANOTHER}", icon=":material/account_tree:")
    elif isinstance(error, UnreadableConfiguration):
        st.error(f"{literal(sentence(error))} {ELSEWHERE}", icon=":material/account_tree:")
    else:
        number = secrets.token_hex(3)
        log.error("page fault %s: %s", number, type(error).__name__)
        st.error(f"{OURS} {SAVED} {NUMBER} {number}.", icon=":material/error:")
    return True
