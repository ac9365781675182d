"""The drawing of a pipeline says the same as its list, and text in it is never markup."""

import re

from pages.batches.progress import ways_html
from pages.ui.engine_view import NO_DECISION, diagram_html, way_html
from screening.labels import Label
from screening.pipeline.config import preset
from screening.pipeline.files import shipped_pipelines
from storage.batches.results import Ways


def _listed(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", item) for item in re.findall(r"<li[ >].*?(?=<ul>|</li>)", html.partition("<ol>")[2])]


def test_the_list_names_every_agent_and_every_way() -> None:
    listed = _listed(diagram_html(shipped_pipelines()["four_agents"], {}))
    assert [words for words in listed if "→" not in words] == ["Worker", "Risk", "Cultural context", "Legal"]
    assert listed[1:5] == ["safe → safe", "unsafe → unsafe", "escalate → Risk", "no decision → a clinician"]
    assert len(listed) == 4 * 5


def test_titles_and_marks_are_text() -> None:
    node = preset("recommended").nodes[0].model_copy(update={"title": "<img src=x>"})
    rest = preset("recommended").nodes[1:]
    pipeline = preset("recommended").model_copy(update={"nodes": (node, *rest)})
    html = diagram_html(pipeline, {"worker": "<b>"}, {("worker", NO_DECISION): (1, '"')})
    assert "<img" not in html and html.count("&lt;img src=x&gt;") == 2 and 'href="&#34;"' in html


def test_the_way_of_a_text_follows_its_draws() -> None:
    pipeline = preset("recommended")
    live = way_html(pipeline, {"worker/main": "E" * 6, "risk/main": "SS"}, ended=False)
    assert _listed(live.partition("<ol>")[1] + live.partition("<ol>")[2])[3] == "escalate → Risk (taken)"
    assert 'aria-current="step"><b>Risk</b> <span>2 of ≤ 100 calls</span>' in live
    done = way_html(pipeline, {"worker/main": "U" * 6}, ended=True, outcome="unsafe")
    assert "unsafe · 6 calls" in done and done.count("not asked") == 4 and "o-unsafe reached" in done
    open_end = way_html(pipeline, {"worker/main": "SU" * 50}, ended=True, outcome="human_review")
    assert "no decision → a clinician (taken)" in open_end


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
    assert 'href="/results?batch=b%261&amp;node=worker&amp;outcome=safe"' in html
    assert 'href="/results?batch=b%261&amp;node=worker&amp;outcome=human_review"' in html
    assert 'href="/results?batch=b%261&amp;way=worker%3Aescalate"' in html
    assert html.count("<a ") == 2 * 4  # in the picture and in the list; a way that nobody went opens nothing


def test_what_an_agent_did_not_settle_is_counted_and_opened_apart_from_its_label() -> None:
    taken = {("worker", Label.ESCALATE): 90, ("worker", None): 10}
    html = ways_html(preset("paper"), Ways(asked={"worker": 100}, taken=taken, kept_back=0), "b1", linked=True)
    assert 'way=worker%3Aescalate" target="_self">escalate 90</a>' in html
    assert 'way=worker%3Ano+decision" target="_self">no decision 10</a>' in html
