"""One banner while texts cannot be screened: what broke, since when, how many wait, who can mend it, what to press."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from pages.components.words import error_words
from storage.batches.batch_state import BatchState
from storage.batches.unscreened import NO_PROGRESS, NO_WORKER, Standstill, standstills
from storage.database import Database
from storage.site.settings_store import SiteSettings

_STYLE = """<style>
.sl-standstill{border-left:.35rem solid light-dark(#b42318,#f5857b);background:light-dark(#fdf0ee,#2f1715);
 color:light-dark(#10191f,#f3e9e8);padding:.55rem .9rem;border-radius:.3rem;margin:0 0 .5rem;font-size:.95rem;
 line-height:1.45}
.sl-standstill p{margin:.15rem 0}.sl-standstill b{font-weight:650}
</style>"""
_CAPS = frozenset({"max_calls", "max_cost", "cost_unknown"})
_ACCOUNT = frozenset({"authentication", "permission", "billing", "spend_cap", "unknown_model", "redirected"})


def standstill_html(db: Database, site: SiteSettings, now: datetime) -> str:
    """The banner as HTML for `st.html`; empty while everything that waits is on its way."""
    return banner_html(standstills(db, now), site, now)


def banner_html(found: Sequence[Standstill], site: SiteSettings, now: datetime) -> str:
    """One paragraph a cause, and what becomes of the texts meanwhile."""
    if not found:
        return ""
    causes = list(dict.fromkeys(one.cause for one in found))
    said = "".join(f"<p>{_cause_html([one for one in found if one.cause == cause], now)}</p>" for cause in causes)
    meanwhile = (
        f"After {site.unscreened_minutes:g} minutes they enter the inbox as not screened, where their batch has texts "
        "called unsafe read too. None of them is taken for safe."
    )
    return f'{_STYLE}<div class="sl-standstill" role="status">{said}<p>{escape(meanwhile)}</p></div>'


def _cause_html(same: Sequence[Standstill], now: datetime) -> str:
    waiting, since = sum(one.waiting for one in same), min(one.since for one in same)
    what = error_words(same[0].cause)
    texts = "1 text waits" if waiting == 1 else f"{waiting:,} texts wait"
    when = f"{since:%H:%M}" if since.date() == now.date() else f"{since:%Y-%m-%d %H:%M}"
    head = f"▲ {what[0].upper()}{what[1:]}, since {when} UTC. {texts} undecided."
    return f"<b>{escape(head)}</b> {escape(_mend(same[0]))}"


def _mend(one: Standstill) -> str:
    """Who can mend it and what they press."""
    if one.cause == NO_WORKER:
        return "Whoever runs the server can mend it: start the worker. Nothing needs to be pressed here."
    if one.cause == NO_PROGRESS:
        return "Whoever runs the server can mend it: look at the worker's log, and start the worker anew."
    who = "Whoever began the batch, or an administrator"
    if one.cause in _CAPS:
        return f"{who} can mend it: Go on without a cap, on the batch's page."
    if one.cause in _ACCOUNT:
        who = "An administrator mends it in the account or the settings of the model; then whoever began the batch"
    if one.state is BatchState.PAUSED:
        return f"{who} presses Resume on the batch's page."
    if one.state is None:
        return f"{who} presses Retry on the batch's page, or Try again under a single text."
    return "It goes on by itself once that is over; whoever runs the server can look at the model's service."
