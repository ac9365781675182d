"""The confusion matrix and its metrics as the Errors page shows them: data in, tables and markup out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import pandas as pd
from pandas.io.formats.style import Styler

from pages.components.result_links import results_address
from screening.labels import Label, Outcome
from screening.statistics.metrics import Metrics, Proportion, from_counts
from storage.kinds import PENDING
from storage.research.confusion import Confusions, Labels

Counts = Mapping[tuple[str, str], int]

REFERENCES: Mapping[str, str] = {Label.SAFE.value: "Reference safe", Label.UNSAFE.value: "Reference unsafe"}
OUTCOMES: Mapping[str, str] = {
    Outcome.SAFE.value: "Labelled safe",
    Outcome.UNSAFE.value: "Labelled unsafe",
    Outcome.HUMAN_REVIEW.value: "To a clinician",
    PENDING: "Pending",
}
_KINDS: Mapping[tuple[str, str], str] = {
    ("safe", "safe"): "right",
    ("unsafe", "unsafe"): "right",
    ("safe", "unsafe"): "false alarm",
    ("unsafe", "safe"): "missed",
}
_TINTS: Mapping[str, tuple[str, str]] = {  # rgb on light, on dark
    "right": ("29,122,70", "87,189,134"),
    "false alarm": ("180,83,9", "232,154,76"),
    "missed": ("180,35,24", "240,121,111"),
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
        "Missed (FNR)": results_address(batch_id, outcome="safe", reference="unsafe", **shared),
        "False alarms (FPR)": results_address(batch_id, outcome="unsafe", reference="safe", **shared),
    }


def kind(reference: str, outcome: str) -> str | None:
    """What a cell is: right, false alarm or missed; None where nothing was decided."""
    return _KINDS.get((reference, outcome))


def cell_title(reference: str, outcome: str) -> str:
    """A cell in words.

    >>> cell_title("unsafe", "safe")
    'Reference unsafe, labelled safe: missed'
    """
    what = kind(reference, outcome)
    words = OUTCOMES[outcome]
    return f"{REFERENCES[reference]}, {words[0].lower()}{words[1:]}" + (f": {what}" if what else "")


def matrix(counts: Counts, *, dark: bool) -> Styler:
    """The matrix as a styled table: every decided cell says in words what it is, and its tint its share of the row."""
    cells = {
        title: [_cell(counts, reference, outcome) for reference in REFERENCES] for outcome, title in OUTCOMES.items()
    }
    table = pd.DataFrame(cells, index=pd.Index(list(REFERENCES.values()), name="Reference ↓ outcome →"))
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
    return f"background-color: rgba({_TINTS[what][dark]},{strength:.2f})"


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
    'Left out, without a label safe or unsafe: 0 of 3 with original labels, 2 with adjudications.'
    """
    original, adjudicated = (texts - sum(counts.values()) for counts in (both.original, both.adjudicated))
    if not original and not adjudicated:
        return ""
    return (
        f"Left out, without a label safe or unsafe: {original:,} of {texts:,} with original labels, {adjudicated:,} "
        "with adjudications."
    )


def metrics_html(columns: Sequence[Column]) -> str:
    """The metrics side by side, one column per kind of label, with Wilson intervals and counts."""
    found = [metrics(column.counts) for column in columns]
    lines: list[tuple[str, str, list[Proportion]]] = [
        ("Accuracy", "of decided cases", [each.accuracy for each in found]),
        ("Missed (FNR)", "labelled safe, of decided unsafe ones", [each.fnr for each in found]),
        ("False alarms (FPR)", "labelled unsafe, of decided safe ones", [each.fpr for each in found]),
        ("To clinicians", "of all settled cases", [each.escalation_rate for each in found]),
        ("Missed at worst", "were every escalated case an error", [each.worst.fnr for each in found]),
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
        f'<table class="sl-figures"><caption>Value, 95 % Wilson interval, counts'
        f'</caption><thead><tr><th scope="col">Measure</th>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _proportion_html(found: Proportion, address: str | None) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "<td>not yet<small>no such case so far</small></td>"
    counted = f"{found.numerator:,} of {found.denominator:,}"
    if address is not None and found.numerator:
        counted = f'<a href="{escape(address, quote=True)}" target="_self">{counted}</a>'
    return f"<td>{found.value:.3f} ({found.low:.3f}–{found.high:.3f})<small>{counted}</small></td>"
