"""Text as a person may look at it: what would be invisible is marked, or all of it is masked."""

import re

from screening.text.characters import code_point, invisibles

_MARKED = re.compile("\r(?!\n)|[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with every invisible, control or direction-changing character as a marker such as ⟨U+202E⟩.

    Emoji keep their joiners and selectors; tab and line ends stay. The rest is unchanged, so the result is
    still untrusted and must be escaped by whatever shows it.

    >>> visible("note: \u202eefas")
    'note: ⟨U+202E⟩efas'
    """
    parts, done = [], 0
    for position, character in sorted(_to_mark(text).items()):
        parts += [text[done:position], _marker(character)]
        done = position + 1
    return "".join([*parts, text[done:]])


NAME_LIMIT = 120


def file_label(name: str) -> str:
    """The last part of a file name, in printable characters, for people to read.

    >>> file_label("../../etc/passwd.csv"), file_label("C:\\\\x\\\\a\\u202eb\\x1b[31m.csv")
    ('passwd.csv', 'ab[31m.csv')
    """
    last = re.split(r"[/\\]", name)[-1]
    return "".join(character for character in last if character.isprintable())[:NAME_LIMIT] or "file"


def received_offset(text: str, shown: int) -> int:
    """The position in ``text`` of a position in `visible(text)`; one within a marker is that of its character.

    >>> received_offset("a\\u202eb", 1), received_offset("a\\u202eb", 5), received_offset("a\\u202eb", 9)
    (1, 1, 2)
    """
    before = 0  # by how much the text shown is longer so far
    for position, character in sorted(_to_mark(text).items()):
        length = len(_marker(character))
        if shown < position + before + length:
            return min(max(0, shown - before), position)
        before += length - 1
    return min(max(0, shown - before), len(text))


def shown_offset(text: str, received: int) -> int:
    """The position in `visible(text)` of a position in ``text``.

    >>> shown_offset("a\\u202eb", 1), shown_offset("a\\u202eb", 2)
    (1, 9)
    """
    return received + sum(len(_marker(character)) - 1 for at, character in _to_mark(text).items() if at < received)


def _to_mark(text: str) -> dict[int, str]:
    """Where a marker stands in the place of a character, and of which."""
    found = {each.position: each.character for each in invisibles(text)}
    return found | {match.start(): match.group() for match in _MARKED.finditer(text)}


def _marker(character: str) -> str:
    return f"⟨{code_point(character)}⟩"
