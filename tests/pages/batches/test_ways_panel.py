"""A batch on the drawing: counts on the ways, and a link to the cases that took them."""

from pages.batches.progress import ways_html
from screening.labels import Label
from screening.pipeline.config import preset
from storage.batches.results import Ways

FOUND = Ways(
    asked={"worker": 1_000, "risk": 90},
    taken={
        ("worker", Label.SAFE): 900,
        ("worker", Label.ESCALATE): 90,
        ("worker", None): 10,
        ("risk", Label.UNSAFE): 90,
    },
    kept_back=0,
)


def test_counts_stand_on_the_ways_and_outcomes_open_their_cases() -> None:
    html = ways_html(preset("recommended"), FOUND, "b&1", linked=True)
    assert "1,000 texts" in html and "safe → safe: 900" in html and "escalate → Risk: 90" in html
    assert 'href="results?batch=b%261&amp;node=worker&amp;outcome=safe"' in html
    assert 'href="results?batch=b%261&amp;node=worker&amp;outcome=human_review"' in html
    assert 'href="results?batch=b%261&amp;way=worker%3Aescalate"' in html
    assert html.count("<a ") == 2 * 4  # in the picture and in the list; a way that nobody went opens nothing


def test_what_an_agent_did_not_settle_is_counted_and_opened_apart_from_its_label() -> None:
    taken = {("worker", Label.ESCALATE): 90, ("worker", None): 10}
    html = ways_html(preset("paper"), Ways(asked={"worker": 100}, taken=taken, kept_back=0), "b1", linked=True)
    assert 'way=worker%3Aescalate" target="_self">escalate 90</a>' in html
    assert 'way=worker%3Anot+settled" target="_self">not settled 10</a>' in html
