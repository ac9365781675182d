"""axe-core on a page: no violation, whatever the colour scheme."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

AT_REST = "*{transition:none!important;animation:none!important}[data-stale]{opacity:1!important}"
"""Fading in, or out while a page runs, counts as too little contrast, and on a busy machine lasts long."""

FOUND = "([within, options]) => axe.run(within ?? document, options).then((all) => all.violations)"
"""What is well, element by element, takes axe-core most of its time to write down, and nobody reads it."""

SCHEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")
IN_SCHEME = "scheme => getComputedStyle(document.querySelector('.stApp')).colorScheme === scheme"


def each_scheme(page: Page) -> Iterator[str]:
    """The open page in one colour scheme after the other, as when the machine's own changes; light in the end."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(IN_SCHEME, arg=scheme)
        yield scheme


def violations(page: Page, within: str | None = None, options: Mapping[str, Any] | None = None) -> list[str]:
    """What axe-core finds wrong, one line each: the rule, how many elements, the first of them.

    ``within`` looks at one part of the page alone, where the rest is Streamlit's own.
    """
    page.add_style_tag(content=AT_REST)
    page.locator("[data-testid=stStatusWidget]").wait_for(state="detached")
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate(FOUND, [within, {"resultTypes": ["violations"], **(options or {})}])
    return [
        f"{each['id']} ({each['impact']}, {len(each['nodes'])}): {each['nodes'][0]['html'][:200]} "
        f"{each['nodes'][0].get('failureSummary', '')[:300]}"
        for each in found
    ]
