"""A user's files, or a published data set, as an experiment's data: the count at each step, where labels come from.

AEGIS 2.0 (Nemotron Content Safety V2, CC-BY-4.0) is preprocessed as the paper describes (section 5): rows with a
category of suicide or self-harm; without redacted prompts; with a label of the kind chosen; then one row per id, the
first kept. The count is kept at each step, because the paper's own numbers (163 rows; 172 safe and 119 unsafe) do not
add up.

SWMH (gated, research only, not to be passed on): a sample of equal size from each of its five subreddits. The paper
samples 50 of each with random_state = 42, which does not fix the sample: two usual pandas calls shared 57 of 250 rows.
The call used here is named in the sample, with the hash of every row drawn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from screening.datasets.formats import find_layout, rows_of
from screening.datasets.reader import Table
from screening.datasets.rows import Fields, FileLayout, FileRefused, NewCase, Source, map_label, normalised_name
from screening.evaluation.recording import Item
from screening.labels import LABELS, Label
from screening.pipeline.draws import ScreenedText, screened_thread
from screening.text.flags import REFUSES_SCREENING, Flag
from screening.text.received import receive, text_sha256

Files = Iterable[tuple[str, Source]]
AEGIS_COLUMNS = frozenset({"id", "prompt", "response", "prompt_label", "response_label", "violated_categories"})
PER_SUBREDDIT = 50
SEED = 42
CALL = "DataFrame.groupby('label').sample(n={n}, random_state={seed}) on the files' rows in the order given"
SHARES: Mapping[str, Label] = {f"p_{label}": label for label in LABELS}
"""Columns that give simulated agents' label distribution for a row: p_safe, p_unsafe, p_escalate."""


LEFT_OUT: Mapping[Flag, str] = {
    Flag.EMPTY: "escalated to a clinician: nothing but invisible characters",
    Flag.ROW_REJECTED: "escalated to a clinician: cannot be read as it should, and states a risk",
    Flag.TOO_LONG: "escalated to a clinician: longer than a model is shown",
}
MOST_NAMED = 20


class LabelOf(StrEnum):
    """Which of the two reference labels is used: the paper's rates the reply, not the writer."""

    RESPONSE = "response"
    PROMPT = "prompt"


class Screened(StrEnum):
    BOTH = "prompt and response"
    PROMPT = "prompt"
    RESPONSE = "response"


@dataclass(frozen=True, kw_only=True)
class EvaluationData:
    """The ``rows`` that a model may be shown, and what an experiment knows of each as ``items``; those ``left_out``, of
    which a clinician decides; how many were left after each of the ``steps``; the labels' provenance, and the group of
    special interest, if any.

    ``distributions`` are the known label distributions by text, where the file gives them. ``sample`` says how the
    rows were drawn from the files: the call, and the hash of every text drawn.
    """

    title: str
    rows: tuple[NewCase, ...]
    items: tuple[Item, ...]
    left_out: tuple[NewCase, ...]
    steps: tuple[tuple[str, int], ...]
    provenance: str
    distributions: Mapping[ScreenedText, Mapping[Label, float]] = field(default_factory=dict)
    sample: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, read: Iterable[NewCase], steps: Iterable[tuple[str, int]], **about: Any) -> Self:
        """Of what was read in these steps, with one more step for each reason not to show a row to a model."""
        rows, left_out, reasons = list[NewCase](), list[NewCase](), Counter[str]()
        for row in read:
            flags = row.text.flags | (row.reply.flags if row.reply else frozenset())
            if refusing := sorted(flags & REFUSES_SCREENING):
                left_out.append(row)
                reasons[LEFT_OUT[refusing[0]]] += 1
            else:
                rows.append(row)
        return cls(
            rows=tuple(rows),
            items=tuple(map(_item, rows)),
            left_out=tuple(left_out),
            steps=(*steps, *reasons.items(), ("that agents are asked about", len(rows))),
            **about,
        )


def _item(row: NewCase) -> Item:
    shown = ScreenedText(
        text=row.text.model_text,
        reply=row.reply.model_text if row.reply else None,
        thread=screened_thread(row.thread, row.text.model_text) if row.thread else None,
    )
    return Item(id=row.external_id, text=shown, reference=row.reference, group=row.group)


def load_aegis(
    files: Files, *, label_of: LabelOf = LabelOf.RESPONSE, screened: Screened = Screened.BOTH
) -> EvaluationData:
    """The self-harm subset of the files in the order given. FileRefused for a file of another shape.

    Texts with broken Unicode are repaired and counted, never dropped (the paper dropped two).
    """
    label, shown = f"{label_of}_label", "response" if screened is Screened.RESPONSE else "prompt"
    steps: list[tuple[str, int]] = []

    def keep(name: str, rows: Iterable[tuple[str, Fields]]) -> list[tuple[str, Fields]]:
        left = list(rows)
        steps.append((name, len(left)))
        return left

    read = (
        (f"{name}:{row}", fields) for name, source in files for row, fields in published_rows(source, AEGIS_COLUMNS)
    )
    rows = keep("rows in all files", read)
    named = ((one, (one[1].get("violated_categories") or "").casefold()) for one in rows)
    rows = keep("category suicide or self harm", (one for one, of in named if "suicide" in of or "self harm" in of))
    whole = (one for one in rows if one[1]["prompt"] != "REDACTED" and not one[1].get("reconstruction_id_if_redacted"))
    rows = keep("prompt not redacted", whole)
    rows = keep(f"with a {label_of} label", (one for one in rows if map_label(one[1].get(label))))
    first: dict[str | None, tuple[str, Fields]] = {}
    for one in rows:
        first.setdefault(one[1]["id"], one)
    rows = keep("first row of each id", first.values())
    rows = keep(f"with a {screened} to screen", (one for one in rows if one[1].get(shown)))
    taken = [
        NewCase(
            row=number,
            external_id=fields["id"] or place,
            text=receive(fields[shown] or ""),
            reply=receive(reply) if screened is Screened.BOTH and (reply := fields.get("response")) else None,
            reference=map_label(fields[label]),
        )
        for number, (place, fields) in enumerate(rows, start=1)
    ]
    sources = Counter(fields.get(f"{label}_source") or "not stated" for _, fields in rows)
    repaired = sum(Flag.ALTERED in case.text.flags | (case.reply.flags if case.reply else set()) for case in taken)
    return EvaluationData.of(
        taken,
        (*steps, ("of them with repaired Unicode", repaired)),
        title=f"AEGIS 2.0 self-harm subset, {label_of} labels, {screened} screened",
        provenance=f"{_count_names(sources)}; the label rates the {label_of}",
    )


def load_swmh(files: Files, *, per_subreddit: int = PER_SUBREDDIT, seed: int = SEED) -> EvaluationData:
    """A sample of the posts in the files: SuicideWatch counts as unsafe, the rest as safe (the paper's section 5).
    FileRefused for a file of another shape, ValueError for too few posts or a label that is none of the five.
    """
    import pandas as pd  # a quarter of a second that no other command waits for

    read = (
        (f"{name}:{row}", fields["text"] or "", (fields["label"] or "").strip())
        for name, source in files
        for row, fields in published_rows(source, frozenset({"text", "label"}))
    )
    frame = pd.DataFrame(list(read), columns=["place", "text", "label"])
    posts = {str(label): int(count) for label, count in frame["label"].value_counts().items()}
    if any(count < per_subreddit for count in posts.values()):
        raise ValueError(f"a subreddit has fewer than {per_subreddit} posts")
    drawn = frame.groupby("label").sample(n=per_subreddit, random_state=seed)
    if any(map_label(label) is None for label in posts):
        raise ValueError("a label is none of the five subreddits")
    return EvaluationData.of(
        (
            NewCase(row=number, external_id=place, text=receive(text), reference=map_label(label), group=label)
            for number, (place, text, label) in enumerate(drawn.itertuples(index=False, name=None), start=1)
        ),
        (
            ("posts in all files", sum(posts.values())),
            *((f"in {subreddit}", count) for subreddit, count in sorted(posts.items())),
            ("sampled", len(drawn)),
        ),
        title=f"SWMH, {per_subreddit} posts per subreddit",
        provenance="subreddit, not a person: SuicideWatch is unsafe, the rest safe",
        sample={
            "call": CALL.format(n=per_subreddit, seed=seed),
            "sha256": [text_sha256(text) for text in drawn["text"]],
        },
    )


def load_table(table: Table) -> EvaluationData:
    """A user's own file, as it was read. ValueError for label distributions that are none."""
    rows = [row for row in table.rows() if isinstance(row, NewCase)]
    column = table.mapping.label
    data = EvaluationData.of(
        rows,
        (
            ("rows in the file", table.row_count),
            ("accepted", len(rows)),
            ("with a reference label", sum(row.reference is not None for row in rows)),
        ),
        title=table.name,
        provenance="no column: the file has no labels"
        if column is None
        else f"column “{column}” of the file; who gave the labels is not stated",
    )
    texts = {row.row: item.text for row, item in zip(data.rows, data.items, strict=True)}
    return replace(data, distributions=_distributions(table, texts))


def _distributions(table: Table, texts: Mapping[int, ScreenedText]) -> dict[ScreenedText, dict[Label, float]]:
    columns = {normalised_name(name): name for name in table.layout.columns}
    if not set(SHARES) <= set(columns):
        return {}
    given: dict[ScreenedText, dict[Label, float]] = {}
    for row, fields in rows_beside(table, "the probabilities in p_safe, p_unsafe and p_escalate"):
        if row in texts:
            try:
                shares = {label: float(fields.get(columns[name]) or "") for name, label in SHARES.items()}
            except ValueError:
                raise ValueError(f"row {row}: a probability is missing or no number") from None
            if given.setdefault(texts[row], shares) != shares:
                raise ValueError(f"row {row} repeats a text with another distribution")
    return given


def _count_names(names: Counter[str]) -> str:
    """ "12 llm_jury, 3 human", the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in names.most_common()) or "none"


def announcement(data: EvaluationData) -> Iterator[str]:
    for name, rows in data.steps:
        yield f"{rows:>8,}  {name}"
    if data.left_out:
        names = ", ".join(row.external_id for row in data.left_out[:MOST_NAMED])
        more = f" and {len(data.left_out) - MOST_NAMED:,} more" if len(data.left_out) > MOST_NAMED else ""
        yield f"NOT SCREENED: {names}{more}. With --database they are in its queue; else nobody sees them but you."
    labels = Counter(str(item.reference) if item.reference else "without a reference" for item in data.items)
    yield f"reference labels: {_count_names(labels)}; from {data.provenance}"


def published_rows(source: Source, columns: frozenset[str]) -> Iterator[tuple[int, Fields]]:
    """Row number and cells of every row. FileRefused for a row that does not fit or a file without ``columns``.

    A published file is complete or it is not that file: here one damaged row refuses all of it.
    """
    return _cells(find_layout(source), columns)


def rows_beside(table: Table, what: str, columns: frozenset[str] = frozenset()) -> Iterator[tuple[int, Fields]]:
    """As `published_rows`, numbered as the rows of the table. ``what`` is wanted of them.

    ValueError where the table's rows are conversations: they are counted anew, and the numbers are of other rows.
    """
    if table.mapping.conversation is not None:
        raise ValueError(
            f"{what} belong to rows of the file. Read as conversations, rows become other cases, counted anew, so that "
            "nobody can tell which case they are of."
        )
    return _cells(table.layout, columns)


def _cells(layout: FileLayout, columns: frozenset[str]) -> Iterator[tuple[int, Fields]]:
    if layout.columns and not columns <= set(layout.columns):
        raise FileRefused(f"The file has no column {', '.join(sorted(columns - set(layout.columns)))}.")
    for row in rows_of(layout):
        if row.problem is not None:
            raise FileRefused(f"row {row.row} does not fit: {row.detail}.", line=row.line)
        if missing := columns - row.fields.keys():
            raise FileRefused(f"row {row.row} has no {', '.join(sorted(missing))}.", line=row.line)
        yield row.row, row.fields
