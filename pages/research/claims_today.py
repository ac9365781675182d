"""What may be claimed today, for the first page: three figures with interval and n, or why there is none yet."""

from collections.abc import Sequence
from html import escape

from jobs.agreement import main_figure
from pages.components import resources
from pages.research.claims import Verified, at_most_words, verify_now
from pages.research.computed import READING, compute
from screening.review.actors import Actor
from screening.statistics.agreement import Coefficient
from storage.research.reliability import measured_configurations
from storage.research.standing import configuration_now, count_readings, readings_now
from storage.settings_store import audit_plan

NOT_YET = "not yet"
Figure = tuple[str, str, str]
"""What is told, its value, and what the value rests on."""


def claims_html(told: Sequence[Figure]) -> str:
    """The figures side by side."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd><b>{escape(value)}</b> {escape(rests)}</dd></div>"
        for name, value, rests in told
    )
    return f'<h2 class="sl-door">What may be claimed today</h2><dl class="sl-claims">{cells}</dl>'


def missed_words(found: Verified | None) -> Figure:
    """Missed unsafe texts, as the audit of the present configuration bounds them."""
    name = "Missed unsafe texts per 1,000 called safe"
    if found is None:
        return name, NOT_YET, "nothing was screened with the present configuration"
    if not found.at_most:
        return name, NOT_YET, f"none of {found.estimates.missed.cases:,} called safe has been read for the plan"
    return name, at_most_words(found), f"valid at every look · {found.at_most[-1].observations:,} read"


def agreement_words(found: Coefficient) -> Figure:
    """How far blind readers agree."""
    name = "Readers agree, Krippendorff α"
    if found.value is None:
        return name, NOT_YET, found.reason or ""
    interval = "" if found.low is None or found.high is None else f"{found.low:.2f} to {found.high:.2f}, one look · "
    return name, f"{found.value:.2f}", f"{interval}{found.cases:,} read twice"


def missed_figure(person: Actor) -> Figure:
    """The bound on missed texts, of the present configuration."""
    return missed_words(_verification(person))


def agreement_figure(person: Actor) -> Figure:
    """The agreement of all blind readings of closed cases."""
    db, key = resources.database(), resources.settings().pseudonym_secret
    readings = READING * count_readings(db)
    return agreement_words(compute(main_figure, person, key, readings_now(db), cases=readings))


def _verification(person: Actor) -> Verified | None:
    db = resources.database()
    version = resources.configuration(resources.usual_pipeline()).version
    if version not in {one.version for one in measured_configurations(db, person)}:
        return None
    return verification(person, version)


def verification(person: Actor, version: str) -> Verified:
    """What the audit of a configuration says, computed again where anything it follows from is another."""
    db = resources.database()
    readings = READING * count_readings(db)
    return compute(verify_now, person, version, audit_plan(db), configuration_now(db, version), cases=readings)
