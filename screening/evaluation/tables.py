"""The table of an experiment: a row a condition, as CSV, LaTeX, JSON or text. A missing value is never shown as 0.

The paper's own numbers stand beside ours, each difference with its interval: two independent samples, from both Wilson
intervals (Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I, method 10).
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from xml.sax.saxutils import escape

from screening.datasets.export import csv_lines
from screening.evaluation.experiments import SUICIDE_WATCH
from screening.evaluation.metrics import Metrics, Proportion, wilson
from screening.words import count_of

NOTHING_DECIDED = "none: 0 of 0"
NOT_COUNTED = "not counted"
DASH = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsTable:
    """A row a condition, all of the same texts; ``provenance`` says where their labels come from."""

    title: str
    provenance: str
    rows: tuple[Metrics, ...]

    @property
    def of_subset(self) -> bool:
        """Whether some texts are of `SUICIDE_WATCH`."""
        return any(row.subset_fnr is not None for row in self.rows)


def _rates(row: Metrics) -> list[Proportion]:
    """What every table shows first."""
    subset = [] if row.subset_fnr is None else [row.subset_fnr]
    return [row.accuracy, row.fpr, row.fnr, *subset, row.escalation_rate]


def rate_text(rate: Proportion) -> str:
    """Where texts are unsettled, the limits that hold with them.

    >>> rate_text(Proportion(4, 42)), rate_text(Proportion(0, 0))
    ('9.5% (95% CI 3.8-22.1%, 4 of 42)', 'none: 0 of 0')
    >>> rate_text(Proportion(21, 21, unsettled=173))
    'not known: 173 unsettled; 7.2-100.0%'
    """
    if rate.low is None or rate.high is None:
        return NOTHING_DECIDED
    spread = f"{100 * rate.low:.1f}-{100 * rate.high:.1f}%"
    if rate.value is None:
        return f"not known: {rate.unsettled:,} unsettled; {spread}"
    return f"{100 * rate.value:.1f}% (95% CI {spread}, {rate.numerator:,} of {rate.denominator:,})"


def number_text(value: float | None, digits: int = 1) -> str:
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
        rates = {name: getattr(row, name) for name in ("accuracy", "fpr", "fnr")}
        rates |= {"subset_fnr": row.subset_fnr, "escalation_rate": row.escalation_rate}
        for case, extremes in (("worst", row.worst), ("best", row.best)):
            rates |= {f"{case}_{name}": getattr(extremes, name) for name in ("accuracy", "fpr", "fnr")}
        line: dict[str, object] = {"condition": row.name, "n": row.n, "unsettled": row.unsettled}
        for name, rate in rates.items():
            cells = rate.plain if rate else dict.fromkeys(Proportion(0, 0).plain)
            line |= {name if of_it == "value" else f"{name}_{of_it}": cell for of_it, cell in cells.items()}
        line |= {name: getattr(row, name) for name in ("mean_calls", "calls", "tokens", "cost_usd")}
        line |= {"without_reference": row.without_reference, "references_from": table.provenance}
        plain.append(line)
    return plain


def csv_table(table: ResultsTable) -> Iterator[str]:
    """The table as lines of CSV, to the digits in which it is shown; an undefined value is an empty cell."""
    rows = plain_rows(table)
    shown = ([round(each, 3) if isinstance(each, float) else each for each in row.values()] for row in rows)
    return csv_lines(list(rows[0]) if rows else ["condition"], shown)


def latex_table(table: ResultsTable, *, marked: bool = False) -> str:
    """For booktabs, in the paper's layout; ``marked``: the most accurate is bold, what overlaps it in italics."""
    styles = {
        row.name: "textbf" if is_best else "textit" for row, is_best, overlaps in _marks(table) if is_best or overlaps
    }
    metrics = ["Accuracy", "FPR", "FNR"] + (["Subset FNR"] if table.of_subset else [])
    lines = [
        r"\begin{tabular}{l" + "c" * (len(metrics) + 3) + "}",
        r"\toprule",
        rf"\multicolumn{{{len(metrics) + 4}}}{{c}}{{{escape_latex(table.title)}}} \\",
        r"\midrule",
        " & ".join(["Condition", *metrics, "Esc.", "Calls", "Tokens"]) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        calls = DASH if row.mean_calls is None else f"{row.mean_calls:.1f}"
        tokens = DASH if row.tokens is None else f"{row.tokens:,}"
        name = escape_latex(row.name)
        if marked and row.name in styles:
            name = rf"\{styles[row.name]}{{{name}}}"
        cells = [name, *map(_latex_rate, _rates(row)), calls, tokens]
        lines.append(" & ".join(cells) + r" \\")
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        f"% Reference labels: {escape_latex(table.provenance)}. Wilson 95% intervals; {DASH} is undefined.",
    ]
    for row in table.rows:
        if row.unsettled:
            texts = count_of(row.unsettled, "text")
            lines.append(f"% {escape_latex(row.name)}: {texts} unsettled; rates in brackets alone are bounds.")
    if marked:
        lines.append("% Bold: the most accurate. Italics: the interval of the FPR overlaps that of the most accurate.")
    return "\n".join(lines) + "\n"


def _latex_rate(rate: Proportion) -> str:
    if rate.low is None:
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
    subset = [f"FNR of {SUICIDE_WATCH}"] if table.of_subset else []
    rates = ["accuracy", "FPR", "FNR", *subset, "escalated"]
    yield " | ".join(["condition", "n", *rates, "mean calls", "tokens", "dollars", "accuracy worst..best"])
    for row in table.rows:
        extremes = (row.worst.accuracy.value, row.best.accuracy.value)
        cells = [row.name, str(row.n), *map(rate_text, _rates(row)), number_text(row.mean_calls)]
        cells += [number_text(row.tokens, 0), dollar_text(row.cost_usd)]
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
    lines = list[list[object]]()
    for row in (row for row in table.rows if row.name in printed):
        paper = printed[row.name]
        n, escalated = int(paper["n"]), float(paper["escalated"])
        low, high = wilson(round(escalated * n), n)
        theirs: dict[str, Interval] = {
            name: (float(paper[name]), float(paper[f"{name}_low"]), float(paper[f"{name}_high"]))
            for name in ("accuracy", "fpr", "fnr")
        }
        theirs["escalated"] = escalated, round(low, 3), round(high, 3)
        ours = (row.accuracy, row.fpr, row.subset_fnr or row.fnr, row.escalation_rate)
        for (name, told), one in zip(theirs.items(), ours, strict=True):
            if one.value is not None and one.low is not None and one.high is not None:
                limits = difference_limits(told, (one.value, one.low, one.high))
                found = [one.value, one.low, one.high, one.denominator, one.value - told[0], *limits]
                lines.append([row.name, name, *told, *(round(each, 4) for each in found)])
    return csv_lines(BESIDE, lines)


def difference_limits(first: Interval, second: Interval) -> tuple[float, float]:
    """Limits of the second share less the first, of two independent samples.

    >>> low, high = difference_limits((0.768, 0.695, 0.827), (0.752, 0.679, 0.813))
    >>> round(low, 3), round(high, 3)  # -0.016 - √(.073² + .059²), -0.016 + √(.061² + .073²)
    (-0.11, 0.079)
    """
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    return q - p - sqrt((q - q_low) ** 2 + (p_high - p) ** 2), q - p + sqrt((q_high - q) ** 2 + (p - p_low) ** 2)


def marked(table: ResultsTable) -> Iterator[str]:
    """CSV: which condition is the most accurate of those that decide, whose FPR is the lowest, and whose intervals of
    the FPR overlap that of the most accurate: nothing tells those apart from it.
    """
    told = _marks(table)
    lowest = min((row.fpr.value for row, _, _ in told if row.fpr.value is not None), default=None)
    rows = ([row.name, is_best, row.fpr.value == lowest, overlaps, row.n] for row, is_best, overlaps in told)
    return csv_lines(["condition", "best_accuracy", "lowest_fpr", "fpr_overlaps_that_of_the_most_accurate", "n"], rows)


def _marks(table: ResultsTable) -> list[tuple[Metrics, bool, bool | None]]:
    """All conditions that have an accuracy: whether it is the most accurate, the first of several, and whether the
    interval of its FPR overlaps that one's, None where either has none.
    """
    told = [row for row in table.rows if row.accuracy.value is not None]
    if not told:
        return []
    best, marks = max(told, key=lambda row: row.accuracy.value or 0.0), list[tuple[Metrics, bool, bool | None]]()
    for row in told:
        rates = row.fpr, best.fpr
        lows = [rate.low for rate in rates if rate.low is not None]
        highs = [rate.high for rate in rates if rate.high is not None]
        marks.append((row, row is best, max(lows) <= min(highs) if len(lows) == 2 else None))
    return marks


Point = tuple[str, float, float, float | None, float | None]
"""A condition's name, x, y and the limits of y; without limits its line goes down to 0."""
Lines = list[tuple[float, float, float, float, float]]
"""From x and y to x and y, and how wide; y goes upward."""
Texts = list[tuple[float, float, int, str]]
"""x, y, size and words."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 360, 60, 44, 56


def figures(table: ResultsTable) -> dict[str, str | bytes]:
    """The paper's two, each as SVG and PDF with its data as CSV: accuracy against calls, and tokens by condition. A
    condition without either is left out.
    """
    n = max((row.n for row in table.rows), default=0)
    note = f"n = {n} texts with a reference label ({table.provenance})"
    rates = [(row.name, row.mean_calls, row.accuracy) for row in table.rows]
    accuracy: list[Point] = [
        (name, calls, rate.value, rate.low, rate.high)
        for name, calls, rate in rates
        if calls is not None and rate.value is not None
    ]
    spent = [(row.name, float(row.tokens)) for row in table.rows if row.tokens is not None]
    tokens: list[Point] = [(name, place, many, None, None) for place, (name, many) in enumerate(spent, start=1)]
    files: dict[str, str | bytes] = {}
    for name, title, x_name, y_name, points in (
        ("accuracy_calls", "Accuracy against calls", "mean calls per text", "accuracy of decided texts", accuracy),
        ("tokens", "Tokens by condition", "", "tokens in all", tokens),
    ):
        if not points:
            continue
        title, told = f"{title}: {table.title}", note if points is tokens else f"{note}; 95% Wilson intervals"
        lines, texts = _drawing(points, x_name, y_name)
        texts += [(LEFT, HEIGHT - 18, 12, title), (LEFT, HEIGHT - 32, 8, told)]
        files[f"{name}.svg"] = _svg(title, lines, texts)
        files[f"{name}.pdf"] = _pdf(lines, texts)
        files[f"{name}.csv"] = "".join(csv_lines(["condition", x_name or "place", y_name, "low", "high"], points))
    return files


def _drawing(points: Sequence[Point], x_name: str, y_name: str) -> tuple[Lines, Texts]:
    """Axes with their ticks, and a dot with an upright line and its name a point; no name lies on another."""
    wide = 4 * ceil(max(1.25 * x for _, x, *_ in points) / 4) or 4
    foot, top = min(low or 0.0 for *_, low, _ in points), max(high or y for _, _, y, _, high in points)
    right, up = (WIDTH - LEFT - 20) / wide, (HEIGHT - BOTTOM - TOP) / ((top - foot) or 1.0)
    lines: Lines = [(LEFT, BOTTOM, WIDTH - 20, BOTTOM, 0.8), (LEFT, BOTTOM, LEFT, HEIGHT - TOP, 0.8)]
    texts: Texts = [(LEFT, HEIGHT - TOP + 6, 9, y_name), (WIDTH - 20 - 5 * len(x_name), 14, 9, x_name)]
    for step in range(5):
        height = (top - foot) * step / 4
        texts.append((6, BOTTOM + height * up - 3, 8, f"{foot + height:,.3f}" if top <= 1 else f"{height:,.0f}"))
        if x_name:
            texts.append((LEFT + wide * step / 4 * right - 6, BOTTOM - 12, 8, f"{wide * step // 4:,}"))
    taken: list[tuple[float, float, float]] = []
    for name, x, y, low, high in points:
        at, level = LEFT + x * right, BOTTOM + (y - foot) * up
        lines.append((at - 3, level, at + 3, level, 6))
        lines.append((at, BOTTOM + ((low or 0.0) - foot) * up, at, BOTTOM + ((high or y) - foot) * up, 0.8))
        begin, end = at + 6, at + 8 + 4.2 * len(name)
        free = (
            tried
            for step in range(1, 60)
            if (tried := level - 2 + 9 * (step // 2) * (-1) ** step) > BOTTOM
            and not any(abs(tried - other) < 9 and begin < last and first < end for other, first, last in taken)
        )
        taken.append((next(free, level), begin, end))
        texts.append((begin, taken[-1][0], 7, name))
    return lines, texts


def _svg(title: str, lines: Lines, texts: Texts) -> str:
    parts = [
        f'<path d="M{a:.1f} {HEIGHT - b:.1f} L{c:.1f} {HEIGHT - d:.1f}" stroke="#224" stroke-width="{wide}"/>'
        for a, b, c, d, wide in lines
    ]
    parts += [
        f'<text x="{x:.1f}" y="{HEIGHT - y:.1f}" font-size="{size}">{escape(text)}</text>' for x, y, size, text in texts
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, '
        f'sans-serif" role="img"><title>{escape(title)}</title>\n' + "\n".join(parts) + "\n</svg>\n"
    )


_PDF = str.maketrans({"δ": "delta", "α": "alpha", "\\": r"\\", "(": r"\(", ")": r"\)"})


def _pdf(lines: Lines, texts: Texts) -> bytes:
    """One page of its own size, with the reader's Helvetica."""
    drawn = [f"{wide} w {a:.1f} {b:.1f} m {c:.1f} {d:.1f} l S" for a, b, c, d, wide in lines]
    drawn += [f"BT /F {size} Tf {x:.1f} {y:.1f} Td ({text.translate(_PDF)}) Tj ET" for x, y, size, text in texts]
    stream = "\n".join(drawn).encode("cp1252", "replace")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Contents 4 0 R "
        f"/Resources << /Font << /F 5 0 R >> >> >>".encode(),
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    written, places = b"%PDF-1.4\n", b""
    for number, each in enumerate(objects, start=1):
        places += b"%010d 00000 n \n" % len(written)
        written += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    size = len(objects) + 1
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(written))
    return written + b"xref\n0 %d\n0000000000 65535 f \n" % size + places + end
