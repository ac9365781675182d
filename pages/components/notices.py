"""The words every page carries: what this program is, what it is not, and where help is."""

from html import escape

from screening.settings import SIMULATED_NOTICE, Settings

INTENDED_USE = "Labels texts, not people. Not a crisis service; nobody watches it in real time."

_STYLE = """<style>
.sl-notice{display:flex;flex-wrap:wrap;gap:.3rem .9rem;align-items:baseline;font-size:.85rem;
 color:light-dark(#4a5660,#a6b2ba);margin:0 0 .25rem}
.sl-notice b{font-weight:600;color:light-dark(#6b4a00,#f0cf80);background:light-dark(#fdf3d7,#33290f);
 border-radius:.35rem;padding:.1rem .5rem}
</style>"""


def notice_html(settings: Settings) -> str:
    """One line for the top of every page, as HTML for `st.html`."""
    simulated = f'<b role="note">⚠ {escape(SIMULATED_NOTICE)}</b>' if settings.simulated else ""
    return (
        f'{_STYLE}<div class="sl-notice">{simulated}<span>{escape(INTENDED_USE)}</span>'
        f"<span>Need help now? {escape(settings.help_text)}</span></div>"
    )
