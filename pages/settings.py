"""What screens texts now and whether it answers, the site's own settings, accounts, and the model card."""

import streamlit as st

from pages.research.audit_plan import plan_panel
from pages.research.card_panel import card_panel
from pages.review.erasure_panel import erasure_panel
from pages.site.accounts_panel import accounts_panel
from pages.site.notifications_panel import notifications_panel
from pages.site.programs_panel import preflight_panel, programs_panel
from pages.site.site_settings import settings_form, versions
from pages.ui import context
from pages.ui import live_configuration as live
from pages.ui.format import money, viewer_zone
from pages.ui.labels import literal
from pages.ui.shell import stop_panel
from screening.pipeline.draws import Preflight
from screening.review.policy import Action, is_allowed, require
from storage import settings_store
from storage.batches.costs import daily_costs

db, person, settings = context.database(), context.actor(), context.settings()
require(person, Action.VIEW_SETTINGS)
configuration = context.configuration(context.usual_pipeline())


@st.cache_resource(show_spinner="Asking the model once…")
def first_preflight() -> Preflight:
    """The first look at this page asks once; the button asks again."""
    return live.try_settings(settings)


def answer_panel() -> None:
    """Whether the model answers under these settings."""
    if settings.simulated:
        st.info("Simulated agents answer by themselves: there is no model to try.", icon=":material/science:")
        return
    if not is_allowed(person, Action.CHANGE_SETTINGS):
        st.caption("An administrator can try the model here.")
        return
    if st.button("Try the model again", icon=":material/network_check:"):
        first_preflight.clear()
    found = first_preflight()
    show = st.success if found.ok else st.error
    show(found.message, icon=":material/check_circle:" if found.ok else ":material/error:")


def configuration_panel() -> None:
    """The live configuration, what it means on the wire, and the one call."""
    answer_panel()
    if not settings.simulated:
        preflight_panel(db, person, configuration)
    for note in live.notes(settings):
        st.info(note, icon=":material/info:")
    st.table({name: literal(value) for name, value in live.facts(configuration, settings)})
    st.caption(
        "Set in the environment or .env, read when the app and the background service start. "
        "Every screening keeps the configuration it "
        "ran with; a batch never mixes two."
    )
    cost_panel()


def cost_panel() -> None:
    """What the last days cost; a call without a known price is said to be one."""
    st.subheader("Cost by day")
    found = daily_costs(db, person.at(context.now()), zone=viewer_zone())
    if not found:
        st.caption("No call was made in the last 30 days.")
        return
    rows = [
        {
            "Day": str(one.day),
            "Calls": one.calls,
            "Tokens": one.tokens,
            "Cost": money(one.cost_usd if one.unpriced_calls < one.calls else None),
            "Calls without a known price": one.unpriced_calls,
        }
        for one in found
    ]
    st.dataframe(rows, hide_index=True, alt="Cost by day")


st.title("Settings")
names = ["Current model", "Site", "Pause AI", "Model card"]
if is_allowed(person, Action.CHANGE_SETTINGS):
    names.insert(2, "Notifications")
if is_allowed(person, Action.MANAGE_ACCOUNTS):
    names[-1:-1] = ["Accounts", "API clients"]
if is_allowed(person, Action.ERASE):
    names.insert(-1, "Erasure")
for tab, name in zip(st.tabs(names), names, strict=True):
    with tab:
        st.header(name)
        if name == "Current model":
            configuration_panel()
        elif name == "Site":
            words = "" if is_allowed(person, Action.CHANGE_SETTINGS) else " An administrator can change these."
            st.caption(f"Version {settings_store.current(db).version}.{words}")
            settings_form(db, person, "site", "Save as a new version")
            st.subheader("Audit plan")
            plan_panel(db, person)
            st.subheader("For the reliability report")
            st.caption("No names and no texts: the report is made to leave the site.")
            settings_form(db, person, "study", "Keep for the report")
            st.subheader("Versions")
            versions(db, person)
        elif name == "Pause AI":
            stop_panel(db, person, context.site())
        elif name == "Notifications":
            notifications_panel(db, person)
        elif name == "Erasure":
            erasure_panel(db, person)
        elif name == "Accounts":
            accounts_panel(db, person)
        elif name == "API clients":
            programs_panel(db, person)
        else:
            card_panel(db, person, settings, configuration)
