"""Agreement between readers as the page shows it: coefficients, changes of mind, the readings as files."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from jobs.agreement import Switching
from screening.datasets.export import csv_lines, jsonl_lines
from screening.statistics.agreement import Coefficient
from screening.statistics.metrics import Proportion
from screening.words import count_of
from storage.research.reading_table import ReadingTable

MEANINGS = (
    ("Krippendorff α (nominal)", "the main figure: any number of readers, gaps allowed"),
    ("Krippendorff α (ordinal)", "safe against unsafe counts more than either against insufficient information"),
    ("Gwet AC1", "does not collapse where one label is rare"),
    ("Gwet AC2", "the same with ordinal weights"),
    ("Cohen κ", "for exactly two readers"),
    ("agreement on unsafe", "positive agreement: one reader said unsafe, did another?"),
    ("ideation", "of the recorded levels 0 to 5"),
)


def coefficients_html(found: Sequence[Coefficient]) -> str:
    """The coefficients as a table: value, interval, cases, and why one of them is not there yet."""
    rows = "".join(
        f'<tr><th scope="row">{escape(each.name.replace("_", " "))}<small>{escape(_meaning(each.name))}</small></th>'
        f"<td>{_value(each)}</td><td>{_interval(each)}</td><td>{each.cases:,}</td></tr>"
        for each in found
    )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("Coefficient", "Value", "95 % interval", "Cases read twice at random")
    )
    return f'<table class="sl-agree"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def chosen_words(otherwise: int) -> str:
    """Which cases the coefficients are of, and how many others were read by two or more.

    >>> chosen_words(1).rpartition(". ")[2].partition(" or because")[0]
    'Left out: 1 other case, read twice for what its first reader said'
    """
    others = count_of(otherwise, "other case, read twice for what its", "other cases, read twice for what their")
    return (
        "Of the first two readings of cases that a coin chose, whatever their first reader said, at the share that was "
        f"set then (Settings, *Share read twice at random*). Left out: {others} first reader said or because somebody "
        "asked: readers part more there."
    )


def _meaning(name: str) -> str:
    return next((meaning for begin, meaning in MEANINGS if name.startswith(begin)), "")


def _value(found: Coefficient) -> str:
    return f"not yet<small>{escape(found.reason or '')}</small>" if found.value is None else f"{found.value:.3f}"


def _interval(found: Coefficient) -> str:
    if found.low is not None and found.high is not None:
        return f"{found.low:.3f} to {found.high:.3f}"
    return "not yet" if found.value is None else f"not yet<small>{escape(found.reason or '')}</small>"


def switching_html(changes: Mapping[str, Switching]) -> str:
    """How often readers changed their label once they saw the engine's view, and for better or worse."""
    rows = [("Changed their label", changes["reference"].switched)]
    for against, words in (("adjudicated", "adjudicated label"), ("reference", "reference label")):
        found = changes[against]
        rows += [(f"Wrong → right, by the {words}", found.to_right), (f"Right → wrong, by the {words}", found.to_wrong)]
    body = "".join(f'<tr><th scope="row">{name}</th><td>{proportion_words(found)}</td></tr>' for name, found in rows)
    head = '<th scope="col">After the engine’s view was shown</th><th scope="col">Share, 95 % Wilson interval</th>'
    return f'<table class="sl-agree"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def proportion_words(found: Proportion) -> str:
    """A share with its interval and counts.

    >>> proportion_words(Proportion(0, 0)), proportion_words(Proportion(4, 42))
    ('not yet: 0 of 0', '0.095 (0.038–0.221), 4 of 42')
    """
    if found.value is None:
        return "not yet: 0 of 0"
    return f"{found.value:.3f} ({found.low:.3f}–{found.high:.3f}), {found.numerator:,} of {found.denominator:,}"


def as_csv(table: ReadingTable) -> Iterator[str]:
    """The ratings matrix: a line per case, a column per reader, empty where a reader gave no blind first reading; and
    whether the case was chosen by its coin to be read twice.
    """
    lines = zip(table.case_ids, table.labels, table.at_random, strict=True)
    head = ["case_id", *table.readers, "at_random"]
    return csv_lines(head, ([case_id, *labels, str(chosen).lower()] for case_id, labels, chosen in lines))


def as_jsonl(table: ReadingTable) -> Iterator[str]:
    """A line per case with label, certainty, ideation level and turn of every reader who gave one."""
    for number, case_id in enumerate(table.case_ids):
        readings = {
            reader: {
                "label": table.labels[number][column],
                "certainty": table.certainties[number][column],
                "ideation": table.ideation[number][column],
                "reading": table.turns[number][column],
            }
            for column, reader in enumerate(table.readers)
            if table.labels[number][column] is not None
        }
        yield from jsonl_lines([{"case_id": case_id, "at_random": table.at_random[number], "readings": readings}])
