"""Who is told what outside the pages: recipients in the on-call order, how they fare, a test. For administrators."""

from collections.abc import Callable
from datetime import time

import streamlit as st

from jobs import notifications_service, notifications_webhook
from jobs.notifications_webhook import NotSent
from pages.site.site_settings import settings_form
from pages.ui import context
from pages.ui.format import local_time
from pages.ui.labels import sentence
from screening.review.actors import Actor
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.site import faults, outbox, recipients
from storage.site.recipients import Event, Kind, NewRecipient, Recipient

EVENT_WORDS = {
    Event.ARRIVED_P0: "new P0",
    Event.ARRIVED_P1: "new P1",
    Event.OVERDUE: "overdue cases and follow-ups",
    Event.FAULT: "system failures",
}
KIND_WORDS = {
    Kind.SERVICE: "Mail, chat, pager or SMS",
    Kind.WEBHOOK: "Signed webhook",
    Kind.MONITOR: "Outside monitor (heartbeat)",
}
FAULT_WORDS = {
    faults.Fault.WORKERS: "Screening is down: no background service is running",
    faults.Fault.MODEL: "The model gives no usable answers",
    faults.Fault.FILES: "Part of a file was not imported",
    faults.Fault.ANCHOR: "The external checkpoint of the audit log could not be written",
}


def notifications_panel(db: Database, person: Actor) -> None:
    """The recipients, each with its state and a test, and the form for a new one."""
    st.caption(
        "A message holds a priority, a number and a link: never a text, a label, or the id of a case or a person. "
        "Only those listed here are told anything."
    )
    found = recipients.list_recipients(db, person)
    if not found:
        st.warning("No one is notified of urgent cases. Add a recipient.", icon=":material/notifications_off:")
    for lasting in faults.open_faults(db):
        since = f"{local_time(lasting.began_at)}"
        st.warning(f"{FAULT_WORDS[lasting.fault]} since {since}.", icon=":material/warning:")
    _say()
    for one in found:
        _recipient(db, person, one)
    if waiting := recipients.waiting_messages(db, person):
        st.caption(f"{count_of(waiting, 'message')} on the way or held back by an interval.")
    _add(db, person)
    _when(db, person)


def _say() -> None:
    if refused := st.session_state.pop("notify_refused", None):
        st.error(refused, icon=":material/error:")
    if said := st.session_state.pop("notify_said", None):
        st.success(said)
    if secret := st.session_state.pop("notify_secret", None):
        st.write("The secret that signs the messages of this webhook. It is shown once:")
        st.code(secret, language=None)


def _recipient(db: Database, person: Actor, one: Recipient) -> None:
    with st.container(border=True, key=f"recipient_{one.id}"):
        st.text(f"{one.step}. {visible(one.name)}" if one.kind is not Kind.MONITOR else visible(one.name))
        st.text(f"{KIND_WORDS[one.kind]}: {visible(one.shown)}")
        st.caption(_facts(one))
        if one.problem is not None:
            st.error("The last try failed:", icon=":material/error:")
            st.text(visible(one.problem))
        with st.container(horizontal=True):
            if one.kind is not Kind.MONITOR and st.button("Send a test", key=f"test_{one.id}", disabled=not one.active):
                _act_and_say(lambda: outbox.send_test(db, person.at(context.now()), one.id), "The test is on its way.")
            word = "Switch off" if one.active else "Switch on"
            if st.button(word, key=f"{word}_{one.id}"):  # pressed twice it is not the other one
                active = not one.active
                _act_and_say(
                    lambda: recipients.set_active(db, person.at(context.now()), one.id, active), f"{word}: done."
                )
            if st.button("Remove", key=f"remove_{one.id}"):
                _act_and_say(lambda: recipients.remove_recipient(db, person.at(context.now()), one.id), "Removed.")


def _facts(one: Recipient) -> str:
    told = ", ".join(EVENT_WORDS[event] for event in Event if event in one.events)
    facts = [] if one.kind is Kind.MONITOR else [told or "notified of nothing"]
    if one.quiet is not None:
        facts.append("quiet " + " to ".join(f"{minute // 60:02}:{minute % 60:02}" for minute in one.quiet))
    facts.append(f"last try {local_time(one.tried_at)}" if one.tried_at else "never tried")
    return " · ".join(facts if one.active else [*facts, "switched off"])


def _act_and_say(act: Callable[[], object], said: str) -> None:
    try:
        act()
    except ValueError as refused:
        st.session_state["notify_refused"] = sentence(refused)
    else:
        st.session_state["notify_said"] = said
    st.rerun()


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
        step = left.number_input("Place in the on-call order", 1, recipients.MOST_STEPS, 1, key="notify_step")
        begin = middle.time_input("Quiet from", None, key="notify_quiet_from")
        end = right.time_input("Quiet to", None, key="notify_quiet_to", help="P0, faults and tests are always sent.")
        pressed = st.form_submit_button("Add", type="primary")
    if pressed and (begin is None) is not (end is None):
        st.error("Give both times of the quiet hours, or neither.", icon=":material/error:")
    elif pressed:
        quiet = (_minutes(begin), _minutes(end)) if begin is not None and end is not None else None
        _save_new(db, person, name, kind, target, int(step), frozenset(events), quiet)


def _minutes(moment: time) -> int:
    return moment.hour * 60 + moment.minute


def _save_new(
    db: Database, person: Actor, name: str, kind: Kind, target: str, step: int, events: frozenset[Event],
    quiet: tuple[int, int] | None,
) -> None:  # fmt: skip
    private = context.settings().notify_private_addresses
    try:
        if kind is Kind.SERVICE:
            shown = notifications_service.describe(target, private=private)
        else:
            shown = notifications_webhook.target_of(target, private=private).host
        new = NewRecipient(
            name=name, kind=kind, target=target.strip(), shown=shown, step=step, events=events, quiet=quiet
        )
        _made, secret = recipients.add_recipient(db, person.at(context.now()), new)
    except (ValueError, NotSent) as refused:
        st.error(sentence(refused), icon=":material/error:")
        return
    st.session_state["notify_said"] = "Added. Send a test to see whether it arrives."
    if secret is not None:
        st.session_state["notify_secret"] = secret
    st.rerun()


def _when(db: Database, person: Actor) -> None:
    st.subheader("How often, and where a message leads")
    settings_form(db, person, "notify", "Save")
