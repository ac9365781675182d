"""Texts made from an expression by walking it: what Hypothesis' from_regex does, but minding word boundaries."""

import random
import re

from screening.text.promises import _parse

FILLERS = (" ", " ", " and ", ", so ", "")
MOST_REPEATS = 3


def wordings(expression: re.Pattern[str], many: int, seed: int) -> list[str]:
    """Up to ``many`` different texts that the expression matches; whatever it does not match after all is left out."""
    chance, items = random.Random(seed), _parse(expression)
    made = dict.fromkeys(_wording(items, chance) for _ in range(40 * many))
    return [text for text in made if expression.search(text)][:many]


def _wording(items, chance: random.Random) -> str:
    return "".join(_one(str(operation), argument, chance) for operation, argument in items)


def _one(operation: str, argument, chance: random.Random) -> str:
    match operation:
        case "LITERAL":
            return chr(argument)
        case "IN":
            return _member(argument, chance)
        case "NOT_LITERAL":
            return "x" if argument != ord("x") else "y"
        case "SUBPATTERN":
            return _wording(argument[3], chance)
        case "BRANCH":
            return _wording(chance.choice(argument[1]), chance)
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeated(*argument, chance)
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ""
    raise NotImplementedError(operation)


def _repeated(least: int, most, items, chance: random.Random) -> str:
    if str(items[0][0]) == "ANY":
        return chance.choice(FILLERS) if least == 0 else "." * least
    return "".join(_wording(items, chance) for _ in range(chance.randint(least, min(int(most), least + MOST_REPEATS))))


def _member(members, chance: random.Random) -> str:
    kind, value = chance.choice(members)
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(chance.randint(*value))
        case "CATEGORY":
            return {"SPACE": "  \n\t\xa0\u2003", "WORD": "aeszé9"}.get(str(value).removeprefix("CATEGORY_"), " .")[
                chance.randrange(2)
            ]
    return chance.choice(" x.'!")  # what a negated class leaves, mostly
