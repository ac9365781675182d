"""The confusion matrix and its metrics as the page Misclassified shows them: data in, tables and markup out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import pandas as pd
from pandas.io.formats.style import Styler

from pages.ui.widgets import results_address
from screening.evaluation.metrics import Metrics, Proportion, from_counts
from screening.labels import Label, Outcome
from storage.batches.counts import PENDING
from storage.research.confusion import Confusions, Labels

Counts = Mapping[tuple[str, str], int]
FNR, FPR = "False-negative rate", "False-positive rate"

REFERENCES: Mapping[str, str] = {Label.SAFE.value: "Original label safe", Label.UNSAFE.value: "Original label unsafe"}
OUTCOMES: Mapping[str, str] = {
    Outcome.SAFE.value: "Labeled safe",
    Outcome.UNSAFE.value: "Labeled unsafe",
    Outcome.HUMAN_REVIEW.value: "Escalated",
    PENDING: "Pending",
}
_KINDS: Mapping[tuple[str, str], str] = {
    ("safe", "safe"): "true negative",
    ("unsafe", "unsafe"): "true positive",
    ("safe", "unsafe"): "false positive",
    ("unsafe", "safe"): "false negative",
}
_TINTS: Mapping[str, tuple[str, str]] = {  # rgb on light, on dark
    "true": ("29,122,70", "87,189,134"),
    "false positive": ("180,83,9", "232,154,76"),
    "false negative": ("180,35,24", "240,121,111"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the metrics table."""

    title: str
    counts: Counts
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where the cases of a measure's count are listed, by the measure's name."""


def addresses(batch_id: str, labels: Labels, group: str | None) -> Mapping[str, str]:
    """Where the cases of each count that is one cell of the matrix are listed."""
    shared = {"labels": str(labels)} if labels == "adjudicated" else {}
    shared |= {"group": group} if group is not None else {}
    return {
        FNR: results_address(batch_id, outcome="safe", reference="unsafe", **shared),
        FPR: results_address(batch_id, outcome="unsafe", reference="safe", **shared),
    }


def kind(reference: str, outcome: str) -> str | None:
    """What a cell is; None where nothing was decided."""
    return _KINDS.get((reference, outcome))


def cell_title(reference: str, outcome: str) -> str:
    """A cell in words.

    >>> cell_title("unsafe", "safe")
    'Original label unsafe, labeled safe: false negative'
    """
    what = kind(reference, outcome)
    words = OUTCOMES[outcome]
    return f"{REFERENCES[reference]}, {words[0].lower()}{words[1:]}" + (f": {what}" if what else "")


def matrix(counts: Counts, *, dark: bool) -> Styler:
    """The matrix as a styled table: every decided cell says in words what it is, and its tint its share of the row."""
    cells = {
        title: [_cell(counts, reference, outcome) for reference in REFERENCES] for outcome, title in OUTCOMES.items()
    }
    table = pd.DataFrame(cells, index=pd.Index(list(REFERENCES.values()), name="Original label ↓ outcome →"))
    styles = pd.DataFrame(
        {
            title: [_tint(counts, reference, outcome, dark=dark) for reference in REFERENCES]
            for outcome, title in OUTCOMES.items()
        },
        index=table.index,
    )
    return table.style.apply(lambda _: styles, axis=None)


def _cell(counts: Counts, reference: str, outcome: str) -> str:
    count, what = counts.get((reference, outcome), 0), kind(reference, outcome)
    return f"{count:,}  {what}" if what and count else f"{count:,}"


def _tint(counts: Counts, reference: str, outcome: str, *, dark: bool) -> str:
    what = kind(reference, outcome)
    total = sum(count for (row, _), count in counts.items() if row == reference)
    count = counts.get((reference, outcome), 0)
    if what is None or not count:
        return ""
    strength = 0.12 + (0.28 if dark else 0.33) * count / total
    return f"background-color: rgba({_TINTS[what if what in _TINTS else 'true'][dark]},{strength:.2f})"


def metrics(counts: Counts) -> Metrics:
    """The paper's metrics of these counts; pending cases are in none of them."""
    settled = {key: count for key, count in counts.items() if key[1] != PENDING}

    def of(reference: str, outcome: str) -> int:
        return settled.get((reference, outcome), 0)

    return from_counts(
        n=sum(settled.values()),
        safe_decided=of("safe", "safe") + of("safe", "unsafe"),
        false_positives=of("safe", "unsafe"),
        unsafe_decided=of("unsafe", "unsafe") + of("unsafe", "safe"),
        false_negatives=of("unsafe", "safe"),
        escalated_unsafe=of("unsafe", Outcome.HUMAN_REVIEW.value),
    )


def left_out_words(texts: int, both: Confusions) -> str:
    """How many texts no figure of either column contains, as they have no label of its kind; empty where none is.

    >>> left_out_words(3, Confusions(original={("safe", "safe"): 3}, adjudicated={("safe", "safe"): 1}))
    'Left out, without a label safe or unsafe: 0 of 3 by original labels, 2 by final labels.'
    """
    original, adjudicated = (texts - sum(counts.values()) for counts in (both.original, both.adjudicated))
    if not original and not adjudicated:
        return ""
    return (
        f"Left out, without a label safe or unsafe: {original:,} of {texts:,} by original labels, {adjudicated:,} "
        "by final labels."
    )


def metrics_html(columns: Sequence[Column]) -> str:
    """The metrics side by side, one column per kind of label, with Wilson intervals and counts."""
    found = [metrics(column.counts) for column in columns]
    lines: list[tuple[str, str, list[Proportion]]] = [
        ("Accuracy", "of the texts the AI decided", [each.accuracy for each in found]),
        (FNR, "labeled safe among unsafe texts the AI decided", [each.fnr for each in found]),
        (FPR, "labeled unsafe among safe texts the AI decided", [each.fpr for each in found]),
        ("Escalated", "to a clinician, among all screened texts", [each.escalation_rate for each in found]),
        ("Worst-case FNR", "all escalations counted as errors", [each.worst.fnr for each in found]),
    ]
    head = "".join(f'<th scope="col">{escape(column.title)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{name}<small>{of}</small></th>'
        + "".join(
            _proportion_html(value, column.addresses.get(name)) for column, value in zip(columns, values, strict=True)
        )
        + "</tr>"
        for name, of, values in lines
    )
    return (
        f'<table class="sl-figures"><caption>95% Wilson intervals'
        f'</caption><thead><tr><th scope="col">Measure</th>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _proportion_html(found: Proportion, address: str | None) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "<td>not yet<small>no such case so far</small></td>"
    counted = f"{found.numerator:,} of {found.denominator:,}"
    if address is not None and found.numerator:
        counted = f'<a href="{escape(address, quote=True)}" target="_self">{counted}</a>'
    spread = f"95% CI {100 * found.low:.1f}-{100 * found.high:.1f}%"
    return f"<td>{100 * found.value:.1f}% ({spread})<small>{counted}</small></td>"
