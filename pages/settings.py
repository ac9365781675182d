"""What screens texts now and whether it answers, the site's own settings, accounts, and the model card."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from pages.research.claims import plan_sentences
from pages.research.reports import card_html, card_markdown, card_sections
from pages.site import integrations, model_panel
from pages.site.site_settings import Filled, settings_form, versions
from pages.ui import context, shell, widgets
from pages.ui.words import literal, local_time, money, sentence, viewer_zone, words_of
from screening.evaluation.audit import reviews_required
from screening.review.policy import Action, Role, is_allowed, require
from screening.text.display import visible
from screening.words import count_of
from storage import settings_store
from storage.batches.results import daily_costs
from storage.review import erasure
from storage.review.erasure import By, Erasure, NotErased, Selection
from storage.review.queue import counts
from storage.site.accounts import Account, LastAdmin, list_accounts, revoke, set_active, set_roles

BY_WORDS = words_of(By, "erase_by")

db, person, settings = context.database(), context.actor(), context.settings()
require(person, Action.VIEW_SETTINGS)
configuration = context.configuration(context.usual_pipeline())


def configuration_panel() -> None:
    model_panel.answer_panel(person)
    if not settings.simulated:
        model_panel.preflight_panel(db, person, configuration)
    for note in model_panel.notes(settings):
        st.info(note, icon=":material/info:")
    st.table({name: literal(value) for name, value in model_panel.facts(configuration, settings)})
    st.caption(
        "Set in the environment or .env, read when the app and the background service start. "
        "Every screening keeps the configuration it "
        "ran with; an upload never mixes two."
    )
    cost_panel()


def cost_panel() -> None:
    """What the last days cost; a call without a known price is said to be one."""
    st.subheader("Cost by day")
    found = daily_costs(db, person.at(context.now()), zone=viewer_zone())
    if not found:
        st.caption("No call was made in the last 30 days.")
        return
    rows = [
        {
            "Day": str(day),
            "Calls": f"{one.calls:,}",
            "Tokens": f"{one.tokens:,}",
            "Cost": money(one.cost_usd if one.unpriced_calls < one.calls else None),
            "Calls without a known price": f"{one.unpriced_calls:,}",
        }
        for day, one in found.items()
    ]
    st.dataframe(rows, hide_index=True, alt="Cost by day")


def plan_panel() -> None:
    """The plan in force with its last change, and for administrators the way to change it."""
    plan = settings_store.audit_plan(db)
    for said in plan_sentences(plan):
        st.write(said)

    def check(filled: Filled) -> str | None:
        rate, misses, sure = (filled[f"audit_{name}"] for name in ("at_most", "allowed_misses", "confidence"))
        st.metric("Reviewed unsafe texts needed", f"{reviews_required(rate, misses, sure):,}")
        st.caption(
            "Lock it before anything is reviewed. Cases screened before a change do not count for the guarantee under "
            "the new plan: a plan that is changed after misses were seen is no guarantee."
        )
        day = filled["audit_report_on"]  # what it would tell of a day that is past can be seen already
        late = day is not None and day != plan.report_on and day <= context.now().date()
        return "The planned analysis date has come: choose one after today." if late else None

    settings_form(db, person, "plan", "Lock plan", check=check)


def card_panel() -> None:
    if not is_allowed(person, Action.VIEW_RESULTS):
        st.caption("Measured numbers are shown to seniors and researchers.")
    sections, at = card_sections(db, person, settings, configuration), context.now()
    forms = (("Markdown", "md", card_markdown, "text/markdown"), ("HTML", "html", card_html, "text/html"))
    with st.container(horizontal=True):
        for form, ending, made, mime in forms:
            st.download_button(
                f"Model card {form}",
                made(sections, at),
                f"model-card.{ending}",
                mime,
                on_click="ignore",
                icon=":material/download:",
                key=f"card_{ending}",
            )
    for title, lines in sections:
        st.subheader(title)
        st.text("\n".join(f"• {line}" for line in lines))


def accounts_panel() -> None:
    found = {account.id: account for account in list_accounts(db, person)}
    if not found:
        st.info(
            "Single-user mode: no sign-in is configured, so nobody else can review. docs/operations.md says how to set "
            "it up. The local user has full access."
        )
        return
    if words := no_senior_words(found):
        st.warning(words, icon=":material/gavel:")
    last = st.session_state.get("accounts_last")  # new roles are new words, for which the box begins anew
    chosen = widgets.select(st, "Account", account_titles(found), last)
    widgets.show_said("accounts")
    one_account(found[chosen])


def no_senior_words(found: Mapping[str, Account]) -> str:
    """That cases wait for a senior where nobody is one; empty where none do, or somebody is."""
    disputed = counts(db, person.at(context.now())).disputed
    if not disputed or any(Role.SENIOR in each.roles for each in found.values() if each.active):
        return ""
    return f"{count_of(disputed, 'disagreement needs', 'disagreements need')} a senior reviewer; none is set up."


def account_titles(found: Mapping[str, Account]) -> dict[str, str]:
    """Names are told apart whatever the roles, so that nobody's words become another's when roles change."""
    names = widgets.unique_labels({key: visible(account.display_name) for key, account in found.items()})
    roles = {key: ", ".join(sorted(account.roles)) or "no role" for key, account in found.items()}
    off = {key: "" if account.active else " · switched off" for key, account in found.items()}
    return widgets.unique_labels({key: f"{names[key]} · {roles[key]}{off[key]}" for key in found})


def one_account(account: Account) -> None:
    st.caption("Known to the sign-in as:")
    st.text(account.subject or "the local user")
    stored = sorted(account.roles)  # in the key: what was chosen from other roles than these is not saved over them
    roles = st.multiselect(
        "Roles", list(Role), stored, format_func=str.title, key=f"roles_{account.id}_{'_'.join(stored)}"
    )
    with st.container(horizontal=True):
        if st.button("Save roles", key=f"save_{account.id}", type="primary"):
            act_and_say(account, "Roles saved.", set_roles, frozenset(roles))
        if st.button("End sessions", key=f"revoke_{account.id}", help="Refused at their next action; drafts are kept."):
            act_and_say(account, "Sessions ended.", revoke)
        word = "Switch off" if account.active else "Switch on"
        if st.button(word, key=f"{word}_{account.id}"):  # pressed twice it is not the other one
            act_and_say(account, f"{word}: done.", set_active, not account.active)


def act_and_say(account: Account, said: str, act: Callable[..., object], *to: object) -> None:
    """Do it, and say so beside the account after the page has run again."""
    try:
        act(db, context.actor_now(), account.id, *to)
    except LastAdmin:
        st.error("This is the last account that can manage accounts.")
    else:
        st.session_state["accounts_last"] = account.id
        widgets.say_after_rerun("accounts", said)


def erasure_panel() -> None:
    st.caption(
        "Text, reply, IDs, highlights, notes and drafts are permanently deleted and the case is removed from the "
        "queue. Its hash, its labels and numbers and the audit log stay; exports say [erased]. Files exported before, "
        "and backups, still hold it."
    )
    widgets.show_said("erasure")
    for request in erasure.open_requests(db, person):
        show_request(request)
    erasure_form()
    st.subheader("How long data is kept")
    settings_form(db, person, "keep", "Save times")
    if st.button("Preview expired data"):
        gone = erasure.would_go(db, context.actor_now())
        told = ", ".join(f"{count:,} {name}" for name, count in gone.items() if count)
        st.info(f"Expired now: {told}." if told else "Nothing has expired, or no time is set.")


def show_request(request: Any) -> None:
    """One that waits, for somebody else than who asked to confirm."""
    with st.container(border=True, key=f"erasure_{request.id}"):
        st.text(f"{BY_WORDS[By(request.kind)]}: {visible(request.value)}")
        st.text(f"Asked for on {local_time(request.requested_at)}: {visible(request.reason)}")
        with st.container(horizontal=True):
            mine = request.requested_by == person.id
            if st.button("Delete permanently", key=f"confirm_{request.id}", disabled=mine, type="primary"):
                erase_or_say(lambda: erasure.confirm(db, context.actor_now(), request.id))
            if st.button("Withdraw", key=f"withdraw_{request.id}"):
                erase_or_say(lambda: erasure.withdraw(db, context.actor_now(), request.id))
        if mine:
            st.caption("Somebody else has to confirm what you asked for.")


def erasure_form() -> None:
    st.subheader("Erase")
    with st.form("erase", border=False):
        left, right = st.columns(2)
        by = left.selectbox("Which", list(By), format_func=BY_WORDS.__getitem__, key="erase_by") or By.CASE
        value = right.text_input("ID or group", key="erase_value")
        reason = st.text_input("Reason", key="erase_reason", max_chars=1_000, help="Who asked for it, and when.")
        times = st.session_state.get("erased_times", 0)  # said anew each time
        sure = st.checkbox("I have checked the number of cases. This cannot be undone.", key=f"erase_sure_{times}")
        with st.container(horizontal=True):
            looked = st.form_submit_button("Show how many")
            pressed = st.form_submit_button("Erase", type="primary")
    if not value.strip() and (looked or pressed):
        st.error("Say which.")
        return
    which = Selection(by=by, value=value.strip())
    if looked:
        found = erasure.look(db, person, which)
        some = f"{things_words(found)} would be erased. {backup_words(found)}"
        nothing = "Nothing of this name is here, or all of it is erased already."
        st.info(some if found.cases or found.rejected else nothing)
    if pressed and not sure:
        st.error("Look at the number of cases first, and say that you did.")
    elif pressed:
        erase_or_say(lambda: erasure.erase(db, context.actor_now(), which, reason))


def erase_or_say(act: Callable[[], Erasure | None]) -> None:
    """Do it and say what was erased, or why it is not."""
    try:
        done = act()
    except NotErased as refused:
        st.error(sentence(refused))
        return
    said = "The request is withdrawn."
    if done is not None:
        later = "will be erased once somebody else has confirmed it."
        said = f"{things_words(done)} {later if done.waits_for else f'erased. {backup_words(done)}'}"
    st.session_state["erased_times"] = st.session_state.get("erased_times", 0) + 1
    widgets.say_after_rerun("erasure", said)


def things_words(found: Erasure) -> str:
    rejected = f" and {count_of(found.rejected, 'rejected row')}" if found.rejected else ""
    return count_of(found.cases, "case") + rejected


def backup_words(found: Erasure) -> str:
    if not found.backups:
        return "No backup was taken by this program since it came in."
    days = ", ".join(map(local_time, found.backups[-10:]))
    return f"Backups that may still hold it, {len(found.backups):,} in all: {days}."


def site_panel() -> None:
    words = "" if is_allowed(person, Action.CHANGE_SETTINGS) else " An administrator can change these."
    st.caption(f"Version {settings_store.current(db).version}.{words}")
    settings_form(db, person, "site", "Save as a new version")
    st.subheader("Audit plan")
    plan_panel()
    st.subheader("For the reliability report")
    st.caption("No names and no texts: the report is made to leave the site.")
    settings_form(db, person, "study", "Keep for the report")
    st.subheader("Versions")
    versions(db, person)


st.title("Settings")
parts: dict[str, tuple[Action, Callable[[], None]]] = {
    "Current model": (Action.VIEW_SETTINGS, configuration_panel),
    "Site": (Action.VIEW_SETTINGS, site_panel),
    "Notifications": (Action.CHANGE_SETTINGS, lambda: integrations.notifications_panel(db, person)),
    "Pause AI": (Action.VIEW_SETTINGS, lambda: shell.stop_panel(db, person, context.site())),
    "Accounts": (Action.MANAGE_ACCOUNTS, accounts_panel),
    "API clients": (Action.MANAGE_ACCOUNTS, lambda: integrations.programs_panel(db, person)),
    "Erasure": (Action.ERASE, erasure_panel),
    "Model card": (Action.VIEW_SETTINGS, card_panel),
}
shown = {name: show for name, (action, show) in parts.items() if is_allowed(person, action)}
for tab, (name, show) in zip(st.tabs(list(shown)), shown.items(), strict=True):
    with tab:
        st.header(name)
        show()
