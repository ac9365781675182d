"""The drawing of a pipeline says the same as its list, and text in it is never markup."""

import re

from pages.ui.charts import NOT_SETTLED, NodeMark, WayMark, diagram_html, way_html
from screening.pipeline.config import preset
from screening.pipeline.files import shipped_pipelines


def _listed(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", item) for item in re.findall(r"<li[ >].*?(?=<ul>|</li>)", html.partition("<ol>")[2])]


def test_the_list_names_every_agent_and_every_way() -> None:
    listed = _listed(diagram_html(shipped_pipelines()["four_agents"]))
    assert [words for words in listed if "→" not in words] == ["Worker", "Risk", "Cultural context", "Legal"]
    assert listed[1:5] == ["safe → safe", "unsafe → unsafe", "escalate → Risk", "not settled → a clinician"]
    assert len(listed) == 4 * 5


def test_counts_stand_on_the_ways_and_open_their_cases_where_there_are_any() -> None:
    ways = {
        ("worker", "safe"): WayMark(count=1_900, href="/r?a=1&b=2"),
        ("worker", "unsafe"): WayMark(count=0, href="/n"),
    }
    html = diagram_html(preset("recommended"), {}, ways)
    assert html.count('<a href="/r?a=1&amp;b=2" target="_self">') == 2  # in the picture and in the list
    assert "/n" not in html and "unsafe → unsafe: 0" in html and "1,900" in html


def test_titles_and_marks_are_text() -> None:
    node = preset("recommended").nodes[0].model_copy(update={"title": "<img src=x>"})
    rest = preset("recommended").nodes[1:]
    pipeline = preset("recommended").model_copy(update={"nodes": (node, *rest)})
    html = diagram_html(
        pipeline, {"worker": NodeMark(words="<b>")}, {("worker", NOT_SETTLED): WayMark(count=1, href='"')}
    )
    assert "<img" not in html and html.count("&lt;img src=x&gt;") == 2 and 'href="&quot;"' in html


def test_the_way_of_a_text_follows_its_draws() -> None:
    pipeline = preset("recommended")
    live = way_html(pipeline, {"worker/main": "E" * 6, "risk/main": "SS"}, ended=False)
    assert _listed(live.partition("<ol>")[1] + live.partition("<ol>")[2])[3] == "escalate → Risk (taken)"
    assert 'aria-current="step"><b>Risk</b> <span>2 of ≤ 100 calls</span>' in live
    done = way_html(pipeline, {"worker/main": "U" * 6}, ended=True, outcome="unsafe")
    assert "unsafe · 6 calls" in done and done.count("not asked") == 4 and "o-unsafe reached" in done
    open_end = way_html(pipeline, {"worker/main": "SU" * 50}, ended=True, outcome="human_review")
    assert "not settled → a clinician (taken)" in open_end
