"""What screens a text now: agents, rule, limits and what their settings mean on the wire; one call to try it, and the
probes, with what an administrator allows all the same.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from jobs.agents import model_settings
from pages.ui import context
from pages.ui.words import WORDS, local_time, sentence
from screening.models.canaries import ALL, UNSAFE
from screening.models.http import HttpModel
from screening.models.wire import cache_notes
from screening.pipeline import config, files
from screening.pipeline.draws import Preflight
from screening.review.policy import Action, Actor, is_allowed
from screening.settings import Settings
from screening.words import count_of
from storage.batches import configurations
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.settings_store import accept_model_name

PATIENCE_S = 20.0
"""Longest wait for the one call of the check: somebody is looking at the page."""
MASKED = (
    "mail addresses, phone numbers, links, handles and long numbers are masked in what the model is shown; "
    "names, places, dates and what only the context tells are not found"
)
NOT_MASKED = "off: the model is shown the texts as they are"
_SENT = WORDS["model_fact"]


def facts(configuration: Configuration, settings: Settings) -> list[tuple[str, str]]:
    """The configuration as pairs of name and value, in the order of the table."""
    sampler, pipeline = configuration.sampler, configuration.pipeline
    sent = [(_SENT.get(name, name.replace("_", " ")), _value(name, value)) for name, value in sampler.items()]
    rules = [node.rule for node in pipeline.nodes]
    promised = dict.fromkeys(f"{config.promise(rule)}; {count_of(rule.budget, 'call')} at most" for rule in rules)
    in_flight = "always completed (they are billed)"
    if not settings.simulated and model_settings(settings).breaks_off:
        in_flight = "stopped once their answers no longer matter: the server bills nothing"
    waits = f"{settings.call_timeout_s:g} s for an answer, {settings.node_deadline_s:g} s for a group of answers"
    return [
        ("Configuration (hash)", configuration.version),
        *sent,
        ("Pipeline", f"{pipeline.name}: {' → '.join(node.title for node in pipeline.nodes)}"),
        ("Stopping rule", " | ".join(promised)),
        ("Calls per minute, at most", f"{settings.requests_per_minute:,} in all"),
        ("Simultaneous requests, at most", f"{settings.concurrency:,} in all"),
        ("Longest wait", waits),
        ("In-flight requests", in_flight),
        ("Longest text", f"{settings.max_text_characters:,} characters"),
        ("“Safe” allowed only for", ", ".join(settings.languages)),
        ("De-identification", MASKED if settings.mask_before_sending else NOT_MASKED),
        ("Audit sample", f"{settings.audit_rate:.0%} of AI decisions that nobody would review otherwise, unmarked"),
    ]


def _value(name: str, value: object) -> str:
    if value is None:
        return "the model's own (T = 1); none is sent" if name == "temperature" else "not sent"
    if isinstance(value, Mapping):
        return "; ".join(f"{server}: {told['host']} ({told['protocol']})" for server, told in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def notes(settings: Settings) -> tuple[str, ...]:
    """What these settings mean on the wire, prompt caching included; empty with simulated agents."""
    if settings.simulated:
        return ()
    asked, prompts = model_settings(settings), files.load_prompts(settings.prompts_directory)
    caching = cache_notes(asked, prompts)
    told = () if caching or asked.elsewhere else ("Prompt caching is asked for: every prompt is long enough.",)
    return asked.notes + caching + told


def try_settings(settings: Settings) -> Preflight:
    """One call with a harmless text under the present settings (a second one where a temperature was refused)."""
    asked = model_settings(settings)
    patient = replace(
        asked,
        max_retries=1,
        call_timeout_s=min(asked.call_timeout_s, PATIENCE_S),
        node_deadline_s=min(asked.node_deadline_s, PATIENCE_S),
    )

    async def ask() -> Preflight:
        async with HttpModel(patient, files.load_prompts(settings.prompts_directory)) as model:
            return await model.preflight()

    return asyncio.run(ask())


@st.cache_resource(show_spinner="Asking the model once…")
def first_preflight() -> Preflight:
    """The first look at the page asks once; the button asks again."""
    return try_settings(context.settings())


def answer_panel(person: Actor) -> None:
    if context.settings().simulated:
        st.info("Demo mode: no AI model is connected.", icon=":material/science:")
        return
    if not is_allowed(person, Action.CHANGE_SETTINGS):
        st.caption("An administrator can try the model here.")
        return
    if st.button("Try the model again", icon=":material/network_check:"):
        first_preflight.clear()
    found = first_preflight()
    show = st.success if found.ok else st.error
    show(found.message, icon=":material/check_circle:" if found.ok else ":material/error:")


PENDING = "The model has not been tested on the probes yet. The background service does so before the first text."


def preflight_panel(db: Database, person: Actor, configuration: Configuration) -> None:
    """The latest try of the configuration in force, each probe's end, and the form to allow one that failed."""
    st.subheader("Probes")
    found = configurations.latest_preflight(db, configuration.preflight_key)
    if found is None:
        st.caption(PENDING)
        return
    show = st.success if found.passed else st.error
    show(f"{found.message} Tried {local_time(found.at)}.")
    _names(db, person, found)
    with st.expander("Each probe"):
        rows = [
            {
                "Probe": name,
                "Kind": "plainly unsafe" if name in UNSAFE else "ambiguous",
                "Ended": found.ends[name][0].replace("_", " "),
                "Because": found.ends[name][1].replace("_", " "),
            }
            for name in ALL
            if name in found.ends
        ]
        st.dataframe(rows, hide_index=True, alt="Probes")
    if found.overridden_by is not None:
        st.warning("Approved by an administrator despite failed checks. The reason is kept with it.")
        st.text(found.reason or "")
    elif not found.passed:
        st.caption("Uploads with this configuration are paused until the model passes or an administrator allows it.")
        if is_allowed(person, Action.CHANGE_SETTINGS):
            _override_form(db, person, configuration)


def _names(db: Database, person: Actor, found: configurations.Preflight) -> None:
    """The names under which answers came that did not count, and the way to accept each."""
    accepted = context.settings_now().accepted_model_names
    for number, name in enumerate(name for name in found.other_names or () if name not in accepted):
        st.warning("The server also answers under this name. No answer under it counts unless it is accepted.")
        st.code(name, language=None, wrap_lines=True)
        if is_allowed(person, Action.CHANGE_SETTINGS) and st.button("Accept this name", key=f"accept_name_{number}"):
            accept_model_name(db, person.at(context.now()), name)
            st.rerun()


def _override_form(db: Database, person: Actor, configuration: Configuration) -> None:
    with st.form("preflight_override"):
        reason = st.text_area("Why this model may be asked all the same", key="preflight_reason")
        if not st.form_submit_button("Allow this configuration"):
            return
    try:
        configurations.override_preflight(db, person.at(context.now()), configuration.preflight_key, reason)
    except ValueError as refusal:
        st.error(sentence(refusal))
    else:
        st.rerun()
