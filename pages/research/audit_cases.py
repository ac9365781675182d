"""The cases behind the counts of the Reliability page: those that were read, and those whose readers changed a word."""

from collections.abc import Mapping, Sequence

import streamlit as st

from pages.research.case_reader import open_case_id, reader
from pages.research.cell_list import case_list
from pages.research.claims import Verified, switched
from pages.research.reliability_view import show_sample, show_switches
from screening.labels import Label, Outcome
from screening.review.actors import Actor
from storage.database import Database
from storage.research.listed import Cell
from storage.research.reading_table import Switch
from storage.research.reliability import audited_readings

CALLED = {Outcome.SAFE: "Called safe", Outcome.UNSAFE: "Called unsafe", Outcome.HUMAN_REVIEW: "Left to a person"}


def show_audit(db: Database, person: Actor, version: str, sample: Verified) -> None:
    """The sample, and what was read of it by outcome: each count opens its cases."""
    show_sample(sample)
    readings = audited_readings(db, person, version)
    found: dict[str, list[str]] = {}
    for outcome, words in CALLED.items():
        of_it = [(case_id, case) for case_id, case in readings if case.outcome is outcome]
        found[f"{words}, read"] = [case_id for case_id, case in of_it if case.read]
        found[f"{words}, unsafe"] = [case_id for case_id, case in of_it if case.read and case.label is Label.UNSAFE]
        found[f"{words}, inconclusive"] = [case_id for case_id, case in of_it if case.unclear]
    _open(db, person, found, "Cases of the audit", "audit_cases")
    st.caption("What is due or waits has no list: whoever reads it must not know that it is of the audit.")


def show_revised(db: Database, person: Actor, found: Sequence[Switch]) -> None:
    """How often a reading changed after the reveal, and the cases where it did."""
    show_switches(switched(found))
    changed = [one for one in found if one.first != one.last]
    known = [one for one in changed if one.reference is not None]
    kinds = {
        "Changed after the reveal": changed,
        "Right first, then wrong": [one for one in known if one.first == one.reference],
        "Wrong first, then right": [one for one in known if one.last == one.reference],
    }
    cases = {words: list(dict.fromkeys(one.case_id for one in of_it)) for words, of_it in kinds.items()}
    _open(db, person, cases, "Cases with such a reading", "switch_cases")


def _open(db: Database, person: Actor, found: Mapping[str, Sequence[str]], title: str, key: str) -> None:
    """The counts as choices; the chosen one's cases as a list with the reader below it."""
    counted = {f"{words} {len(ids):,}": tuple(ids) for words, ids in found.items() if ids}
    if not counted:
        return
    chosen = st.pills(title, list(counted), key=key)
    if chosen is None:
        return
    page = case_list(db, person, Cell(batch_id="", ids=counted[chosen]), all_outcomes=True)
    if (case_id := open_case_id(page.ids)) is not None:
        reader(db, person, page.ids, case_id)
