"""The cases behind the counts of the Reliability page: of the audit, its flow and its strata, of drift, and those
whose readers changed a word.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from pages.research.allocation_panel import WORDS as SPOKE
from pages.research.allocation_panel import allocation_panel
from pages.research.case_reader import open_case_id, reader
from pages.research.cell_list import case_list
from pages.research.claims import FLOW_AUDITED, FLOW_NOT_AUDITED, FLOW_SETTLED, Verified, flow, switched
from pages.research.reliability_view import show_drift, show_sample, show_switches
from screening.engine.doubt import Doubt
from screening.labels import Label, Outcome
from screening.review.actors import Actor
from storage.database import Database
from storage.research.listed import MOST_LISTED, Cell
from storage.research.outcome_mix import Settled, settled_cases
from storage.research.reading_table import Switch
from storage.research.reliability import AuditedReading, audited_readings

CALLED = {Outcome.SAFE: "Called safe", Outcome.UNSAFE: "Called unsafe", Outcome.HUMAN_REVIEW: "Left to a person"}
WAITING = "What waits for your reading is counted and not listed: it is read without the engine's view."


def show_audit(db: Database, person: Actor, version: str, sample: Verified) -> None:
    """The sample, and the cases of its counts: of the flow, and what was read by outcome."""
    show_sample(sample)
    readings = audited_readings(db, person, version)
    found = _flow_cases(db, person, version, sample, readings)
    for outcome, words in CALLED.items():
        of_it = [each for each in readings if each.case.outcome is outcome]
        found |= {
            f"{words}, read": _known(each for each in of_it if each.case.read),
            f"{words}, unsafe": _known(each for each in of_it if each.case.read and each.case.label is Label.UNSAFE),
            f"{words}, inconclusive": _known(each for each in of_it if each.case.unclear),
        }
    _open(db, person, found, "Cases of the audit", "audit_cases")
    st.caption(
        "What is due or waits has no list: whoever reads it must not know that it is of the audit. Nor do the lists of "
        "what was settled hold what waits for your reading."
    )


def _flow_cases(
    db: Database, person: Actor, version: str, sample: Verified, readings: Sequence[AuditedReading]
) -> dict[str, "Behind"]:
    """What stands behind the counts of the flow, but for those of what is due."""
    counts = dict(flow(sample))
    stages = {
        "Settled": (FLOW_SETTLED, Settled()),
        "Not under audit": (FLOW_NOT_AUDITED, Settled(under_audit=False)),
        "Under audit": (FLOW_AUDITED, Settled(under_audit=True)),
        **{words: (words.lower(), Settled(under_audit=True, outcome=outcome)) for outcome, words in CALLED.items()},
    }
    found = {words: _settled(db, person, version, counts[row], wanted) for words, (row, wanted) in stages.items()}
    return found | {
        "Read": _known(each for each in readings if each.case.read),
        "Inconclusive": _known(each for each in readings if each.case.unclear),
        "Read, but not blind": _known(audited_readings(db, person, version, blind=False)),
    }


def show_moved(db: Database, person: Actor, version: str, found: Verified) -> None:
    """The drift, and the cases of each share in the reference and since."""
    show_drift(found)
    counted = {}
    for share in found.drift.shares:
        for words, part, early in (("reference", share.reference, True), ("since", share.since, False)):
            wanted = Settled(first_end=share.name, in_reference=early)
            counted[f"{share.name}, {words}"] = _settled(db, person, version, part.numerator, wanted)
    _open(db, person, counted, "Cases that ended so at the first agent", "drift_cases")
    if counted:
        st.caption(WAITING)


def show_strata(db: Database, person: Actor, version: str, found: Verified) -> None:
    """The allocation, and the cases of its counts."""
    allocation_panel(db, person, found)
    readings = [each for each in audited_readings(db, person, version) if each.by_coin and each.case.read]
    counted = {}
    for seen in found.sample.seen:
        words, of_it = SPOKE[Doubt(seen.name)].capitalize(), [each for each in readings if each.doubt == seen.name]
        counted[words] = _settled(db, person, version, seen.cases, Settled(doubt=seen.name))
        counted[f"{words}, read"] = _known(of_it)
        counted[f"{words}, unsafe"] = _known(each for each in of_it if each.case.label is Label.UNSAFE)
    _open(db, person, counted, "Cases called safe, by what spoke against it", "allocation_cases")
    if counted:
        st.caption(WAITING)


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
    cases = {words: tuple(dict.fromkeys(one.case_id for one in of_it)) for words, of_it in kinds.items()}
    counted = {words: Behind(count=len(ids), ids=partial(tuple, ids)) for words, ids in cases.items()}
    _open(db, person, counted, "Cases with such a reading", "switch_cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A count and its cases, which are looked up once they are asked for: `MOST_LISTED` at most."""

    count: int
    ids: Callable[[], tuple[str, ...]]


def _known(readings: Iterable[AuditedReading]) -> Behind:
    ids = tuple(each.case_id for each in readings)
    return Behind(count=len(ids), ids=lambda: ids)


def _settled(db: Database, person: Actor, version: str, count: int, wanted: Settled) -> Behind:
    return Behind(count=count, ids=lambda: settled_cases(db, person, version, wanted, MOST_LISTED))


def _open(db: Database, person: Actor, found: Mapping[str, Behind], title: str, key: str) -> None:
    """The counts as choices; the chosen one's cases as a list with the reader below it."""
    counted = {f"{words} {behind.count:,}": behind for words, behind in found.items() if behind.count}
    if not counted:
        return
    chosen = st.pills(title, list(counted), key=key)
    if chosen is None:
        return
    ids = counted[chosen].ids()[:MOST_LISTED]
    if len(ids) < counted[chosen].count:
        st.caption(f"The first {len(ids):,} in the order in which they were settled. The batch's results list all.")
    page = case_list(db, person, Cell(batch_id="", ids=ids), all_outcomes=True)
    if (case_id := open_case_id(page.ids)) is not None:
        reader(db, person, page.ids, case_id)
