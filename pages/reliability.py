"""What may be claimed about missed cases, and what cannot be claimed yet; bound to one configuration."""

from functools import partial

import streamlit as st

from pages.research import reliability_view as view
from pages.research.audit_cases import show_audit, show_moved, show_revised
from pages.research.choices import show_open
from pages.research.stard import Study, report_html
from pages.research.verification import verification
from pages.ui import context
from pages.ui.auth import check_before
from pages.ui.format import seen_from, zone_name
from screening.evaluation.guarantee import binding_of
from screening.review.policy import Action, require
from screening.words import count_of
from storage.research.reliability import MeasuredConfiguration, measured_configurations, priorities_shown, severities

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def _words(found: MeasuredConfiguration) -> str:
    return (
        f"{found.version} · {count_of(found.settled, 'text')} · {found.first_at:%Y-%m-%d} to {found.last_at:%Y-%m-%d}"
    )


def printed(zone: str | None) -> str:
    """The report as of now, with times of the page that asks."""
    shown = priorities_shown(db, person, version)
    study = Study(site=context.site(), severities=severities(db, person, version), priorities=shown)
    with seen_from(zone):
        return report_html(found, now, context.now(), study)


st.title("Reliability")
st.write(
    "Measured against reviewers' blinded first reviews of a random quality-check sample. The stopping rule's error "
    "bound (δ) is about the AI's own most frequent answer and plays no part here."
)
measured = {found.version: found for found in measured_configurations(db, person)}
if not measured:
    st.info("No file has been screened yet, so there is no evidence yet.")
    st.stop()
version = st.selectbox("Configuration", list(measured), format_func=lambda one: _words(measured[one]))
if len(measured) > 1:
    st.caption(
        "These figures hold for each configuration alone. The best of several, chosen by these figures, looks better "
        "than it is: only texts screened after the choice tell how good it is."
    )
now = binding_of(context.configuration(context.usual_pipeline()).body)
found = verification(person, version)
view.show_claims(found, now, context.site().second_reading_rate)
report = st.container()  # filled last: a file that is asked for while the page still runs is gone when it ends
show_open(
    "reliability_tab",
    {
        "Quality-check sample": lambda: show_audit(db, person, version, found),
        "Confidence sequence": lambda: view.show_sequence(found),
        "Planner": lambda: view.show_planner(found),
        "Label changes after AI result": lambda: show_revised(db, person),
        "Drift": lambda: show_moved(db, person, version, found),
        "Configuration measured": lambda: view.show_binding(found, now),
    },
)
report.download_button(
    "Report to print (STARD)",
    data=check_before(Action.VIEW_RESULTS, partial(printed, zone_name())),
    file_name=f"reliability-{version}.html",
    mime="text/html",
    on_click="ignore",
    icon=":material/print:",
)
