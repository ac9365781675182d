"""An uploaded file, read once for what it holds and once for its rows, however often its page is drawn."""

from pathlib import Path

import streamlit as st

from jobs.intake import receiver
from pages.batches.file_check import Check, check
from pages.components import resources
from screening.datasets.columns import ColumnMapping
from screening.datasets.reader import Table, read_table
from screening.datasets.refused import FileRefused


def _as_bytes(words: str) -> bytes:
    return words.encode(errors="surrogatepass")  # a broken byte in a label or a column's name


@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Reading the file …", hash_funcs={str: _as_bytes})
def profile(path: Path, name: str, sheet: str | None) -> Table | FileRefused:
    """What the file holds by its proposed columns, or why a person must say more."""
    try:
        return read_table(path, name, sheet=sheet)
    except FileRefused as refusal:
        return refusal


@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Reading the file …", hash_funcs={str: _as_bytes})
def _read_mapped(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Table | FileRefused:
    try:
        return read_table(path, name, mapping=mapping, sheet=sheet)
    except FileRefused as refusal:
        return refusal


def read_mapped(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Table:
    """The file by the columns that a person confirmed: the profile itself where they are the proposed ones.

    Raises FileRefused.
    """
    first = profile(path, name, sheet)
    same = isinstance(first, Table) and first.report.mapping == mapping
    found = first if same else _read_mapped(path, name, sheet, mapping)
    if isinstance(found, FileRefused):
        raise found
    return found


@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Checking every row …", hash_funcs={str: _as_bytes})
def check_rows(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Check:
    """Every row, each text received once. Raises FileRefused."""
    return check(read_mapped(path, name, sheet, mapping), receiver(resources.settings()))
