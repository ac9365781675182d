"""SWMH (gated, research only, not to be passed on): a sample of equal size from each of its five subreddits.

The paper samples 50 of each with random_state = 42, which does not fix the sample: two usual pandas calls shared
57 of 250 rows. The call used here is named in the sample, with the hash of every row drawn.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from screening.datasets.labels import map_label
from screening.datasets.source import Source
from screening.labels import Label
from screening.research.raw import published_rows
from screening.text.received import ReceivedText, receive, text_sha256

COLUMNS: frozenset[str] = frozenset({"text", "label"})
PER_SUBREDDIT = 50
SEED = 42
CALL = "DataFrame.groupby('label').sample(n={n}, random_state={seed}) on the files' rows in the order given"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwmhRow:
    """One post drawn: SuicideWatch counts as unsafe, the rest as safe (the paper's section 5)."""

    file: str
    row: int
    text: ReceivedText
    subreddit: str
    reference: Label

    @property
    def id(self) -> str:
        """The post's place in the published files, which have no ids."""
        return f"{self.file}:{self.row}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwmhSample:
    """The posts drawn, the call that drew them and the SHA-256 of each text, in the order drawn."""

    rows: tuple[SwmhRow, ...]
    call: str
    sha256: tuple[str, ...]
    posts: dict[str, int]


def load_swmh(
    files: Iterable[tuple[str, Source]], *, per_subreddit: int = PER_SUBREDDIT, seed: int = SEED
) -> SwmhSample:
    """A sample of the posts in the files. FileRefused for a file of another shape, ValueError for too few posts."""
    frame = pd.DataFrame(
        [
            (name, row, fields["text"] or "", (fields["label"] or "").strip())
            for name, source in files
            for row, fields in published_rows(source, COLUMNS)
        ],
        columns=["file", "row", "text", "label"],
    )
    posts = {str(label): int(count) for label, count in frame["label"].value_counts().items()}
    if any(count < per_subreddit for count in posts.values()):
        raise ValueError(f"a subreddit has fewer than {per_subreddit} posts")
    drawn = frame.groupby("label").sample(n=per_subreddit, random_state=seed)
    rows = tuple(_swmh_row(*values) for values in drawn.itertuples(index=False, name=None))
    return SwmhSample(
        rows=rows,
        call=CALL.format(n=per_subreddit, seed=seed),
        sha256=tuple(text_sha256(text) for text in drawn["text"]),
        posts=posts,
    )


def _swmh_row(file: str, row: int, text: str, label: str) -> SwmhRow:
    reference = map_label(label)
    if reference is None:
        raise ValueError("a label is none of the five subreddits")
    return SwmhRow(file=file, row=int(row), text=receive(text), subreddit=label, reference=reference)
