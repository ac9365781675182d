"""What came of trying the model on the probes, and the written word of an administrator where it failed."""

import streamlit as st

from pages.ui import context
from pages.ui.format import local_time
from pages.ui.labels import sentence
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.samplers.probes import ALL, UNSAFE
from storage.batches import preflights
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.settings_store import accept_model_name

PENDING = "The worker has not tried this configuration on the probes yet. It does so before the first text."


def preflight_panel(db: Database, person: Actor, configuration: Configuration) -> None:
    """The latest try of the configuration in force, each probe's end, and the form to allow one that failed."""
    st.subheader("Probes")
    found = preflights.latest(db, configuration.preflight_key)
    if found is None:
        st.caption(PENDING)
        return
    show = st.success if found.passed else st.error
    show(f"{found.message} Tried {local_time(found.at)}.")
    _names(db, person, found)
    with st.expander("Each probe"):
        st.dataframe([_row(name, found) for name in ALL if name in found.ends], hide_index=True, alt="Probes")
    if found.overridden_by is not None:
        st.warning("An administrator allowed this configuration all the same. The reason is kept with it.")
        st.text(found.reason or "")
    elif not found.passed:
        st.caption("Batches with this configuration are paused until the model passes or an administrator allows it.")
        if is_allowed(person, Action.CHANGE_SETTINGS):
            _override_form(db, person, configuration)


def _names(db: Database, person: Actor, found: preflights.Preflight) -> None:
    """The names under which answers came that did not count, and the way to accept each."""
    accepted = context.settings_now().accepted_model_names
    for number, name in enumerate(name for name in found.other_names if name not in accepted):
        st.warning("The server also answers under this name. No answer under it counts unless it is accepted.")
        st.code(name, language=None, wrap_lines=True)
        if is_allowed(person, Action.CHANGE_SETTINGS) and st.button("Accept this name", key=f"accept_name_{number}"):
            accept_model_name(db, person.at(context.now()), name)
            st.rerun()


def _row(name: str, found: preflights.Preflight) -> dict[str, str]:
    outcome, reason = found.ends[name]
    kind = "plainly unsafe" if name in UNSAFE else "ambiguous"
    return {"Probe": name, "Kind": kind, "Ended": outcome.replace("_", " "), "Because": reason.replace("_", " ")}


def _override_form(db: Database, person: Actor, configuration: Configuration) -> None:
    with st.form("preflight_override"):
        reason = st.text_area("Why this model may be asked all the same", key="preflight_reason")
        if not st.form_submit_button("Allow this configuration"):
            return
    try:
        preflights.override(db, person.at(context.now()), configuration.preflight_key, reason)
    except ValueError as refusal:
        st.error(sentence(refusal))
    else:
        st.rerun()
