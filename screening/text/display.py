"""Text as a person may look at it: what would be invisible is marked, or all of it is masked."""

import re

from screening.text.characters import code_point, invisibles

_LINE_ENDS = re.compile("\r(?!\n)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LETTER_OR_DIGIT = re.compile(r"\w")


def visible(text: str) -> str:
    """The text with every invisible, control or direction-changing character as a marker such as ⟨U+202E⟩.

    Emoji keep their joiners and selectors; tab and line ends stay. The rest is unchanged, so the result is
    still untrusted and must be escaped by whatever shows it.

    >>> visible("note: \\u202eefas")
    'note: ⟨U+202E⟩efas'
    """
    parts, done = [], 0
    for found in invisibles(text):
        parts += [text[done : found.position], _marker(found.character)]
        done = found.position + 1
    marked = "".join([*parts, text[done:]])
    return _SURROGATE.sub(_mark_match, _LINE_ENDS.sub(_mark_match, marked))


def masked_snippet(text: str, length: int = 60) -> str:
    """The first ``length`` characters on one line with every letter and digit as •, for lists.

    >>> masked_snippet("I am\\nfine, you?", length=10)
    '• •• ••••,…'
    """
    line = " ".join(visible(text[: length * 4]).split())
    masked = _LETTER_OR_DIGIT.sub("•", line[:length])
    return masked + "…" if len(line) > length or len(text) > length * 4 else masked


def _mark_match(match: re.Match[str]) -> str:
    return _marker(match.group())


def _marker(character: str) -> str:
    return f"⟨{code_point(character)}⟩"
