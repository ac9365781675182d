"""Who may do what: roles, switching an account off, ending its sessions. For administrators."""

from collections.abc import Callable, Mapping

import streamlit as st

from pages.ui import context
from pages.ui.widgets import unique_labels
from screening.review.actors import Actor, Role
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.review.inbox import revoke, set_active, set_roles
from storage.review.queue import counts
from storage.site.accounts import Account, LastAdmin, list_accounts


def accounts_panel(db: Database, person: Actor) -> None:
    """One person at a time, chosen by name."""
    found = {account.id: account for account in list_accounts(db, person)}
    if not found:
        st.info("Single-user mode: no sign-in configured. The local user has full access.")
        return
    if words := _no_senior_words(db, person, found):
        st.warning(words, icon=":material/gavel:")
    titles, ids = _titles(found), list(found)
    last = st.session_state.get("accounts_last")  # new roles are new words, for which the box begins anew
    index = ids.index(last) if last in found else 0
    chosen = st.selectbox("Account", ids, index=index, format_func=titles.__getitem__)
    if said := st.session_state.pop("accounts_said", None):
        st.success(said)
    _one(db, person, found[chosen])


def _no_senior_words(db: Database, person: Actor, found: Mapping[str, Account]) -> str:
    """That cases wait for a senior where nobody is one; empty where none do, or somebody is."""
    disputed = counts(db, person.at(context.now())).disputed
    if not disputed or any(Role.SENIOR in each.roles for each in found.values() if each.active):
        return ""
    return f"{count_of(disputed, 'disagreement needs', 'disagreements need')} a senior reviewer; none is set up."


def _titles(found: Mapping[str, Account]) -> dict[str, str]:
    """Names are told apart whatever the roles, so that nobody's words become another's when roles change."""
    names = unique_labels({key: visible(account.display_name) for key, account in found.items()})
    return unique_labels({key: f"{names[key]} · {_standing(account)}" for key, account in found.items()})


def _standing(account: Account) -> str:
    roles = ", ".join(sorted(account.roles)) or "no role"
    return f"{roles}{'' if account.active else ' · switched off'}"


def _one(db: Database, person: Actor, account: Account) -> None:
    st.caption("Known to the sign-in as:")
    st.text(account.subject or "the local user")
    stored = sorted(account.roles)  # in the key: what was chosen from other roles than these is not saved over them
    roles = st.multiselect(
        "Roles", list(Role), stored, format_func=str.title, key=f"roles_{account.id}_{'_'.join(stored)}"
    )
    with st.container(horizontal=True):
        if st.button("Save roles", key=f"save_{account.id}", type="primary"):
            _act_and_say(
                account, lambda: set_roles(db, person.at(context.now()), account.id, frozenset(roles)), "Roles saved."
            )
        if st.button("End sessions", key=f"revoke_{account.id}", help="Refused at their next action; drafts are kept."):
            _act_and_say(account, lambda: revoke(db, person.at(context.now()), account.id), "Sessions ended.")
        word = "Switch off" if account.active else "Switch on"
        if st.button(word, key=f"{word}_{account.id}"):  # pressed twice it is not the other one
            switched = not account.active
            _act_and_say(
                account, lambda: set_active(db, person.at(context.now()), account.id, switched), f"{word}: done."
            )


def _act_and_say(account: Account, act: Callable[[], object], said: str) -> None:
    try:
        act()
    except LastAdmin:
        st.error("This is the last account that can manage accounts.")
    else:
        st.session_state["accounts_said"], st.session_state["accounts_last"] = said, account.id
        st.rerun()
