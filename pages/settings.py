"""What screens texts now and whether it answers, the site's own settings, accounts, and the model card."""

import streamlit as st

from pages.batches.live_view import money
from pages.components import resources
from pages.components.controls import stop_panel
from pages.research import model_card
from pages.research.audit_plan import plan_panel
from pages.research.claims import Verified, verified
from pages.site import live_configuration as live
from pages.site.accounts_panel import accounts_panel
from pages.site.site_settings import settings_form, versions
from screening.engine.pipeline import preset
from screening.review.policy import Action, allowed, require
from screening.samplers.preflight import Preflight
from storage.batches.costs import daily_costs
from storage.research.reading_table import switches
from storage.research.reliability import audit_sample, measured_configurations, outcome_mix
from storage.site.settings_store import audit_plan

db, person, settings = resources.database(), resources.actor(), resources.settings()
require(person, Action.VIEW_SETTINGS)
configuration = resources.configuration(preset(settings.preset, budget=settings.budget))


@st.cache_resource(show_spinner="Asking the model once…")
def checked() -> Preflight:
    """The first look at this page asks once; the button asks again."""
    return live.tried(settings)


def preflight_panel() -> None:
    """Whether the model answers under these settings."""
    if settings.simulated:
        st.info("Simulated agents answer by themselves: there is no model to try.", icon=":material/science:")
        return
    if not allowed(person, Action.CHANGE_SETTINGS):
        st.caption("An administrator can try the model here.")
        return
    if st.button("Try the model again", icon=":material/network_check:"):
        checked.clear()
    found = checked()
    show = st.success if found.ok else st.error
    show(found.message, icon=":material/check_circle:" if found.ok else ":material/error:")


def configuration_panel() -> None:
    """The live configuration, what it means on the wire, and the one call."""
    preflight_panel()
    for note in live.notes(settings):
        st.info(note, icon=":material/info:")
    st.html(live.facts_html(live.facts(configuration, settings)))
    st.caption(
        "Set in the environment or .env, read when app and worker start. Every screening keeps the configuration it "
        "ran with; a batch never mixes two."
    )
    cost_panel()


def cost_panel() -> None:
    """What the last days cost; a call without a known price is said to be one."""
    st.subheader("Cost by day")
    found = daily_costs(db, person, resources.now())
    if not found:
        st.caption("No call was made in the last 30 days.")
        return
    rows = [
        {
            "Day (UTC)": str(one.day),
            "Calls": one.calls,
            "Tokens": one.tokens,
            "Cost": money(one.cost_usd if one.unpriced_calls < one.calls else None),
            "Calls without a known price": one.unpriced_calls,
        }
        for one in found
    ]
    st.dataframe(rows, hide_index=True, alt="Cost by day")


def measured() -> tuple[int, Verified | None]:
    """What was measured with the present configuration."""
    if not allowed(person, Action.VIEW_RESULTS):
        return 0, None
    settled = {one.version: one.settled for one in measured_configurations(db, person)}.get(configuration.version, 0)
    if not settled:
        return 0, None
    key = settings.pseudonym_secret
    sample, mix = audit_sample(db, person, configuration.version), outcome_mix(db, person, configuration.version)
    return settled, verified(sample, mix, switches(db, person, key), audit_plan(db))


def card() -> model_card.Card:
    """The card as of now."""
    settled, found = measured()
    return model_card.Card(
        at=resources.now(),
        simulated=settings.simulated,
        facts=live.facts(configuration, settings),
        notes=live.notes(settings),
        site=resources.site(),
        settled=settled,
        measured=found,
    )


def card_panel() -> None:
    """The card to read here, and as files."""
    if not allowed(person, Action.VIEW_RESULTS):
        st.caption("Measured numbers are shown to seniors and researchers.")
    shown = card()
    with st.container(horizontal=True):
        for kind, made, mime in (("md", model_card.markdown, "text/markdown"), ("html", model_card.html, "text/html")):
            st.download_button(
                f"Model card {'Markdown' if kind == 'md' else 'HTML'}",
                data=made(shown),
                file_name=f"model-card.{kind}",
                mime=mime,
                on_click="ignore",
                icon=":material/download:",
                key=f"card_{kind}",
            )
    for title, lines in model_card.sections(shown):
        st.subheader(title)
        st.text("\n".join(f"• {line}" for line in lines))


st.title("Settings")
names = ["Live configuration", "Site", "Stop", "Accounts", "Model card"]
if not allowed(person, Action.MANAGE_ACCOUNTS):
    names.remove("Accounts")
for tab, name in zip(st.tabs(names), names, strict=True):
    with tab:
        st.header(name)
        if name == "Live configuration":
            configuration_panel()
        elif name == "Site":
            settings_form(db, person)
            st.subheader("Plan of the audit")
            plan_panel(db, person)
            st.subheader("Versions")
            versions(db, person)
        elif name == "Stop":
            stop_panel(db, person, resources.site())
        elif name == "Accounts":
            accounts_panel(db, person)
        else:
            card_panel()
