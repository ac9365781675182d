"""What an uploaded file holds, before the first call: how it was read, which rows are out and why."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from pages.batches.live_style import STYLE
from screening.datasets.judged import Receive, Row
from screening.datasets.reader import FileReport, Table
from screening.datasets.records import Reason
from screening.datasets.rows import NewCase
from screening.text.display import visible

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
REASON_WORDS: Mapping[Reason, str] = {
    Reason.EXTRA_CELLS: "more cells than columns",
    Reason.MISSING_CELLS: "fewer cells than columns",
    Reason.ROWS_MERGED: "several rows run into one",
    Reason.HEADER_REPEATED: "the header again",
    Reason.NOT_JSON: "not JSON",
    Reason.NOT_AN_OBJECT: "not an object with named values",
    Reason.REPEATED_KEY: "a name twice in one row",
    Reason.NO_TEXT: "no text",
    Reason.NOT_A_TEXT: "a list or an object instead of a text",
    Reason.EMPTY_TEXT: "an empty text",
    Reason.PLACEHOLDER: "a placeholder such as [deleted]",
    Reason.NO_ID: "no id",
    Reason.UNUSABLE_ID: "an id that cannot be kept",
    Reason.DUPLICATE: "repeats an earlier row",
    Reason.CONFLICTING_DUPLICATE: "shares its id with another text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The rows of a file after reading them all; accepted + all of rejected = rows in."""

    accepted: int
    rejected: Mapping[Reason, int]
    referenced: int
    without_call: int
    characters: int

    @property
    def rows_in(self) -> int:
        """Every data row of the file."""
        return self.accepted + sum(self.rejected.values())


def check(table: Table, receive: Receive) -> Check:
    """Read every row once, in constant memory."""
    return _counted(table.rows(receive))


def _counted(rows: Iterable[Row]) -> Check:
    counts: Counter[str] = Counter()
    rejected: Counter[Reason] = Counter()
    for row in rows:
        if not isinstance(row, NewCase):
            rejected[Reason(row.reason)] += 1
            continue
        counts["accepted"] += 1
        counts["referenced"] += row.reference is not None
        counts["without_call"] += row.text.refuses_screening
        counts["characters"] += len(row.text.model_text) + (len(row.reply.model_text) if row.reply else 0)
    return Check(
        accepted=counts["accepted"],
        rejected=dict(rejected.most_common()),
        referenced=counts["referenced"],
        without_call=counts["without_call"],
        characters=counts["characters"],
    )


def read_as(report: FileReport) -> str:
    """How the file was read, in words: kind, encoding, separator."""
    parts = [str(report.format)]
    if report.encoding:
        parts.append(f"{report.encoding}{' (a guess)' if report.encoding_guessed else ''}")
    if report.separator:
        parts.append(f"separated by {SEPARATORS.get(report.separator, repr(report.separator))}")
    return ", ".join(parts)


def report_html(report: FileReport, found: Check) -> str:
    """The counts and everything that should be known before starting."""
    known = f" It has the shape of {report.known}." if report.known else ""
    sentences = [f"Read as {read_as(report)}.{known}", *report.warnings]
    if found.without_call:
        sentences.append(f"{found.without_call:,} texts cannot be screened and go to a clinician without a call.")
    numbers = (
        f"<b>{found.rows_in:,}</b> rows in = <b>{found.accepted:,}</b> accepted + "
        f"<b>{sum(found.rejected.values()):,}</b> rejected"
    )
    items = "".join(f"<li>{escape(visible(sentence))}</li>" for sentence in sentences)
    return (
        f'{STYLE}<div class="sl-live"><p style="font-size:1.15rem;margin:0 0 .4rem">{numbers}</p>'
        f'<ul style="margin:0;padding-left:1.1rem">{items}</ul></div>'
    )


def rejected_rows(found: Check) -> list[dict[str, object]]:
    """The reasons as rows of a table."""
    return [{"Why": REASON_WORDS[reason], "Rows": count} for reason, count in found.rejected.items()]
