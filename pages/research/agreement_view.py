"""Agreement between readers as the page shows it: coefficients, changes of mind, the readings as files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from screening.datasets.export import csv_lines, jsonl_lines
from screening.review.rating_form import RatingLabel
from screening.statistics.agreement import (
    Coefficient,
    Level,
    Ratings,
    agreement_report,
    krippendorff_alpha,
    ratings_of,
    with_interval,
)
from screening.statistics.metrics import Proportion
from storage.research.reading_table import ReadingTable, Switch

LABELS = (RatingLabel.SAFE.value, RatingLabel.INSUFFICIENT_INFORMATION.value, RatingLabel.UNSAFE.value)
"""In their order: what cannot be said lies between safe and unsafe."""
IDEATION = tuple(map(str, range(6)))
MEANINGS = (
    ("Krippendorff α (nominal)", "the main figure: any number of readers, gaps allowed"),
    ("Krippendorff α (ordinal)", "safe against unsafe counts more than either against insufficient information"),
    ("Gwet AC1", "does not collapse where one label is rare"),
    ("Gwet AC2", "the same with ordinal weights"),
    ("Cohen κ", "for exactly two readers"),
    ("agreement on unsafe", "positive agreement: one reader said unsafe, did another?"),
    ("ideation", "of the recorded levels 0 to 5"),
)


@st.cache_data(show_spinner="Resampling cases…", max_entries=20)
def coefficients(
    labels: tuple[tuple[str | None, ...], ...], ideation: tuple[tuple[int | None, ...], ...]
) -> list[Coefficient]:
    """Every coefficient with its bootstrap interval; the same readings give the same figures."""
    found = list(agreement_report(ratings_of(labels, LABELS), positive="unsafe"))
    levels = ratings_of([[None if one is None else str(one) for one in row] for row in ideation], IDEATION)
    return [*found, with_interval(_ideation, levels)]


def alpha(labels: tuple[tuple[str | None, ...], ...]) -> Coefficient:
    """The main figure alone, with its interval."""
    return with_interval(krippendorff_alpha, ratings_of(labels, LABELS))


def _ideation(levels: Ratings) -> Coefficient:
    found = krippendorff_alpha(levels, Level.ORDINAL)
    return Coefficient(
        name="ideation level, Krippendorff α (ordinal)", value=found.value, cases=found.cases, reason=found.reason
    )


def coefficients_html(found: Sequence[Coefficient]) -> str:
    """The coefficients as a table: value, interval, cases, and why one of them is not there yet."""
    rows = "".join(
        f'<tr><th scope="row">{escape(each.name.replace("_", " "))}<small>{escape(_meaning(each.name))}</small></th>'
        f"<td>{_value(each)}</td><td>{_interval(each)}</td><td>{each.cases:,}</td></tr>"
        for each in found
    )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("Coefficient", "Value", "95 % interval", "Cases read twice or more")
    )
    return f'<table class="sl-agree"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _meaning(name: str) -> str:
    return next((meaning for begin, meaning in MEANINGS if name.startswith(begin)), "")


def _value(found: Coefficient) -> str:
    return f"not yet<small>{escape(found.reason or '')}</small>" if found.value is None else f"{found.value:.3f}"


def _interval(found: Coefficient) -> str:
    if found.low is not None and found.high is not None:
        return f"{found.low:.3f} to {found.high:.3f}"
    return "not yet" if found.value is None else f"not yet<small>{escape(found.reason or '')}</small>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """Changes of mind after the engine's view was shown: of all readings, and against one kind of label."""

    switched: Proportion
    to_right: Proportion
    to_wrong: Proportion


def switching(readings: Sequence[Switch], *, against: str) -> Switching:
    """``against`` is ``adjudicated`` or ``reference``; wrong→right is of first labels that were wrong, and so on."""
    judged = [(one, truth) for one in readings if (truth := getattr(one, against)) is not None]
    wrong = [(one, truth) for one, truth in judged if one.first != truth]
    right = [(one, truth) for one, truth in judged if one.first == truth]
    return Switching(
        switched=Proportion(sum(one.first != one.last for one in readings), len(readings)),
        to_right=Proportion(sum(one.last == truth for one, truth in wrong), len(wrong)),
        to_wrong=Proportion(sum(one.last != truth for one, truth in right), len(right)),
    )


def switching_html(readings: Sequence[Switch]) -> str:
    """How often readers changed their label once they saw the engine's view, and for better or worse."""
    rows = [("Changed their label", switching(readings, against="reference").switched)]
    for against, words in (("adjudicated", "adjudicated label"), ("reference", "reference label")):
        found = switching(readings, against=against)
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
    """The ratings matrix: a line per case, a column per reader, empty where a reader gave no blind first reading."""
    lines = zip(table.case_ids, table.labels, strict=True)
    return csv_lines(["case_id", *table.readers], ([case_id, *labels] for case_id, labels in lines))


def as_jsonl(table: ReadingTable) -> Iterator[str]:
    """A line per case with label, certainty and ideation level of every reader who gave one."""
    for number, case_id in enumerate(table.case_ids):
        readings = {
            reader: {
                "label": table.labels[number][column],
                "certainty": table.certainties[number][column],
                "ideation": table.ideation[number][column],
            }
            for column, reader in enumerate(table.readers)
            if table.labels[number][column] is not None
        }
        yield from jsonl_lines([{"case_id": case_id, "readings": readings}])
