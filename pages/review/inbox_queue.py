"""The left of the inbox: how many wait, the next one, a filter, and the list for those who may browse."""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st

from pages.review.inbox_desk import Desk, Here, finish, is_in_hand, say, take
from pages.review.inbox_live import EVERY_S, OpenInbox, View, seats, snapshot, view_of
from pages.review.shortcuts import key_of, on
from pages.ui.auth import browser_of, who_asks
from pages.ui.context import remember_refusal
from pages.ui.format import last_midnight
from pages.ui.labels import literal, sentence
from pages.ui.widgets import unique_labels
from screening.review.policy import Action, Forbidden, is_allowed
from screening.review.triage import Tier
from screening.text.display import visible
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import find_batch
from storage.review import reports
from storage.review.claims import NotAvailable
from storage.review.inbox import Assigned, assign
from storage.review.queue import Sort, sort_of
from storage.site.accounts import colleagues

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

KEY, SEAT, TIERS, SORT, BATCH = "queue", "inbox_seat", "tiers", "sort", "batch"
_HEARD = {"take": "queue_take", "act": "queue_act"}
"""Session key of a press that the page has not handled yet."""


def chosen_view() -> View:
    """The tiers, the batch and the order chosen. In the address, so that a reload keeps them."""
    query = st.query_params.to_dict()
    return view_of({name: query[name] for name in (TIERS, SORT, BATCH) if name in query})


def live_queue(here: Here, desk: Desk | None, view: View) -> str:
    """The heading, the tiers and the list, which the browser keeps up to date by itself; a press claims a case. Returns
    what is said where no case is open.
    """
    may, now = is_allowed(here.person, Action.CLAIM_NEXT), snapshot(here.db, here.by, view)
    data = {
        "now": now,
        "address": _address(view.batch),
        "every": EVERY_S,
        "tiers": [tier.name for tier in view.tiers or ()],
        "sort": view.sort.value,
        "may": may,
        "keys": on(),
        **offer(here),
    }
    said = _component()(
        data=[data],
        key=KEY,
        on_tiers_change=_filter,
        on_sort_change=_filter,
        on_take_change=lambda: _hear("take"),
        on_act_change=lambda: _hear("act"),
        on_stale_change=_nothing,
    )
    if said.stale:
        st.session_state.pop(SEAT, None)
        st.rerun()
    if (asked := st.session_state.pop(_HEARD["act"], None)) is not None:
        say(act(here, asked))
        st.rerun()
    taken = st.session_state.pop(_HEARD["take"], None)
    if taken and may and is_in_hand(here, desk):
        say("Submit or leave the case you have open first.")
    elif taken and may:
        claim_or_say(here, str(taken))
    return str(now["empty"])


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    """Register the component, once a process: Streamlit reads its files to do so."""
    return st.components.v2.component("second-look-browser.queue", js="queue.js", css="queue.css")


def exposure_today(here: Here) -> reports.Exposure:
    """How many texts this person has opened since midnight (UTC), and since their last break."""
    return reports.exposure(here.db, here.by, last_midnight(here.now))


def exposure_html(today: reports.Exposure) -> str:
    """The count as HTML; each person sees their own only."""
    hours = reports.STRETCH // timedelta(hours=1)
    return (
        f'<p class="sl-small">Opened today: {today.texts:,} · since last break (last {hours} hours): '
        f"{today.since_break:,} (visible only to you)</p>"
    )


def break_html(wording: str, texts: int) -> str:
    """The site's own wording, as text and never as markup.

    >>> break_html("{texts} <b>texts</b>.", 25)
    '<p class="sl-say sl-lines">25 &lt;b&gt;texts&lt;/b&gt;.</p>'
    """
    return f'<p class="sl-say sl-lines">{escape(visible(wording.replace("{texts}", str(texts))))}</p>'


def break_prompt(here: Here, desk: Desk | None, today: reports.Exposure) -> None:
    """A pause is offered, never forced, and never in the midst of a case; nothing is lost by it."""
    put_off = int(st.session_state.get("break_put_off", 0))
    if not today.break_due or (desk is not None and desk.mine is None) or today.since_break < put_off:
        return
    with st.container(border=True, key="break"):
        st.html(break_html(here.site.break_wording, today.since_break))
        with st.container(horizontal=True):
            if st.button("Take a break", key="take_break", shortcut=key_of("B"), type="primary"):
                finish(here, desk)
                reports.take_break(here.db, here.by)
                say("You have no open case. Come back when you are ready.")
                st.rerun()
            if st.button("Go on", key="put_off_break"):
                st.session_state["break_put_off"] = today.since_break + here.site.break_after_texts // 2 + 1
                st.rerun()


def claim_or_say(here: Here, case_id: str) -> None:
    """Claim a chosen case, or say why it cannot be."""
    try:
        take(here, case_id)
    except NotAvailable as refused:
        say(sentence(refused))
    except Forbidden as refused:
        remember_refusal(refused, case_id)
        say("This case is not yours to take.")
    st.rerun()


def _address(batch: str | None) -> str:
    """Where this open inbox asks what is new: one address a session and batch."""
    of, address = st.session_state.get(SEAT, (None, ""))
    if not address or of != batch:
        seat = OpenInbox(browser=browser_of(st.context.cookies.to_dict()), who=who_asks(active=False), batch=batch)
        address = seats().take(seat)
        st.session_state[SEAT] = (batch, address)
    return str(address)


def batch_filter(here: Here, view: View) -> None:
    """Said above the list where it is of one upload alone, with the way to all."""
    if view.batch is None:
        return
    try:
        name = find_batch(here.db, here.person, view.batch).name
    except (UnknownBatch, Forbidden):
        name = "one upload"
    with st.container(border=True, key="of_batch", horizontal=True):
        st.markdown(f"Only cases of **{literal(name)}**")
        if st.button("Show all", key="all_batches"):
            st.query_params.pop(BATCH, None)
            st.rerun()


def _filter() -> None:
    """The tiers and the order pressed in the browser, into the address."""
    state = st.session_state.get(KEY) or {}
    if TIERS in state:  # nothing is there before it is first pressed
        chosen = [name for name in state[TIERS] or () if name in Tier.__members__]
        _in_address(TIERS, ",".join(chosen))
    if SORT in state:
        sort = sort_of(str(state[SORT]))
        _in_address(SORT, "" if sort is Sort.URGENT else sort.value)


def _in_address(name: str, value: str) -> None:
    if value:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)


def _hear(what: str) -> None:
    """Keep a press: the run that it began may be cut short by the next one before it comes to the list."""
    if (sent := (st.session_state.get(KEY) or {}).get(what)) is not None:
        st.session_state[_HEARD[what]] = sent


def offer(here: Here) -> dict[str, Any]:
    """What this person may do with the list beside opening a case: whom they may give cases to, search in texts."""
    giving = is_allowed(here.person, Action.ASSIGN) and is_allowed(here.person, Action.CLAIM_NEXT)
    found = colleagues(here.db, here.person) if giving else ()
    names = unique_labels({person.id: visible(person.name) for person in found})
    return {
        "colleagues": [[account, name] for account, name in names.items()],
        "may_search_texts": is_allowed(here.person, Action.BROWSE_QUEUE) and is_allowed(here.person, Action.VIEW_TEXT),
    }


def act(here: Here, asked: object) -> str:
    """Do it, and say what came of it. Whatever the browser sent is read as it ought to be, or refused in words."""
    request = asked if isinstance(asked, Mapping) else {}
    cases = request.get("cases")
    if request.get("kind") != "assign" or not isinstance(cases, list):
        return "This was not understood: reload the page."
    try:
        return assigned_words(assign(here.db, here.by, [str(each) for each in cases], str(request.get("to", ""))))
    except (ValueError, NotAvailable) as refused:
        return sentence(refused)
    except Forbidden as refused:
        record_refusal(here.db, here.by, refused.action)
        return "Your role does not let you do this."


def assigned_words(done: Assigned) -> str:
    """How many cases are reserved now, and how many are not, by reason.

    >>> assigned_words(Assigned(given=("a", "b"), refused={"c": "was taken meanwhile"}))
    '2 cases are reserved for them. 1 case is not: it was taken meanwhile.'
    """
    words = f"{_cases(len(done.given))} {'is' if len(done.given) == 1 else 'are'} reserved for them."
    for reason in sorted(set(done.refused.values())):
        number = sum(each == reason for each in done.refused.values())
        words += f" {_cases(number)} {'is' if number == 1 else 'are'} not: {'it' if number == 1 else 'each'} {reason}."
    return words


def _cases(number: int) -> str:
    return count_of(number, "case") if number else "No cases"


def _nothing() -> None:
    """A trigger is read where the component is drawn: this only makes it known by name."""
