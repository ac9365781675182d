"""Who is told what outside the pages: recipients in the on-call order, and API clients with tokens."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from jobs import channels
from jobs.channels import NotSent
from pages.site.site_settings import settings_form
from pages.ui import context, widgets
from pages.ui.words import error_words, local_time, sentence, words_of
from screening.pipeline.files import NO_LABEL
from screening.review.policy import Actor
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.site import health, outbox
from storage.site.accounts import MOST_PER_MINUTE, Made, Program, Scope, list_programs, make_program, revoke_program
from storage.site.outbox import Event, Kind

EVENT_WORDS = words_of(Event, "event")
KIND_WORDS = words_of(Kind, "recipient")
FAULT_WORDS = words_of(health.Fault, "site_fault")


def notifications_panel(db: Database, person: Actor) -> None:
    st.caption(
        "A message holds a priority, a number and a link: never a text, a label, or the id of a case or a person. "
        "Only those listed here are told anything."
    )
    found = outbox.list_recipients(db, person)
    if not found:
        st.warning("No one is notified of urgent cases. Add a recipient.", icon=":material/notifications_off:")
    for lasting in health.open_faults(db):
        since = local_time(lasting.began_at)
        what = FAULT_WORDS.get(lasting.fault) or error_words(lasting.cause or NO_LABEL).capitalize()
        st.warning(f"{what} since {since}.", icon=":material/warning:")
    if refused := st.session_state.pop("notify_refused", None):
        st.error(refused, icon=":material/error:")
    widgets.show_said("recipients")
    if secret := st.session_state.pop("notify_secret", None):
        st.write("The secret that signs the messages of this webhook. It is shown once:")
        st.code(secret, language=None)
    for one in found:
        _recipient(db, person, one)
    if waiting := outbox.waiting_messages(db, person):
        st.caption(f"{count_of(waiting, 'message')} on the way or held back by an interval.")
    _add(db, person)
    st.subheader("How often, and where a message leads")
    settings_form(db, person, "notify", "Save")


def _recipient(db: Database, person: Actor, one: Any) -> None:
    with st.container(border=True, key=f"recipient_{one.id}"):
        st.text(f"{one.step}. {visible(one.name)}" if one.kind != Kind.MONITOR else visible(one.name))
        st.text(f"{KIND_WORDS[one.kind]}: {visible(one.shown)}")
        st.caption(_facts(one))
        if one.problem is not None:
            st.error("The last try failed:", icon=":material/error:")
            st.text(visible(one.problem))
        by = person.at(context.now())
        with st.container(horizontal=True):
            if one.kind != Kind.MONITOR and st.button("Send a test", key=f"test_{one.id}", disabled=not one.active):
                _act_and_say(lambda: outbox.send_test(db, by, one.id), "The test is on its way.")
            word = "Switch off" if one.active else "Switch on"
            if st.button(word, key=f"{word}_{one.id}"):  # pressed twice it is not the other one
                _act_and_say(lambda: outbox.set_active(db, by, one.id, not one.active), f"{word}: done.")
            if st.button("Remove", key=f"remove_{one.id}"):
                _act_and_say(lambda: outbox.remove_recipient(db, by, one.id), "Removed.")


def _facts(one: Any) -> str:
    told = ", ".join(EVENT_WORDS[event] for event in Event if event in one.events)
    facts = [] if one.kind == Kind.MONITOR else [told or "notified of nothing"]
    if one.quiet_from is not None:
        quiet = (f"{minute // 60:02}:{minute % 60:02}" for minute in (one.quiet_from, one.quiet_to))
        facts.append("quiet " + " to ".join(quiet))
    facts.append(f"last try {local_time(one.tried_at)}" if one.tried_at else "never tried")
    return " · ".join(facts if one.active else [*facts, "switched off"])


def _act_and_say(act: Callable[[], object], said: str) -> None:
    try:
        act()
    except ValueError as refused:
        st.session_state["notify_refused"] = sentence(refused)
        st.rerun()
    widgets.say_after_rerun("recipients", said)


def _add(db: Database, person: Actor) -> None:
    st.subheader("Add a recipient")
    with st.form("add_recipient", clear_on_submit=False, border=False):
        left, right = st.columns(2)
        name = left.text_input("Name", max_chars=80, key="notify_name")
        kind = right.selectbox("How", list(Kind), format_func=KIND_WORDS.__getitem__, key="notify_kind") or Kind.SERVICE
        target = st.text_input(
            "Address", type="password", key="notify_target",
            help="Of a service: its apprise address, for example mailtos://name:password@smtp.example.org?to=…; of a "
            "webhook or monitor: https://… It is not shown again.",
        )  # fmt: skip
        events = st.multiselect(
            "Told of", list(Event), list(Event), format_func=EVENT_WORDS.__getitem__, key="notify_events"
        )
        left, middle, right = st.columns(3)
        step = left.number_input("Place in the on-call order", 1, outbox.MOST_STEPS, 1, key="notify_step")
        begin = middle.time_input("Quiet from", None, key="notify_quiet_from")
        end = right.time_input("Quiet to", None, key="notify_quiet_to", help="P0, faults and tests are always sent.")
        pressed = st.form_submit_button("Add", type="primary")
    if pressed and (begin is None) is not (end is None):
        st.error("Give both times of the quiet hours, or neither.", icon=":material/error:")
    elif pressed:
        quiet = None
        if begin is not None and end is not None:
            quiet = begin.hour * 60 + begin.minute, end.hour * 60 + end.minute
        private = context.settings().notify_private_addresses
        try:
            if kind is Kind.SERVICE:
                shown = channels.describe(target, private=private)
            else:
                shown = str(channels.target_of(target, private=private).hostname)
            _, secret = outbox.add_recipient(
                db, person.at(context.now()), name=name, kind=kind, target=target.strip(), shown=shown,
                step=int(step), events=frozenset(events), quiet=quiet,
            )  # fmt: skip
        except (ValueError, NotSent) as refused:
            st.error(sentence(refused), icon=":material/error:")
            return
        if secret is not None:
            st.session_state["notify_secret"] = secret
        widgets.say_after_rerun("recipients", "Added. Send a test to see whether it arrives.")


SCOPE_WORDS = words_of(Scope, "scope")


def programs_panel(db: Database, person: Actor) -> None:
    st.caption(
        "API clients send texts to /api/v1 with their token (served by the command api: docs/api.md). They receive a "
        "label once the case is final, and nothing of it while clinicians still have to review the case."
    )
    made: Made | None = st.session_state.pop("program_made", None)
    if made is not None:
        st.success("The client's token. It is shown once and not kept:")
        st.code(made.token, language=None)
        if made.webhook_secret is not None:
            st.write("The secret that signs what its webhook is told. It is shown once:")
            st.code(made.webhook_secret, language=None)
    found = list_programs(db, person)
    if not found:
        st.info("No API client yet.", icon=":material/key_off:")
    for one in found:
        _program(db, person, one)
    _add_program(db, person)


def _program(db: Database, person: Actor, one: Program) -> None:
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


def _add_program(db: Database, person: Actor) -> None:
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
            channels.target_of(webhook, private=context.settings().notify_private_addresses)
        now = context.now()
        made = make_program(db, person.at(now), name, scopes, int(per_minute), webhook.strip() or None)
    except ValueError as wrong:
        st.error(sentence(wrong))
        return
    st.session_state["program_made"] = made
    st.rerun()
