"""axe-core on a page: no violation, whatever the colour scheme."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def violations(page: Page, within: str | None = None) -> list[str]:
    """What axe-core finds wrong, one line each: the rule, how many elements, the first of them.

    ``within`` looks at one part of the page alone, where the rest is Streamlit's own.
    """
    page.locator("[data-testid=stStatusWidget]").wait_for(state="detached")
    page.wait_for_timeout(500)  # fading in counts as too little contrast
    found = Axe().run(page, context=within).response["violations"]
    return [
        f"{each['id']} ({each['impact']}, {len(each['nodes'])}): {each['nodes'][0]['html'][:200]} "
        f"{each['nodes'][0].get('failureSummary', '')[:300]}"
        for each in found
    ]
