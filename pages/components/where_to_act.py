"""Where to act on a case: a reference into the site's own system, and a link only where it is one over https."""

from html import escape
from urllib.parse import urlsplit

from screening.text.display import visible


def https_link(where: str) -> str | None:
    """The address where it is a whole one over https with a host, and nothing else; None for any other words.

    >>> https_link("https://records.example.org/7"), https_link("javascript:alert(1)"), https_link("https://a@b.org/")
    ('https://records.example.org/7', None, None)
    """
    try:
        parts = urlsplit(where)
        known = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc and (parts.port or 443)
    except ValueError:
        return None
    return where if known and where.isascii() and where.isprintable() and not set(where) & set(' <>"\\^`{|}') else None


def where_parts(where: str | None) -> dict[str, str | None] | None:
    """The words to show, and the address to open where there is one; None where nothing is known."""
    return None if not where else {"words": visible(where), "href": https_link(where)}


def where_html(where: str | None) -> str:
    """The reference in a line; nothing where none is known."""
    if not where:
        return ""
    words, link = escape(visible(where)), https_link(where)
    if link is not None:
        words = f'<a href="{escape(link, quote=True)}" target="_blank" rel="noopener noreferrer">{words}</a>'
    return f'<p style="margin:0;overflow-wrap:anywhere"><b>Where to act:</b> {words}</p>'
