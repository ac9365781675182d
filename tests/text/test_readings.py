"""What stands between the words or inside them hides no statement, and makes none."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.text.injection import injection_flags
from screening.text.readings import Reading, versions
from screening.text.received import receive
from screening.text.risk_statements import risk_statements

STATED = (
    "I have thought about this for weeks and I am going to kill\nmyself tonight.",
    "Nothing helps and every day is the same. I want to\ndie.",
    "It is decided and nobody can stop it. I am going to end\nmy life tonight.",
    "> I am going to kill\n> myself tonight.",
    "I tried to kill\nmyself last week and nobody noticed.",
    "I am going to kill myself tonight.",
    "<p>I am going to <b>kill</b> myself tonight.</p>",
    "I am going to&nbsp;kill&nbsp;myself tonight.",
    "I don&#39;t want to live any more.",
    "I don&rsquo;t want to live any more.",
    "I don\xe2\u20ac\u2122t want to live any more.",
    "I don=E2=80=99t want to live any more.",
    "I don\\u2019t want to live any more.",
    "{\\rtf1\\ansi I don\\'92t want to live any more.\\par}",
    "I am going to\\nkill myself\\ntonight.",
    "I am going to kill<br/>myself tonight",
    "<td>I want</td><td>to die</td>",
    'I want to <span style="color:red">d</span>ie',
    "&lt;p&gt;I want to &lt;b&gt;die&lt;/b&gt;&lt;/p&gt;",
    "I don&amp;#39;t want to live anymore",
    "I don\xe2\u20ac\u2122t want to live anymore",
    "I don\xc3\xa2\xe2\u201a\xac\xe2\u201e\xa2t want to live anymore",
    "I don\u201a\xc4\xf4t want to live anymore",
    "I don\xd4\xc7\xd6t want to live anymore",
    "I don\u0432\u0402\u2122t want to live anymore",
    "I don\u9225\u6a9b want to live anymore",
    "I don\u7ab6\u51b2 want to live anymore",
    "I don?t want to live anymore",
    "I don\ufffdt want to live anymore",
    "I don\xe2t want to live anymore",
    "I don t want to live anymore",
    "I do n't want to live any more .",
    "I don ' t want to live anymore",
    "I don<U+2019>t want to live anymore",
    "I don<e2><80><99>t want to live anymore",
    "I don\\xe2\\x80\\x99t want to live anymore",
    "I don\\342\\200\\231t want to live anymore",
    "I don%27t%20want%20to%20live%20anymore",
    "I+don%27t+want+to+live+anymore",
    "I don_x2019_t want to live any more",
    "I want_x000D_ to die",
    "{\\rtf1\\ansi{\\fonttbl\\f0 Times;}I am going to \\b kill\\b0  myself tonight\\par}",
    "I don\\u8217?t want to live any more.\\par",
    "I am going to \\textbf{kill} myself",
    "I am going to [b]kill[/b] myself",
    "I am going to [kill](http://a.b/c) myself",
    "I am going to {color:red}kill{color} myself",
    "I want to... die",
    "I want to \u2026 die",
    "I. Want. To. Die.",
    "I want to [sobs] die",
    "I want to, um, die",
    "I'm going to (pause) kill uh myself",
    '"I am going to kill\\\\n\\\\nmyself tonight"',
    '{"body": "I don\\u2019t want to live any more"}',
    "<![CDATA[I want to <i>die</i>]]>",
    "I want<!-- x --> to <!-- y -->die",
    "I want&#8203; to&#8203; die",
    "I&nbspwant&nbspto&nbspdie",
    "I want to die",
    "I want\tto\tdie",
    "I want to=20=\n die",
    "I am going to ki=\nll myself",
    "I WANT TO\nDIE",
    "I am going to kill\n\nmyself tonight",
    "I am going to kill my-\nself tonight",
    "AB> I am going to kill\nAB> myself",
    ">> I want\n>> to die",
    "| I am going to end |\n| my life           |",
    "1\n00:00:01,000 --> 00:00:02,000\nI am going to kill\n\n2\n00:00:03,000 --> 00:00:05,000\nmyself tonight.",
    "12 I am going to kill\n13 myself tonight",
    "I want to\nDie",
    "And I just want to\nDie so much",
    "// I want to\n// die",
    "I want\r\nto\r\ndie",
    "I want\u2028to\x0bdie",
    "I am going to kill  \n  myself",
    "I don\xe2\x80\x99t want to live any more",
    "I want to\n* die *",
)
ORDINARY = (
    "Things to buy: what I want to\nDie cutter for the craft room",
    "I don&#39;t want to go to the party",
    "The band is <b>killing</b> it tonight",
    "I am going to\nthe market tonight",
    "I want to\nthank you all",
    "Tom &amp; I want to live by the sea",
    "Roll the\ndie again",
    "I tried to\ncall you last week",
    "I love my dog <3 and I want to > all else",
    "It cost 50%, don't ask",
    "Roses are red\nDie Rosen sind rot",
    "Recipe:\n2 eggs\n1 cup of milk to\ndie for",
    "I want to (really) thank you [laughs]",
    "Tools I want to\nDie cutter",
    "She said no... die hard fans know",
    "C:\\new\\tools and \\alpha go to \\beta",
    "Would you like tea? Me, always",
    "https://example.com/a%20b?c=3D&d=4",
)
LONGEST = 10_000
HOSTILE = (
    "<!--",
    "#",
    "-",
    "=end ",
    "<p ",
    "< ",
    " ",
    "[[",
    "[a](",
    "{\\\\*",
    "&amp;",
    "=",
    "\\\\u",
    "don ' ",
    "a. ",
    "\n> ",
    "(a ",
    "\n",
    "um ",
    "...",
    "\xe2",
)


@pytest.mark.parametrize("text", STATED)
def test_a_statement_is_found_and_its_phrase_is_where_it_is_said(text):
    found = risk_statements(text)
    assert found
    for one in found:
        phrase = text[one.start : one.end]
        assert phrase and phrase == phrase.strip() and phrase[0].lower() in f"[{one.wording[0]}"
        assert phrase[-1].lower() == one.wording[-1]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_in_the_same_dress_stay_unflagged(text):
    assert risk_statements(text) == ()


@given(st.text(max_size=200))
def test_places_are_those_of_the_text_and_tracking_changes_no_reading(text):
    plain, tracked = list(versions(Reading(text))), list(versions(Reading.tracked(text)))
    assert [one.text for one in plain] == [one.text for one in tracked]
    for one in tracked:
        assert one.at is not None and len(one.at) == len(one.text)
        assert all(0 <= place < max(1, len(text)) for place in one.at)


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_longer_than_its_length_allows(piece):
    def seconds(length: int) -> float:
        begun = time.process_time()
        receive((piece * length)[:length], detectors=[injection_flags])
        return time.process_time() - begun

    assert seconds(LONGEST) < max(8 * seconds(LONGEST // 4), 0.9)
