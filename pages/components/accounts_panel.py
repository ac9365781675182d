"""Who may do what: roles, switching an account off, ending its sessions. For administrators."""

import streamlit as st

from pages.components import resources
from screening.text.display import visible
from storage.accounts import Account, LastAdmin, list_accounts, revoke, set_active, set_roles
from storage.actors import Actor, Role
from storage.database import Database


def accounts_panel(db: Database, person: Actor) -> None:
    """One person at a time, chosen by name."""
    found = {account.id: account for account in list_accounts(db, person)}
    if not found:
        st.info("Nobody has an account: without sign-in there is one local user, who may do everything.")
        return
    chosen = st.selectbox("Account", list(found), format_func=lambda key: _title(found[key]))
    if said := st.session_state.pop("accounts_said", None):
        st.success(said)
    _one(db, person, found[chosen])


def _title(account: Account) -> str:
    roles = ", ".join(sorted(account.roles)) or "no role yet"
    return f"{visible(account.display_name)} · {roles}{'' if account.active else ' · switched off'}"


def _one(db: Database, person: Actor, account: Account) -> None:
    st.caption("Known to the sign-in as:")
    st.text(account.subject or "the local user")
    roles = st.multiselect("Roles", list(Role), sorted(account.roles), format_func=str.title, key=f"roles_{account.id}")
    with st.container(horizontal=True):
        if st.button("Save roles", key=f"save_{account.id}", type="primary"):
            _done(lambda: set_roles(db, person, account.id, frozenset(roles), resources.now()), "Roles saved.")
        if st.button("End sessions", key=f"revoke_{account.id}", help="Refused at their next action; drafts are kept."):
            _done(lambda: revoke(db, person, account.id, resources.now()), "Sessions ended.")
        word = "Switch off" if account.active else "Switch on"
        if st.button(word, key=f"active_{account.id}"):
            _done(lambda: set_active(db, person, account.id, not account.active, resources.now()), f"{word}: done.")


def _done(act, said):  # type: ignore[no-untyped-def]
    try:
        act()
    except LastAdmin:
        st.error("This is the last account that can manage accounts.")
    else:
        st.session_state["accounts_said"] = said
        st.rerun()
