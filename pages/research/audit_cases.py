"""The cases behind the counts of the Reliability page: of the audit and its flow, of drift, and those
whose readers changed a word.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import streamlit as st

from jobs.agreement import count_revisions
from jobs.auditing import Kind, audit_counts, audit_ids
from pages.research.case_list import case_list
from pages.research.claims import Verified
from pages.research.reliability_view import show_drift, show_sample, show_switches
from pages.research.stard import FLOW_AUDITED, FLOW_NOT_AUDITED, FLOW_SETTLED, flow
from pages.ui import context
from pages.ui.compute import READING, compute
from screening.labels import Outcome
from screening.review.actors import Actor
from storage.database import Database
from storage.research.listed import MOST_LISTED, Cell
from storage.research.outcome_mix import Settled, settled_cases
from storage.research.standing import configuration_now, count_readings, revisions_now

READ = {"read": "reviewed", "unsafe": "unsafe", "inconclusive": "insufficient information"}
CALLED = {
    Outcome.SAFE: "Labeled safe by the AI",
    Outcome.UNSAFE: "Labeled unsafe by the AI",
    Outcome.HUMAN_REVIEW: "Escalated",
}


def show_audit(db: Database, person: Actor, version: str, sample: Verified) -> None:
    """The sample, and the cases of its counts: of the flow, and what was read by outcome."""
    show_sample(sample)
    audit = _audit(db, person, version)
    found = _flow_cases(db, person, version, sample, audit)
    for outcome, words in CALLED.items():
        found |= {f"{words}, {said}": audit((kind, outcome.value)) for kind, said in READ.items()}
    _open(db, person, found, "Cases of the quality-check sample", "audit_cases")
    st.caption(
        "Cases whose review is pending are not listed: whoever reviews one must not know that it belongs to the sample."
    )


def _flow_cases(db: Database, person: Actor, version: str, sample: Verified, audit: "Audit") -> dict[str, "Behind"]:
    """The cases behind the counts of the flow, without those that are due."""
    counts = dict(flow(sample))
    stages = {
        "Screened": (FLOW_SETTLED, Settled()),
        "Not in the sample": (FLOW_NOT_AUDITED, Settled(under_audit=False)),
        "In the sample": (FLOW_AUDITED, Settled(under_audit=True)),
        **{
            words: (words[0].lower() + words[1:], Settled(under_audit=True, outcome=outcome))
            for outcome, words in CALLED.items()
        },
    }
    found = {
        words: _behind_settled(db, person, version, counts[row], wanted) for words, (row, wanted) in stages.items()
    }
    kinds = {"Reviewed": "read", "Insufficient information": "inconclusive", "Reviewed unblinded": "not blind"}
    return found | {words: audit((kind, "")) for words, kind in kinds.items()}


def show_moved(db: Database, person: Actor, version: str, found: Verified) -> None:
    """The drift, and the cases of each share in the reference and since."""
    show_drift(found)
    counted = {}
    for share in found.drift.shares:
        for words, part, early in (("reference", share.reference, True), ("since", share.since, False)):
            wanted = Settled(first_end=share.name, in_reference=early)
            counted[f"{share.name}, {words}"] = _behind_settled(db, person, version, part.numerator, wanted)
    _open(db, person, counted, "Cases that ended so at the first agent", "drift_cases")


def show_revised(db: Database, person: Actor) -> None:
    """How often a reading changed after the reveal, and the cases where it did."""
    key = context.settings().pseudonym_secret
    found = compute(count_revisions, person, key, standing=revisions_now(db), cases=READING * count_readings(db))
    show_switches(found.rate)
    counted = {words: Behind(count=count, ids=partial(tuple, ids)) for words, (count, ids) in found.cases.items()}
    _open(db, person, counted, "Cases with such a review", "switch_cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A count and its cases, which are looked up when they are asked for: `MOST_LISTED` at most."""

    count: int
    ids: Callable[[], tuple[str, ...]]


Audit = Callable[[Kind], Behind]
"""What stands behind a count of the audit, by what was read and of which cases."""


def _audit(db: Database, person: Actor, version: str) -> Audit:
    standing, readings = configuration_now(db, version), READING * count_readings(db)
    counts = compute(audit_counts, person, version, standing, cases=readings)

    def behind(kind: Kind) -> Behind:
        ids = partial(compute, audit_ids, person, version, standing, kind, cases=readings)
        return Behind(count=counts.get(kind, 0), ids=ids)

    return behind


def _behind_settled(db: Database, person: Actor, version: str, count: int, wanted: Settled) -> Behind:
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
        st.caption(f"The first {len(ids):,} in the order in which they were screened. Results lists all.")
    case_list(db, person, Cell(batch_id="", ids=ids))
