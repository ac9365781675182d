"""API clients and their tokens; and the model's probes, with what an administrator allows all the same."""

import streamlit as st

from jobs.notifications_webhook import target_of
from pages.ui import context
from pages.ui.format import local_time
from pages.ui.labels import sentence
from screening.models.canaries import ALL, UNSAFE
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.text.display import visible
from storage.batches import preflights
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.settings_store import accept_model_name
from storage.site.programs import MOST_PER_MINUTE, Made, Program, Scope, list_programs, make_program, revoke_program

SCOPE_WORDS = {
    Scope.SUBMIT: "submit texts and see their progress",
    Scope.OUTCOMES: "read the final labels of its own texts",
    Scope.BATCHES: "upload files",
}


def programs_panel(db: Database, person: Actor) -> None:
    """All programs, and the form for a new one."""
    st.caption(
        "API clients send texts to /api/v1 with their token (served by the command api: docs/api.md). They receive a "
        "label once the case is final, and nothing of it while clinicians still have to review the case."
    )
    _say()
    found = list_programs(db, person)
    if not found:
        st.info("No API client yet.", icon=":material/key_off:")
    for one in found:
        _one(db, person, one)
    _add(db, person)


def _say() -> None:
    made: Made | None = st.session_state.pop("program_made", None)
    if made is None:
        return
    st.success("The client's token. It is shown once and not kept:")
    st.code(made.token, language=None)
    if made.webhook_secret is not None:
        st.write("The secret that signs what its webhook is told. It is shown once:")
        st.code(made.webhook_secret, language=None)


def _one(db: Database, person: Actor, one: Program) -> None:
    with st.container(border=True, key=f"program_{one.id}"):
        st.text(visible(one.name))
        scopes = ", ".join(SCOPE_WORDS[scope] for scope in Scope if scope in one.scopes)
        st.caption(f"May {scopes}; {one.per_minute:,} requests a minute; made {local_time(one.created_at)}.")
        if one.webhook is not None:
            st.text(f"Notified of final labels: {visible(one.webhook)}")
        if one.revoked_at is not None:
            st.caption(f"Revoked {local_time(one.revoked_at)}.")
        elif st.button("Revoke the token", key=f"revoke_program_{one.id}", icon=":material/key_off:"):
            revoke_program(db, person.at(context.now()), one.id)
            st.rerun()


def _add(db: Database, person: Actor) -> None:
    with st.form("new_program", clear_on_submit=False):
        st.markdown("**New API client**")
        name = st.text_input("Name", max_chars=100)
        scopes = st.multiselect("May", list(Scope), [Scope.SUBMIT, Scope.OUTCOMES], format_func=SCOPE_WORDS.__getitem__)
        per_minute = st.number_input("Requests a minute", min_value=1, max_value=MOST_PER_MINUTE, value=600)
        webhook = st.text_input("Webhook (https), notified of final labels", placeholder="none")
        if not st.form_submit_button("Create token", icon=":material/key:"):
            return
    try:
        if webhook.strip():
            target_of(webhook, private=context.settings().notify_private_addresses)
        now = context.now()
        made = make_program(db, person.at(now), name, scopes, int(per_minute), webhook.strip() or None)
    except ValueError as wrong:
        st.error(sentence(wrong))
        return
    st.session_state["program_made"] = made
    st.rerun()


PENDING = "The model has not been tested on the probes yet. The background service does so before the first text."


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
        st.warning("Approved by an administrator despite failed checks. The reason is kept with it.")
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
