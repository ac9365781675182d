"""A user's files as an experiment's data set, with the count at each step and where the labels come from."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from screening.datasets.columns import normalised_name
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import NewCase
from screening.labels import LABELS, Label
from screening.pipeline.draws import ScreenedText, screened_thread
from screening.research.aegis import LabelOf, Screened, load_aegis
from screening.research.raw import rows_beside
from screening.research.recording import Item
from screening.research.swmh import PER_SUBREDDIT, SEED, load_swmh
from screening.text.conversation import Thread
from screening.text.received import ReceivedText

Format = Literal["aegis", "swmh", "csv"]
SUICIDE_WATCH = "self.SuicideWatch"
SHARES: Mapping[str, Label] = {f"p_{label}": label for label in LABELS}
"""Columns that give simulated agents' label distribution for a row: p_safe, p_unsafe, p_escalate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedTexts:
    """An item's text as received, the reply to it, and where the turns of a conversation stand."""

    text: ReceivedText
    reply: ReceivedText | None = None
    thread: Thread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationData:
    """The items, rows left after each step, the labels' provenance, and the group of special interest, if any.

    ``distributions`` are the known label distributions by text, where the file gives them. ``sample`` says how the
    rows were drawn from the files: the call, and the hash of every text drawn. ``received`` are the items' texts and
    replies as they are stored.
    """

    title: str
    items: tuple[Item, ...]
    steps: tuple[tuple[str, int], ...]
    provenance: str
    subset: str | None = None
    distributions: Mapping[ScreenedText, Mapping[Label, float]] = field(default_factory=dict)
    sample: Mapping[str, object] = field(default_factory=dict)
    received: tuple[ReceivedTexts, ...] = ()


def load_evaluation(
    paths: Sequence[Path],
    kind: Format,
    *,
    label_of: LabelOf = LabelOf.RESPONSE,
    screened: Screened = Screened.BOTH,
    per_subreddit: int = PER_SUBREDDIT,
    seed: int = SEED,
    subset: str | None = None,
    read: Callable[[Path], Table] | None = None,
) -> EvaluationData:
    """Read the files. FileRefused for a file of another shape, ValueError where it cannot be an experiment.

    ``read`` is how a table that is no published data set is read; by its proposed columns without it.
    """
    if kind == "aegis":
        return _aegis(paths, label_of, screened)
    if kind == "swmh":
        return _swmh(paths, per_subreddit, seed)
    if len(paths) != 1:
        raise ValueError("one CSV file at a time")
    return _table(paths[0], read(paths[0]) if read else read_table(paths[0], paths[0].name), subset)


def _aegis(paths: Sequence[Path], label_of: LabelOf, screened: Screened) -> EvaluationData:
    found = load_aegis(((path.name, path) for path in paths), label_of=label_of, screened=screened)
    items = tuple(_item(row.id, row.text, row.reply, row.reference, None) for row in found.rows)
    steps = [(step.name, step.rows) for step in found.steps]
    return _screenable(
        EvaluationData(
            title=f"AEGIS 2.0 self-harm subset, {label_of} labels, {screened} screened",
            items=items,
            steps=(*steps, ("of them with repaired Unicode", found.repaired)),
            provenance=f"{_count_names(found.label_sources)}; the label rates the {label_of}",
        ),
        [ReceivedTexts(text=row.text, reply=row.reply) for row in found.rows],
    )


def _swmh(paths: Sequence[Path], per_subreddit: int, seed: int) -> EvaluationData:
    found = load_swmh(((path.name, path) for path in paths), per_subreddit=per_subreddit, seed=seed)
    items = tuple(_item(row.id, row.text, None, row.reference, row.subreddit) for row in found.rows)
    return _screenable(
        EvaluationData(
            title=f"SWMH, {per_subreddit} posts per subreddit",
            items=items,
            steps=(
                ("posts in all files", sum(found.posts.values())),
                *((f"in {subreddit}", posts) for subreddit, posts in sorted(found.posts.items())),
                ("sampled", len(found.rows)),
            ),
            provenance="subreddit, not a person: SuicideWatch is unsafe, the rest safe",
            subset=SUICIDE_WATCH,
            sample={"call": found.call, "sha256": list(found.sha256)},
        ),
        [ReceivedTexts(text=row.text) for row in found.rows],
    )


def _table(path: Path, table: Table, subset: str | None) -> EvaluationData:
    rows = [row for row in table.rows() if isinstance(row, NewCase)]
    items = tuple(_item_of_case(row) for row in rows)
    data = EvaluationData(
        title=table.report.name,
        items=items,
        steps=(
            ("rows in the file", table.report.rows),
            ("accepted", len(rows)),
            ("with a reference label", sum(item.reference is not None for item in items)),
        ),
        provenance=_source(table.report.mapping.label),
        subset=subset,
        distributions=_distributions(path, table, dict(zip((row.row for row in rows), items, strict=True))),
    )
    texts = [ReceivedTexts(text=row.text, reply=row.reply, thread=row.thread) for row in rows]
    return _screenable(data, texts)


def _source(column: str | None) -> str:
    """Where the labels of a table come from.

    >>> _source("risk"), _source(None)
    ('column “risk” of the file; who gave the labels is not stated', 'no column: the file has no labels')
    """
    if column is None:
        return "no column: the file has no labels"
    return f"column “{column}” of the file; who gave the labels is not stated"


def _distributions(path: Path, table: Table, items: Mapping[int, Item]) -> dict[ScreenedText, dict[Label, float]]:
    columns = {normalised_name(name): name for name in table.report.columns}
    if not set(SHARES) <= set(columns):
        return {}
    given: dict[ScreenedText, dict[Label, float]] = {}
    for row, fields in rows_beside(path, table, "the probabilities in p_safe, p_unsafe and p_escalate"):
        if row in items:
            shares = {label: _share(fields.get(columns[name]), row) for name, label in SHARES.items()}
            if given.setdefault(items[row].text, shares) != shares:
                raise ValueError(f"row {row} repeats a text with another distribution")
    return given


def _share(cell: str | None, row: int) -> float:
    try:
        return float(cell or "")
    except ValueError:
        raise ValueError(f"row {row}: a probability is missing or no number") from None


def _item(
    identity: str, text: ReceivedText, reply: ReceivedText | None, reference: Label | None, group: str | None
) -> Item:
    shown = ScreenedText(text=text.model_text, reply=reply.model_text if reply else None)
    return Item(id=identity, text=shown, reference=reference, group=group)


def _item_of_case(row: NewCase) -> Item:
    item = _item(row.external_id, row.text, row.reply, row.reference, row.group)
    if row.thread is None:
        return item
    return replace(item, text=replace(item.text, thread=screened_thread(row.thread, row.text.model_text)))


def _screenable(data: EvaluationData, texts: Iterable[ReceivedTexts]) -> EvaluationData:
    """The data set without texts that no model may be shown (too long, or nothing left of them), and that step."""
    kept = [
        (item, one)
        for item, one in zip(data.items, texts, strict=True)
        if not one.text.refuses_screening and not (one.reply and one.reply.refuses_screening)
    ]
    return replace(
        data,
        items=tuple(item for item, _ in kept),
        received=tuple(one for _, one in kept),
        steps=(*data.steps, ("short enough to be screened", len(kept))),
    )


def _count_names(names: Mapping[str, int]) -> str:
    """ "12 llm_jury, 3 human", the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common()) or "none"


def announcement(data: EvaluationData) -> Iterator[str]:
    """What a person should know of how the data set came about."""
    for name, rows in data.steps:
        yield f"{rows:>8,}  {name}"
    labels = Counter(str(item.reference) if item.reference else "without a reference" for item in data.items)
    yield f"reference labels: {_count_names(labels)}; from {data.provenance}"
