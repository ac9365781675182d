"""The first look passes over no expression that matches: fixtures, texts made from the expressions, all of Unicode."""

import random
import re
import sys
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screening.text.first_look import first_look
from screening.text.injection import EXCERPT, Sign, _decode, _join_letters, injection_signs
from screening.text.injection_patterns import Pattern, SignKind, Strength, matches, may_match, patterns
from screening.text.promises import _parse, fold, promise_of
from tests.injection.ordinary import ORDINARY
from tests.injection.suite import read_probes
from tests.injection.wordings import wordings
from tests.text.sentences import ENGLISH

ATTACKS = [probe.text for probe in read_probes("attacks.jsonl")]
HELD_OUT = [probe.text for name in ("held_out_1", "held_out_2") for probe in read_probes(f"{name}.jsonl")]
LOOK = first_look(pattern.expression for pattern in patterns())
AROUND = ("", " ", "x", ".", "\n", "ß", "\x01", " safe ", "İ")
EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))


def plainly(text: str) -> list[tuple[Pattern, str]]:
    """The plain search that the first look must not change."""
    found = ((pattern, pattern.expression.search(text)) for pattern in patterns())
    return [(pattern, match[0]) for pattern, match in found if match]


def plain_signs(text: str) -> set[Sign]:
    def strong(kind: SignKind, readings: list[str]) -> set[Sign]:
        found = (one for reading in readings for one in plainly(reading) if one[0].strength is Strength.STRONG)
        return {Sign(kind=kind, strength=Strength.STRONG, wording=wording[:EXCERPT]) for _, wording in found}

    plain = {Sign(kind=one.kind, strength=one.strength, wording=wording[:EXCERPT]) for one, wording in plainly(text)}
    return plain | strong(SignKind.SPLIT, list(_join_letters(text))) | strong(SignKind.ENCODED, list(_decode(text)))


def literals(items) -> set[str]:
    """Every character an expression spells out, lookarounds and all."""
    found = set()
    for operation, argument in items:
        if str(operation) in {"LITERAL", "NOT_LITERAL"}:
            found.add(chr(argument))
        for inner in argument if isinstance(argument, (list, tuple)) else ():
            if isinstance(inner, list):
                found |= {one for branch in inner for one in literals(branch)}
            elif isinstance(inner, tuple) and str(inner[0]) == "LITERAL":
                found.add(chr(inner[1]))
            elif hasattr(inner, "getwidth"):
                found |= literals(inner)
    return found


CHARACTERS = sorted(set().union(*(literals(_parse(pattern.expression)) for pattern in patterns())))


def same_when_case_is_ignored() -> dict[str, list[str]]:
    """For each character of the expressions all that it matches, asked of the search itself."""
    candidates = "".join(re.findall(f"[{re.escape(''.join(CHARACTERS))}]", EVERYTHING, re.IGNORECASE))
    return {one: re.findall(re.escape(one), candidates, re.IGNORECASE) for one in CHARACTERS}


ALIKE = same_when_case_is_ignored()


@pytest.mark.parametrize(
    "texts", [ATTACKS, HELD_OUT, ORDINARY, ENGLISH], ids=["attacks", "held_out", "ordinary", "english"]
)
def test_it_finds_in_every_fixture_what_the_plain_search_finds(texts):
    for text in texts:
        assert [(pattern, match[0]) for pattern, match in matches(text)] == plainly(text)
        signs = {sign for sign in injection_signs(text) if sign.kind is not SignKind.HIDDEN_UNICODE}
        assert signs == plain_signs(text)


def test_every_character_is_folded_as_the_search_compares_it():
    assert len(CHARACTERS) > 150 and {"ı", "İ", "I"} <= set(ALIKE["i"]) and "ſ" in ALIKE["s"] and "\u1c81" in ALIKE["д"]
    for one, others in ALIKE.items():
        assert {fold(other) for other in others} == {fold(one)} and len(fold(one)) == 1
        assert len({re.match(r"\w", other) is None for other in others}) == 1, "a word ends where its twin goes on"


def test_all_white_space_is_folded_to_a_space():
    assert {fold(one) for one in re.findall(r"\s", EVERYTHING)} == {" "}
    assert not [one for one in re.findall(r"\S", EVERYTHING) if fold(one) == " "]


def test_each_character_is_folded_for_itself():
    """Else a literal could be torn apart by its neighbours, as the two readings of a capital sigma would."""
    assert fold(EVERYTHING) == "".join(map(fold, EVERYTHING))
    assert fold(EVERYTHING[::-1]) == "".join(map(fold, EVERYTHING[::-1]))


def disguised(text: str, chance: random.Random) -> str:
    """The text with characters that match the same when case is ignored."""
    return "".join(chance.choice(ALIKE.get(one, [one])) for one in text)


@pytest.mark.parametrize("index", range(len(patterns())))
def test_whatever_an_expression_matches_the_first_look_admits(index):
    expression, chance = patterns()[index].expression, random.Random(index)
    made = wordings(expression, 60, index)
    assert len(made) >= 10
    for wording in made:
        around = [chance.choice(AROUND), chance.choice(AROUND)]
        for text in (wording, wording.join(around), disguised(wording, chance).join(around)):
            assert expression.search(text) is None or index in LOOK.candidates(text)
            if expression.search(text) and patterns()[index].strength is Strength.STRONG:
                assert may_match(f"before\0{text}\0after", (Strength.STRONG,))


@settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_hypothesis_makes_of_an_expression_the_first_look_admits(data):
    index = data.draw(st.sampled_from([8, 18, 26, 28, 34, 37, 38, 44, 45, 46, 47, 52, 53, 54, 57]))
    text = data.draw(st.from_regex(patterns()[index].expression))
    assert index in LOOK.candidates(text)


WORDS = sorted({word for pattern in patterns() for word in re.findall(r"[^\W\d_]+", pattern.expression.pattern)})
BETWEEN = st.sampled_from([" ", "  ", "\n", "-", ": ", ". ", '"', "_", "\x01", "", "ſ", "'s "])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WORDS), BETWEEN), max_size=25))
def test_it_finds_among_the_words_of_the_expressions_what_the_plain_search_finds(parts):
    text = "".join(part for pair in parts for part in pair)
    assert [(pattern, match[0]) for pattern, match in matches(text)] == plainly(text)


def test_every_expression_is_opened_by_words_alone():
    """None is dropped, and none has to be tried on every text."""
    assert all(promise_of(pattern.expression) for pattern in patterns())
    opened = set().union(*LOOK.opens.values())
    assert opened == set(range(len(patterns()))) and not LOOK.always


def test_most_expressions_are_passed_over_in_ordinary_texts():
    """The point of it: fewer than one in twenty is tried, where all were."""
    tried = sum(len(LOOK.candidates(text)) for text in ORDINARY + ENGLISH)
    assert tried < len(ORDINARY + ENGLISH) * len(patterns()) / 20


@pytest.mark.parametrize(
    ("expression", "met", "unmet"),
    [
        ("colou?r", ["COLOR", "colour"], ["colr"]),
        (r"\bai\b", ["an AI.", "ai"], ["again", "ai_"]),
        ("(?:one|two) (?:three|four)", ["one three", "TWO FOUR"], ["one two", "three one"]),
        ("(?:a.*b|cd)+e", ["a xbe", "cde"], ["abfe", "cd"]),
        ("(?:no){2,}", ["nono"], ["n"]),
        ("(?:no)*", ["", "x"], []),
        ("x?|yes", ["", "z"], []),
        ("(?=here)", [""], []),
        ("[abc]+", ["b"], ["d"]),
        ("[a-c]+", ["b", "d"], []),
        ("[^a]", ["a"], []),
        ("Straße", ["STRASSE", "straẞe"], ["strae"]),
        ("(?P<x>ab)(?P=x)", ["abab"], ["a"]),
        ("(?>ab)c", ["abc"], []),
        ("(?-i:ab)", ["x"], []),
    ],
)
def test_what_an_expression_promises(expression, met, unmet):
    look = first_look([re.compile(expression, re.IGNORECASE)])
    assert all(look.candidates(text) == [0] for text in met)
    assert all(look.candidates(text) == [] for text in unmet)


def test_an_expression_with_other_words_is_always_tried():
    assert first_look([re.compile(r"\bsûr\b", re.IGNORECASE | re.ASCII)]).candidates("nothing") == [0]


def test_candidates_are_in_order():
    found = [LOOK.candidates(text) for text in ATTACKS]
    assert all(first < second for one in found for first, second in pairwise(one)) and any(
        len(one) > 2 for one in found
    )
