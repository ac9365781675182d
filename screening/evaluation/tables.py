"""The table of an experiment: a row a condition, as CSV, LaTeX, JSON or text. A missing value is never shown as 0.

The paper's own numbers stand beside ours, each difference with its interval: two independent samples, from both Wilson
intervals (Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I, method 10).
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from screening.datasets.export import csv_lines
from screening.evaluation.experiments import Measured
from screening.evaluation.metrics import Proportion, wilson
from screening.words import count_of

NOTHING_DECIDED = "none: 0 of 0"
NOT_COUNTED = "not counted"
DASH = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsTable:
    """A row a condition, with what they were measured on: the data set, and where its reference labels come from; and
    the group of special interest, if any.
    """

    title: str
    provenance: str
    rows: tuple[Measured, ...]
    subset_name: str | None = None

    def subset(self, row: Measured) -> Proportion | None:
        """The FNR of the group of special interest; None where there is no such group."""
        group = row.metrics.by_group.get(self.subset_name) if self.subset_name else None
        return group.fnr if group else None

    def rates(self, row: Measured) -> list[Proportion | None]:
        """What every table shows first: accuracy, FPR, FNR, that of the group, where one is named, and escalations."""
        metrics, subset = row.metrics, [self.subset(row)] if self.subset_name else []
        return [metrics.accuracy, metrics.fpr, metrics.fnr, *subset, metrics.escalation_rate]


def rate_text(rate: Proportion | None) -> str:
    """The rate with its 95% interval and its counts; where texts are unsettled, the limits that hold with them.

    >>> rate_text(Proportion(4, 42)), rate_text(Proportion(0, 0))
    ('9.5% (95% CI 3.8-22.1%, 4 of 42)', 'none: 0 of 0')
    >>> rate_text(Proportion(21, 21, unsettled=173))
    'not known: 173 unsettled; 7.2-100.0%'
    """
    if rate is None or rate.low is None or rate.high is None:
        return NOTHING_DECIDED
    spread = f"{100 * rate.low:.1f}-{100 * rate.high:.1f}%"
    if rate.value is None:
        return f"not known: {rate.unsettled:,} unsettled; {spread}"
    return f"{100 * rate.value:.1f}% (95% CI {spread}, {rate.numerator:,} of {rate.denominator:,})"


def number_text(value: float | None, digits: int = 1) -> str:
    """The number, or that nothing counted it."""
    return NOT_COUNTED if value is None else f"{value:,.{digits}f}"


def dollar_text(value: float | None) -> str:
    """Dollars to the cent; what costs less is not shown as if it cost nothing.

    >>> dollar_text(0.004), dollar_text(1.5), dollar_text(None)
    ('under 0.01', '1.50', 'not counted')
    """
    return "under 0.01" if value is not None and 0 < value < 0.005 else number_text(value, 2)


def plain_rows(table: ResultsTable) -> list[dict[str, object]]:
    """The rows as flat data: each rate with its interval and counts, None where undefined."""
    plain: list[dict[str, object]] = []
    for row in table.rows:
        metrics = row.metrics
        rates = {name: getattr(metrics, name) for name in ("accuracy", "fpr", "fnr")}
        rates |= {"subset_fnr": table.subset(row), "escalation_rate": metrics.escalation_rate}
        for case, extremes in (("worst", metrics.worst), ("best", metrics.best)):
            rates |= {f"{case}_{name}": getattr(extremes, name) for name in ("accuracy", "fpr", "fnr")}
        plain.append({"condition": row.name, "n": metrics.n, "unsettled": row.unsettled})
        for name, rate in rates.items():
            cells = rate.plain if rate else dict.fromkeys(Proportion(0, 0).plain)
            plain[-1] |= {name if of_it == "value" else f"{name}_{of_it}": cell for of_it, cell in cells.items()}
        plain[-1] |= {name: getattr(metrics, name) for name in ("mean_calls", "calls", "tokens")}
        plain[-1] |= {"cost_usd": row.cost_usd, "without_reference": metrics.without_reference}
        plain[-1] |= {"references_from": table.provenance}
    return plain


def csv_table(table: ResultsTable) -> Iterator[str]:
    """The table as lines of CSV, to the digits in which it is shown; an undefined value is an empty cell."""
    rows = plain_rows(table)
    shown = ([round(each, 3) if isinstance(each, float) else each for each in row.values()] for row in rows)
    return csv_lines(list(rows[0]) if rows else ["condition"], shown)


def latex_table(table: ResultsTable) -> str:
    """The table in the paper's layout, for booktabs."""
    metrics = ["Accuracy", "FPR", "FNR"] + (["Subset FNR"] if table.subset_name else [])
    head = " & ".join(["Condition", *metrics, "Esc.", "Calls", "Tokens"])
    lines = [
        r"\begin{tabular}{l" + "c" * (len(metrics) + 3) + "}",
        r"\toprule",
        rf"\multicolumn{{{len(metrics) + 4}}}{{c}}{{{escape_latex(table.title)}}} \\",
        r"\midrule",
        head + r" \\",
        r"\midrule",
        *(_latex_row(row, table) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        f"% Reference labels: {escape_latex(table.provenance)}. Wilson 95% intervals; {DASH} is undefined.",
    ]
    lines += [
        f"% {escape_latex(row.name)}: {count_of(row.unsettled, 'text')} unsettled; rates in brackets alone are bounds."
        for row in table.rows
        if row.unsettled
    ]
    return "\n".join(lines) + "\n"


def _latex_row(row: Measured, table: ResultsTable) -> str:
    metrics = row.metrics
    calls = DASH if metrics.mean_calls is None else f"{metrics.mean_calls:.1f}"
    tokens = DASH if metrics.tokens is None else f"{metrics.tokens:,}"
    return " & ".join([escape_latex(row.name), *map(_latex_rate, table.rates(row)), calls, tokens]) + r" \\"


def _latex_rate(rate: Proportion | None) -> str:
    if rate is None or rate.low is None:
        return DASH
    spread = f"[{rate.low:.3f}, {rate.high:.3f}]"
    return spread if rate.value is None else f"{rate.value:.3f} {spread}"


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"δ": r"$\delta$", "α": r"$\alpha$"}
)


def escape_latex(text: str) -> str:
    """The text with LaTeX's own characters made harmless.

    >>> escape_latex("50 % of a_b")
    '50 \\\\% of a\\\\_b'
    """
    return text.translate(_LATEX)


def text_table(table: ResultsTable) -> Iterator[str]:
    yield f"{table.title}. Reference labels: {table.provenance}."
    subset = [f"FNR of {table.subset_name}"] if table.subset_name else []
    rates = ["accuracy", "FPR", "FNR", *subset, "escalated"]
    yield " | ".join(["condition", "n", *rates, "mean calls", "tokens", "dollars", "accuracy worst..best"])
    for row in table.rows:
        metrics = row.metrics
        extremes = (metrics.worst.accuracy.value, metrics.best.accuracy.value)
        cells = [row.name, str(metrics.n), *map(rate_text, table.rates(row)), number_text(metrics.mean_calls)]
        cells += [number_text(metrics.tokens, 0), dollar_text(row.cost_usd)]
        yield " | ".join([*cells, "..".join(number_text(value, 3) for value in extremes)])
        if row.unsettled:
            cases = count_of(row.unsettled, "case needs", "cases need")
            yield f"    {cases} more responses than were recorded: bounds that hold whatever becomes of them"


Interval = tuple[float, float, float]
"""A share with its limits, as printed."""
PAPER = Path(__file__).with_name("paper.csv")
"""The paper's results table: accuracy, FPR and FNR (SWMH: of SuicideWatch) with limits, and the share escalated."""
BESIDE = (
    *("condition", "figure", "paper", "paper_low", "paper_high", "ours", "ours_low", "ours_high", "ours_n"),
    *("difference", "difference_low", "difference_high"),
)


def beside_paper(table: ResultsTable, data_set: str) -> Iterator[str]:
    """CSV: the paper's number, ours, and ours less the paper's with its interval; nothing where either has none."""
    with PAPER.open(encoding="utf-8") as file:
        printed = {row["condition"]: row for row in csv.DictReader(file) if row["data_set"] == data_set}
    rows = [(row, printed[row.name]) for row in table.rows if row.name in printed]
    return csv_lines(BESIDE, (line for row, paper in rows for line in _beside(row, table, paper)))


def _beside(row: Measured, table: ResultsTable, printed: Mapping[str, str]) -> Iterator[list[object]]:
    n, escalated = int(printed["n"]), float(printed["escalated"])
    low, high = wilson(round(escalated * n), n) or (0.0, 1.0)
    theirs: dict[str, Interval] = {
        name: (float(printed[name]), float(printed[f"{name}_low"]), float(printed[f"{name}_high"]))
        for name in ("accuracy", "fpr", "fnr")
    }
    theirs["escalated"] = escalated, round(low, 3), round(high, 3)
    ours = (row.metrics.accuracy, row.metrics.fpr, table.subset(row) or row.metrics.fnr, row.metrics.escalation_rate)
    for (name, paper), one in zip(theirs.items(), ours, strict=True):
        if one.value is None or one.low is None or one.high is None:
            continue
        low, high = difference_limits(paper, (one.value, one.low, one.high))
        found = [one.value, one.low, one.high, one.denominator, one.value - paper[0], low, high]
        yield [row.name, name, *paper, *(round(each, 4) for each in found)]


def difference_limits(first: Interval, second: Interval) -> tuple[float, float]:
    """Limits of the second share less the first, of two independent samples.

    >>> low, high = difference_limits((0.768, 0.695, 0.827), (0.752, 0.679, 0.813))
    >>> round(low, 3), round(high, 3)  # -0.016 - √(.073² + .059²), -0.016 + √(.061² + .073²)
    (-0.11, 0.079)
    """
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    return q - p - sqrt((q - q_low) ** 2 + (p_high - p) ** 2), q - p + sqrt((q_high - q) ** 2 + (p - p_low) ** 2)
