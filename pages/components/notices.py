"""The words every page carries: what this program is, what it is not, and where help is."""

from html import escape

from screening.review.reach import reach_sentence
from screening.settings import SIMULATED_NOTICE
from storage.settings_store import SiteSettings

STOPPED = "Stop button pressed: every new decision goes to a clinician."

_STYLE = """<style>
.sl-notice{display:flex;flex-wrap:wrap;gap:.3rem .9rem;align-items:baseline;font-size:.85rem;
 color:light-dark(#4a5660,#a6b2ba);margin:0 0 .25rem}
.sl-notice b{font-weight:600;color:light-dark(#6b4a00,#f0cf80);background:light-dark(#fdf3d7,#33290f);
 border-radius:.35rem;padding:.1rem .5rem}
.sl-notice b.stop{color:light-dark(#8f150e,#ffb3ab);background:light-dark(#fdeceb,#3a1613)}
.sl-footer{font-size:.8rem;color:light-dark(#55606a,#a6b2ba);border-top:1px solid light-dark(#d5dde3,#35424b);
 padding-top:.6rem;margin-top:1rem}
button[kind^="primary"] kbd{color:#fff;opacity:1}
</style>"""


def notice_html(site: SiteSettings, *, simulated: bool) -> str:
    """One line for the top of every page, as HTML for `st.html`."""
    marks = f'<b role="note">⚠ {escape(SIMULATED_NOTICE)}</b>' if simulated else ""
    marks += f'<b role="alert" class="stop">■ {escape(STOPPED)}</b>' if site.stopped else ""
    return (
        f'{_STYLE}<div class="sl-notice">{marks}<span>Labels texts, not people. Not a crisis service.</span>'
        f"<span>Need help now? {escape(site.help_text)}</span></div>"
    )


def footer_html(site: SiteSettings) -> str:
    """The intended use in the site's own words, and what reaches a person as its settings are, for every page's end."""
    words = f"{site.intended_use} {reach_sentence(site.unsafe_reach, site.labelled_reach)}"
    return f'{_STYLE}<div class="sl-footer">{escape(words)}</div>'
