"""axe-core on a page: no violation, whatever the colour scheme."""

from collections.abc import Mapping
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

AT_REST = "*{transition:none!important;animation:none!important}[data-stale]{opacity:1!important}"
"""Fading in, or out while a page runs, counts as too little contrast, and on a busy machine lasts long."""


def violations(page: Page, within: str | None = None, options: Mapping[str, Any] | None = None) -> list[str]:
    """What axe-core finds wrong, one line each: the rule, how many elements, the first of them.

    ``within`` looks at one part of the page alone, where the rest is Streamlit's own.
    """
    page.add_style_tag(content=AT_REST)
    page.locator("[data-testid=stStatusWidget]").wait_for(state="detached")
    found = Axe().run(page, context=within, options=options).response["violations"]
    return [
        f"{each['id']} ({each['impact']}, {len(each['nodes'])}): {each['nodes'][0]['html'][:200]} "
        f"{each['nodes'][0].get('failureSummary', '')[:300]}"
        for each in found
    ]
