"""What the values of a file's label column stand for, as a person confirms it."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from screening.datasets.reader import Table
from screening.labels import Label
from screening.text.display import visible

READINGS = ("safe", "unsafe", "no reference")

Labels = Mapping[str, Label | None]


def confirm_labels(table: Table, kept: Labels, suffix: str = "") -> Labels:
    """What each value of the label column stands for, ``kept`` first; unmapped ones are shown and give none."""
    report = table.report
    values = {value: count for value, count in report.label_values.items() if value.strip()}
    if report.mapping.label is None or not values:
        why = "No label column" if report.mapping.label is None else "The label column is empty"
        st.caption(f"{why}: there will be no confusion matrix.")
        return {}
    said = {**report.labels, **kept}
    known = {value: label.value for value, label in said.items() if label is not None}
    rows = pd.DataFrame(
        {
            "Value": [visible(value) for value in values],  # a broken byte is no text that can be sent
            "Rows": list(values.values()),
            "Read as": [known.get(value, READINGS[2]) for value in values],
        }
    )
    if unmapped := [value for value in report.unmapped if value not in kept]:
        st.html(
            f'<p style="margin:0"><b>{len(unmapped)} label values are neither safe nor unsafe</b>; '
            "they are kept as they stand and give no reference label unless you say what they mean.</p>"
        )
    edited = st.data_editor(
        rows,
        key=f"labels_{report.mapping.label!a}{suffix}",
        disabled=["Value", "Rows"],
        hide_index=True,
        column_config={"Read as": st.column_config.SelectboxColumn(options=list(READINGS), required=True)},
        height=min(250, 40 + 35 * len(rows)),
    )
    return {
        value: None if read_as == READINGS[2] else Label(read_as)
        for value, read_as in zip(values, edited["Read as"], strict=True)
    }
