"""The model card on the settings page: from live settings and measured numbers, to read and as files."""

import streamlit as st

from pages.research import model_card
from pages.research.claims import Verified, verify
from pages.ui import context
from pages.ui import live_configuration as live
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.settings import Settings
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.research.outcome_mix import outcome_mix
from storage.research.reliability import audit_sample, measured_configurations
from storage.settings_store import audit_plan


def find_measurements(db: Database, person: Actor, configuration: Configuration) -> tuple[int, Verified | None]:
    """What was measured with the present configuration."""
    if not is_allowed(person, Action.VIEW_RESULTS):
        return 0, None
    settled = {one.version: one.settled for one in measured_configurations(db, person)}.get(configuration.version, 0)
    if not settled:
        return 0, None
    sample, mix = audit_sample(db, person, configuration.version), outcome_mix(db, person, configuration.version)
    return settled, verify(sample, mix, audit_plan(db))


def card(db: Database, person: Actor, settings: Settings, configuration: Configuration) -> model_card.Card:
    """The card as of now."""
    settled, found = find_measurements(db, person, configuration)
    return model_card.Card(
        at=context.now(),
        simulated=settings.simulated,
        facts=live.facts(configuration, settings),
        notes=live.notes(settings),
        site=context.site(),
        settled=settled,
        measured=found,
    )


def card_panel(db: Database, person: Actor, settings: Settings, configuration: Configuration) -> None:
    """The card to read here, and as files."""
    if not is_allowed(person, Action.VIEW_RESULTS):
        st.caption("Measured numbers are shown to seniors and researchers.")
    shown = card(db, person, settings, configuration)
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
