"""The data card of a version: what a relabelled data set holds and does not hold, counted from its own rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from screening.text.display import visible
from screening.words import count_of
from storage.research.relabelled import RelabelledRow

_MARKUP = "\\`*_[]<>!#|"


@dataclass(slots=True)
class _Counts:
    """What the card says, counted row by row."""

    rows: int = 0
    first: RelabelledRow | None = None
    reference: Counter[str] = field(default_factory=Counter)
    final: Counter[str] = field(default_factory=Counter)
    source: Counter[str] = field(default_factory=Counter)
    outcome: Counter[str] = field(default_factory=Counter)
    group: Counter[str] = field(default_factory=Counter)
    tag: Counter[str] = field(default_factory=Counter)
    screened_with: Counter[tuple[str, str, str, str, float | None]] = field(default_factory=Counter)
    readers: set[str] = field(default_factory=set)
    readings: int = 0
    blind: int = 0
    changed: int = 0
    withdrawn: int = 0
    hidden: int = 0

    def add(self, row: RelabelledRow) -> None:
        self.rows += 1
        self.first = self.first or row
        self.reference[row.reference or "none"] += 1
        self.final[row.final_label or "none"] += 1
        self.source[row.final_source] += 1
        self.outcome["hidden" if row.hidden else row.outcome or "not screened"] += 1
        self.tag.update(row.tags)
        if row.group is not None:
            self.group[row.group] += 1
        if row.model and row.prompts and row.pipeline and row.rule:
            self.screened_with[row.model, row.prompts, row.pipeline, row.rule, row.pipeline_delta] += 1
        self._add_readings(row)

    def _add_readings(self, row: RelabelledRow) -> None:
        self.readers.update(one.reader for one in row.ratings)
        self.readings += len(row.ratings)
        self.blind += sum(one.blind and one.version == 1 for one in row.ratings)
        decided = row.adjudicated_label in ("safe", "unsafe")
        self.changed += bool(decided and row.reference and row.adjudicated_label != row.reference)
        self.withdrawn += bool(row.adjudicated_label and not decided and row.reference)
        self.hidden += row.hidden


def as_data_card(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """The card as Markdown, of exactly the rows that the other files of this version hold."""
    counts = _Counts()
    for row in rows:
        counts.add(row)
    if counts.first is None:
        yield "# Data card\n\nThe data set has no rows.\n"
        return
    yield f"# Data card: relabelled data set, version {counts.first.version}\n\n"
    yield f"As of {count_of(counts.first.as_of, 'accepted label')}; version 0 is the file as it came.\n"
    for title, lines in _sections(counts, counts.first):
        yield f"\n## {title}\n\n" + "".join(f"- {line}\n" for line in lines)


def _sections(counts: _Counts, first: RelabelledRow) -> Iterator[tuple[str, list[str]]]:
    yield "Rows", [count_of(counts.rows, "text"), *_count_lines(counts.group, "of group ")]
    yield "Labels as they came", [_source(first.provenance), *_count_lines(counts.reference)]
    yield (
        "Final labels",
        [
            *_count_lines(counts.final),
            *_count_lines(counts.source, "from: "),
            f"{count_of(counts.changed, 'label')} changed by clinicians",
            f"{count_of(counts.withdrawn, 'label')} withdrawn: too little information in the text",
        ],
    )
    yield (
        "Readings",
        [
            f"{count_of(counts.readings, 'reading')}, revisions included, by {count_of(len(counts.readers), 'reader')} "
            "under pseudonyms",
            f"{counts.blind:,} of them first and blind: given before the engine's view was served",
        ],
    )
    yield (
        "What the engine said",
        [
            *_count_lines(counts.outcome),
            *(
                f"{number:,} screened with model {_plain(model)}; prompts {_plain(prompts)}; pipeline "
                f"{_plain(pipeline)}; rule {_plain(rule)}; {_bound_words(bound)}"
                for (model, prompts, pipeline, rule, bound), number in counts.screened_with.most_common()
            ),
        ],
    )
    if counts.tag:
        yield "Tags of researchers", _count_lines(counts.tag)
    yield "Limits", _limits(counts)


def _bound_words(value: float | None) -> str:
    return "no bound for the whole way" if value is None else f"the whole way: any wrong label at most {value:g}"


def _limits(counts: _Counts) -> list[str]:
    return [
        "A label speaks of a text, not of a person.",
        "A final label without an adjudication is the file's own: nobody here has read it.",
        f"{count_of(counts.hidden, 'text')} in review with outcome, reviews and tags hidden.",
        "Texts were chosen for reading by the engine, by an audit sample or by researchers: those read are no random "
        "sample of the file unless they are taken from the audit alone.",
    ]


def _source(provenance: Mapping[str, Any]) -> str:
    said = provenance.get("provenance") or "who gave the labels is not stated"
    values = provenance.get("labels")
    mapped = [f"“{value}” read as {label}" for value, label in values.items()] if isinstance(values, Mapping) else []
    return _plain("; ".join([f"From: {said}", *mapped]))


def _count_lines(found: Counter[str], before: str = "") -> list[str]:
    return [f"{number:,} {before}{_plain(name.replace('_', ' '))}" for name, number in found.most_common()]


def _plain(words: str) -> str:
    """Words from outside, escaped so that nothing in them is Markdown."""
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in visible(words))
