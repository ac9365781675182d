"""The HTML that pages make themselves, from Jinja2 templates that escape every value: agents, texts, links, reports."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    auto_reload=False,
)


@lru_cache
def macros(name: str) -> Any:
    """The macros of a template as functions; what they return is HTML, and is not escaped again in another one."""
    return TEMPLATES.get_template(f"{name}.html").module


class Link(NamedTuple):
    """Words that lead somewhere in this tab, as no widget's do; a ``kind`` colors the ``number`` before them, and what
    is there may be a file to ``download``, by its name.
    """

    words: str
    href: str | None
    number: str = ""
    kind: str = ""
    download: str = ""


def links_html(links: Iterable[Link]) -> str:
    """A row of links."""
    return str(macros("links").row(links))
