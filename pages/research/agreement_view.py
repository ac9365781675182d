"""Agreement between readers as the page shows it: coefficients, changes of mind, the readings as files."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import streamlit as st

from jobs.agreement import Pair, Switching
from pages.research.figures import Axes, Interval, forest, palette
from screening.datasets.export import csv_lines, jsonl_lines
from screening.evaluation.agreement import Coefficient
from screening.evaluation.tables import rate_text
from screening.words import count_of
from storage.research.reading_table import ReadingTable

MEANINGS = {
    "Krippendorff α": "the main figure: any number of reviewers, gaps allowed",
    "Gwet AC1": "does not collapse where one label is rare",
    "Cohen κ": "for exactly two reviewers",
    "agreement on unsafe": "positive agreement: one reviewer said unsafe, did another?",
}


def coefficients_html(found: Sequence[Coefficient]) -> str:
    """The coefficients as a table: value, interval, cases, and why one of them is not there yet."""
    rows = "".join(
        f'<tr><th scope="row">{escape(each.name)}<small>{escape(MEANINGS.get(each.name, ""))}</small></th>'
        f"<td>{_value(each)}</td><td>{_interval(each)}</td><td>{each.cases:,}</td></tr>"
        for each in found
    )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("Coefficient", "Value", "95% CI", "Randomly double-reviewed")
    )
    return f'<table class="sl-agree"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def show_pairs(pairs: Sequence[Pair]) -> None:
    """How often each two reviewers say the same, as a forest plot."""
    lines = [
        Interval(
            name=f"{each.first} · {each.second}",
            value=each.same.value,
            low=each.same.low,
            high=each.same.high,
            hover=rate_text(each.same),
        )
        for each in pairs
    ]
    axes = Axes(title="Same label, by pair of reviewers", x="share of texts reviewed by both", y="", y_percent=True)
    figure = forest(lines, axes, palette(st.context.theme.type))
    st.plotly_chart(figure, key="agreement_pairs", alt="Share of texts with the same label, by pair of reviewers")
    texts = sum(each.same.denominator for each in pairs)
    st.caption(
        f"{count_of(len(pairs), 'pair')}, {count_of(texts, 'double review')} of randomly chosen texts, 95% Wilson "
        "intervals. In order of the pseudonyms: nobody is ranked."
    )


def _value(found: Coefficient) -> str:
    return f"not yet<small>{escape(found.reason or '')}</small>" if found.value is None else f"{found.value:.3f}"


def _interval(found: Coefficient) -> str:
    if found.low is not None and found.high is not None:
        return f"{found.low:.3f} to {found.high:.3f}"
    return "not yet" if found.value is None else f"not yet<small>{escape(found.reason or '')}</small>"


def switching_html(changes: Mapping[str, Switching]) -> str:
    """How often reviewers changed their label once they saw the AI's result, and for better or worse."""
    rows = [("Changed their label", changes["reference"].switched)]
    for against, words in (("adjudicated", "final label"), ("reference", "original label")):
        found = changes[against]
        rows += [
            (f"Incorrect → correct (vs {words})", found.to_right),
            (f"Correct → incorrect (vs {words})", found.to_wrong),
        ]
    body = "".join(f'<tr><th scope="row">{name}</th><td>{rate_text(found)}</td></tr>' for name, found in rows)
    head = '<th scope="col">After seeing the AI’s result</th><th scope="col">Share, 95% CI</th>'
    return f'<table class="sl-agree"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def as_csv(table: ReadingTable) -> Iterator[str]:
    """The ratings matrix: a line per case, a column per reader, empty where a reader gave no blind first reading; and
    whether the case was chosen by its coin to be read twice.
    """
    lines = zip(table.case_ids, table.external_ids, table.labels, table.at_random, strict=True)
    head = ["case_id", "id", *table.readers, "at_random"]
    return csv_lines(head, ([case_id, own, *labels, str(chosen).lower()] for case_id, own, labels, chosen in lines))


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
        named = {"case_id": case_id, "id": table.external_ids[number], "at_random": table.at_random[number]}
        yield from jsonl_lines([named | {"readings": readings}])
