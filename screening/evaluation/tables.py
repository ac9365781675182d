"""The table of an experiment: a row a condition, as CSV, LaTeX, JSON or text. A missing value is never shown as 0.

The paper's own numbers stand beside ours, each difference with its interval: two independent samples, from both Wilson
intervals (Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I, method 10).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from xml.sax.saxutils import escape

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
    return [_plain(row, table) for row in table.rows]


def _plain(row: Measured, table: ResultsTable) -> dict[str, object]:
    metrics = row.metrics
    rates = {name: getattr(metrics, name) for name in ("accuracy", "fpr", "fnr")}
    rates |= {"subset_fnr": table.subset(row), "escalation_rate": metrics.escalation_rate}
    for case, extremes in (("worst", metrics.worst), ("best", metrics.best)):
        rates |= {f"{case}_{name}": getattr(extremes, name) for name in ("accuracy", "fpr", "fnr")}
    plain: dict[str, object] = {"condition": row.name, "n": metrics.n, "unsettled": row.unsettled}
    for name, rate in rates.items():
        cells = rate.plain if rate else dict.fromkeys(Proportion(0, 0).plain)
        plain |= {name if of_it == "value" else f"{name}_{of_it}": cell for of_it, cell in cells.items()}
    return plain | {
        "mean_calls": metrics.mean_calls,
        "calls": metrics.calls,
        "tokens": metrics.tokens,
        "cost_usd": row.cost_usd,
        "without_reference": metrics.without_reference,
        "references_from": table.provenance,
    }


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
    """The table as lines for a terminal."""
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

_AEGIS: Mapping[str, tuple[Interval, Interval, Interval, float]] = {
    "single-agent": ((0.752, 0.679, 0.813), (0.159, 0.079, 0.294), (0.283, 0.208, 0.372), 0.025),
    "MV n=1": ((0.760, 0.687, 0.820), (0.114, 0.050, 0.240), (0.290, 0.214, 0.379), 0.019),
    "MV n=3": ((0.760, 0.687, 0.820), (0.114, 0.050, 0.240), (0.290, 0.214, 0.379), 0.019),
    "MV n=5": ((0.753, 0.681, 0.814), (0.159, 0.079, 0.294), (0.281, 0.206, 0.369), 0.019),
    "B=75": ((0.753, 0.680, 0.815), (0.100, 0.040, 0.231), (0.298, 0.222, 0.388), 0.044),
    "B=100": ((0.768, 0.695, 0.827), (0.095, 0.037, 0.221), (0.283, 0.208, 0.372), 0.037),
    "B=124": ((0.761, 0.688, 0.822), (0.116, 0.051, 0.245), (0.286, 0.210, 0.375), 0.037),
    "B=150": ((0.761, 0.688, 0.822), (0.116, 0.051, 0.245), (0.286, 0.210, 0.375), 0.037),
}
_SWMH: Mapping[str, tuple[Interval, Interval, Interval, float]] = {
    "single-agent": ((0.790, 0.735, 0.836), (0.237, 0.184, 0.301), (0.100, 0.044, 0.214), 0.008),
    "MV n=1": ((0.790, 0.735, 0.836), (0.237, 0.184, 0.301), (0.100, 0.044, 0.214), 0.008),
    "MV n=3": ((0.795, 0.741, 0.841), (0.231, 0.178, 0.295), (0.100, 0.044, 0.214), 0.004),
    "MV n=5": ((0.791, 0.736, 0.837), (0.236, 0.183, 0.300), (0.100, 0.044, 0.214), 0.004),
    "B=75": ((0.799, 0.745, 0.845), (0.227, 0.174, 0.291), (0.100, 0.044, 0.214), 0.024),
    "B=100": ((0.798, 0.744, 0.844), (0.227, 0.174, 0.291), (0.100, 0.044, 0.214), 0.008),
    "B=124": ((0.794, 0.740, 0.840), (0.232, 0.179, 0.296), (0.100, 0.044, 0.214), 0.008),
    "B=150": ((0.795, 0.741, 0.841), (0.231, 0.178, 0.295), (0.100, 0.044, 0.214), 0.004),
}
PRINTED = {"aegis": (161, _AEGIS), "swmh": (250, _SWMH)}
"""The paper's results table: accuracy, FPR and FNR (SWMH: of SuicideWatch) with limits, and the share escalated."""


BESIDE = (
    *("condition", "figure", "paper", "paper_low", "paper_high", "ours", "ours_low", "ours_high", "ours_n"),
    *("difference", "difference_low", "difference_high"),
)


def beside_paper(table: ResultsTable, data_set: str) -> Iterator[str]:
    """CSV: the paper's number, ours, and ours less the paper's with its interval; nothing where either has none."""
    n, printed = PRINTED[data_set]
    return csv_lines(
        BESIDE,
        (line for row in table.rows if row.name in printed for line in _beside(row, table, printed[row.name], n)),
    )


def _beside(
    row: Measured, table: ResultsTable, printed: tuple[Interval, Interval, Interval, float], n: int
) -> Iterator[list[object]]:
    escalated = [round(each, 3) for each in wilson(round(printed[3] * n), n) or (0.0, 1.0)]
    ours = (row.metrics.accuracy, row.metrics.fpr, table.subset(row) or row.metrics.fnr, row.metrics.escalation_rate)
    theirs = (*printed[:3], (printed[3], escalated[0], escalated[1]))
    for name, one, paper in zip(("accuracy", "fpr", "fnr", "escalated"), ours, theirs, strict=True):
        if one.value is None or one.low is None or one.high is None:
            continue
        low, high = difference_limits(paper, (one.value, one.low, one.high))
        limits = [one.value, one.low, one.high, one.denominator, one.value - paper[0], low, high]
        yield [row.name, name, *paper, *(round(each, 4) for each in limits)]


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
    best, told = _most_accurate(table)
    lowest = min((row.metrics.fpr.value for row in told if row.metrics.fpr.value is not None), default=None)
    rows = (
        [row.name, row is best, row.metrics.fpr.value == lowest, _overlap(row, best), row.metrics.n] for row in told
    )
    return csv_lines(["condition", "best_accuracy", "lowest_fpr", "fpr_overlaps_that_of_the_most_accurate", "n"], rows)


def marked_latex(table: ResultsTable) -> str:
    """The table in the paper's layout and with its marks: the most accurate bold, what overlaps it in italics."""
    best, told = _most_accurate(table)
    written = latex_table(table)
    for row in told:
        name = escape_latex(row.name)
        style = "textbf" if row is best else "textit" if _overlap(row, best) else None
        if style is not None:
            written = written.replace(f"\n{name} & ", f"\n\\{style}{{{name}}} & ", 1)
    return written + "% Bold: the most accurate. Italics: the interval of the FPR overlaps that of the most accurate.\n"


def _most_accurate(table: ResultsTable) -> tuple[Measured | None, list[Measured]]:
    """The most accurate condition, the first of several, and all that have an accuracy."""
    told = [row for row in table.rows if row.metrics.accuracy.value is not None]
    return max(told, key=lambda row: row.metrics.accuracy.value or 0.0, default=None), told


def _overlap(row: Measured, best: Measured | None) -> bool | None:
    one, other = row.metrics.fpr, best.metrics.fpr if best else row.metrics.fpr
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.low <= other.high and other.low <= one.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Points with an upright interval, or bars from 0: one drawing that is written as SVG and as PDF.

    ``points`` are (name, x, y, low, high); a bar has its place as x, and no limits.
    """

    title: str
    note: str
    x_name: str
    y_name: str
    points: Sequence[tuple[str, float, float, float | None, float | None]]
    bars: bool = False

    def data(self) -> Iterator[str]:
        """What is drawn, as CSV."""
        return csv_lines(["condition", self.x_name, self.y_name, "low", "high"], self.points)

    def svg(self) -> str:
        """The drawing for a page or a text program."""
        parts = [
            f'<path d="M{a:.1f} {HEIGHT - b:.1f} L{c:.1f} {HEIGHT - d:.1f}" stroke="#224" stroke-width="{w}"/>'
            for a, b, c, d, w in self._lines()
        ]
        parts += [
            f'<text x="{x:.1f}" y="{HEIGHT - y:.1f}" font-size="{size}">{escape(text)}</text>'
            for x, y, size, text in self._texts()
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, '
            f'sans-serif" role="img"><title>{escape(self.title)}</title>\n' + "\n".join(parts) + "\n</svg>\n"
        )

    def pdf(self) -> bytes:
        """The same on one page of its own size, with the reader's Helvetica."""
        drawn = [f"{w} w {a:.1f} {b:.1f} m {c:.1f} {d:.1f} l S" for a, b, c, d, w in self._lines()]
        drawn += [f"BT /F {size} Tf {x:.1f} {y:.1f} Td ({_pdf_text(text)}) Tj ET" for x, y, size, text in self._texts()]
        stream = "\n".join(drawn).encode("cp1252", "replace")
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Contents 4 0 R "
            f"/Resources << /Font << /F 5 0 R >> >> >>".encode(),
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        ]
        written, places = bytearray(b"%PDF-1.4\n"), list[int]()
        for number, each in enumerate(objects, start=1):
            places.append(len(written))
            written += b"%d 0 obj\n%b\nendobj\n" % (number, each)
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
        tail = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(written))
        return bytes(written + head + table + tail)

    def _scale(self) -> tuple[float, float, float]:
        """The largest x, and the least and largest y that are drawn."""
        tops = [top if top is not None else y for _, _, y, _, top in self.points]
        feet = [0.0 if self.bars else low if low is not None else y for _, _, y, low, _ in self.points]
        return max([x for _, x, *_ in self.points], default=1) * 1.25 or 1.0, min(feet, default=0), max(tops, default=1)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        wide, low, high = self._scale()
        inner_x, inner_y = WIDTH - LEFT - 20, HEIGHT - BOTTOM - TOP
        return LEFT + inner_x * x / wide, BOTTOM + inner_y * (y - low) / ((high - low) or 1.0)

    def _lines(self) -> Iterator[tuple[float, float, float, float, float]]:
        yield LEFT, BOTTOM, WIDTH - 20, BOTTOM, 0.8
        yield LEFT, BOTTOM, LEFT, HEIGHT - TOP, 0.8
        _, foot, _ = self._scale()
        for _, x, y, low, high in self.points:
            at, up = self._place(x, y)
            if self.bars:
                yield at, self._place(x, foot)[1], at, up, 16
            else:
                yield at - 3, up, at + 3, up, 6
            if low is not None and high is not None:
                yield at, self._place(x, low)[1], at, self._place(x, high)[1], 0.8

    def _texts(self) -> Iterator[tuple[float, float, int, str]]:
        wide, low, high = self._scale()
        yield LEFT, HEIGHT - 18, 12, self.title
        yield LEFT, HEIGHT - 32, 8, self.note
        yield LEFT, HEIGHT - TOP + 6, 9, self.y_name
        if not self.bars:
            yield WIDTH - 20 - 5 * len(self.x_name), 14, 9, self.x_name
        for step in range(5):
            value = low + (high - low) * step / 4
            yield 6, self._place(0, value)[1] - 3, 8, f"{value:,.3f}" if high <= 1 else f"{value:,.0f}"
            if not self.bars:
                yield self._place(wide * step / 4, low)[0] - 6, BOTTOM - 12, 8, f"{wide * step / 4:,.0f}"
        taken: list[tuple[float, float, float]] = []
        for number, (name, x, y, *_) in enumerate(self.points):
            at, up = self._place(x, y)
            if self.bars:
                yield at - 14, BOTTOM - 12 - 10 * (number % 2), 7, name
                continue
            begin, end = at + 6, at + 8 + 4.2 * len(name)
            free = (
                level
                for step in range(1, 60)
                if (level := up - 2 + 9 * (step // 2) * (-1) ** step) > BOTTOM
                and not any(abs(level - other) < 9 and begin < right and left < end for left, right, other in taken)
            )
            level = next(free, up)
            taken.append((begin, end, level))
            yield begin, level, 7, name


WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 360, 60, 44, 56


def _pdf_text(text: str) -> str:
    return text.replace("δ", "delta").replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def figures(table: ResultsTable) -> dict[str, Figure]:
    """The paper's two: accuracy against calls, and tokens by condition; a condition without either is left out."""
    n = max((row.metrics.n for row in table.rows), default=0)
    note = f"n = {n} texts with a reference label ({table.provenance}); 95% Wilson intervals"
    known = [(row, row.metrics.accuracy, row.metrics.mean_calls) for row in table.rows]
    accuracy = [
        (row.name, calls, rate.value, rate.low, rate.high)
        for row, rate, calls in known
        if calls is not None and rate.value is not None
    ]
    spent = [row for row in table.rows if row.metrics.tokens is not None]
    tokens = [(row.name, place + 1.0, float(row.metrics.tokens or 0), None, None) for place, row in enumerate(spent)]
    made = {
        "accuracy_calls": Figure(
            title=f"Accuracy against calls: {table.title}",
            note=note,
            x_name="mean calls per text",
            y_name="accuracy of decided texts",
            points=accuracy,
        )
    }
    if tokens:
        made["tokens"] = Figure(
            title=f"Tokens by condition: {table.title}",
            note=note.partition(";")[0],
            x_name="place",
            y_name="tokens in all",
            points=tokens,
            bars=True,
        )
    return made
