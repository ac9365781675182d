"""AEGIS 2.0 and SWMH as a file of their own, prepared as the paper describes: what a page takes in like any other."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from screening.datasets.known import KnownDataset
from screening.datasets.source import Source
from screening.research.aegis import load_aegis
from screening.research.swmh import load_swmh
from screening.text.received import ReceivedText, original_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The rows with ``id``, ``text``, ``reply``, ``label`` and ``group``, and how many were left after each step."""

    rows: tuple[Mapping[str, str | None], ...]
    steps: tuple[tuple[str, int], ...]

    def lines(self) -> Iterator[str]:
        """The rows as JSON lines in ASCII: every text exactly as it was, broken Unicode too."""
        return (json.dumps(row) + "\n" for row in self.rows)


def prepare(known: KnownDataset, name: str, source: Source) -> Prepared:
    """The file's rows as the paper takes them: of AEGIS the self-harm subset, prompt and response, by the label of the
    response; of SWMH 50 posts of each subreddit, which is the group.

    FileRefused for a file of another shape, ValueError where there are too few posts.
    """
    return _aegis(name, source) if known is KnownDataset.AEGIS else _swmh(name, source)


def _aegis(name: str, source: Source) -> Prepared:
    found = load_aegis([(name, source)])
    rows = tuple(_row(row.id, row.text, row.reply, row.reference.value, None) for row in found.rows)
    steps = tuple((step.name, step.rows) for step in found.steps)
    return Prepared(rows=rows, steps=(*steps, ("of them with repaired Unicode", found.repaired)))


def _swmh(name: str, source: Source) -> Prepared:
    found = load_swmh([(name, source)])
    rows = tuple(_row(row.id, row.text, None, row.reference.value, row.subreddit) for row in found.rows)
    posts = ((f"posts in {subreddit}", count) for subreddit, count in sorted(found.posts.items()))
    return Prepared(rows=rows, steps=(*posts, (f"drawn by {found.call}", len(rows))))


def _row(
    identity: str, text: ReceivedText, reply: ReceivedText | None, label: str, group: str | None
) -> Mapping[str, str | None]:
    said = None if reply is None else original_text(reply)
    words = original_text(text)
    return {"id": identity, "text": words, "reply": said, "label": label, "group": group}
