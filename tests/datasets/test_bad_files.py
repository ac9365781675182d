"""Files as people really produce them, each with the behaviour owed to it."""

import csv
from pathlib import Path

import pytest

from screening.datasets import delimited
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import NewCase, Reason, RejectedRow
from screening.datasets.sources import ColumnsUnclear, FileRefused
from screening.labels import Label
from screening.text.received import original_text

FILES = Path(__file__).parent.parent / "fixtures" / "bad_csv"


def table(name: str) -> Table:
    return read_table(FILES / f"{name}.csv", f"{name}.csv")


def texts(name: str) -> dict[str, str]:
    return {row.external_id: row.text.stored for row in table(name).rows() if isinstance(row, NewCase)}


def rejected(name: str) -> list[tuple[int, int | None, str | None, str]]:
    return [
        (row.row, row.line, row.external_id, row.reason) for row in table(name).rows() if isinstance(row, RejectedRow)
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("empty", "The file is empty."),
        ("xlsx_renamed", "zip archive"),
        ("extra_comma_all", "Line 2: 2 of 2 rows do not fit: 3 cells where the header has 2"),
        ("unterminated", "Line 2: a quote opens here and is never closed"),
        ("many_cols", "5,000 columns; at most 1,000"),
        ("missing_text", "2 columns: id, label"),
        ("no_header", "The first row must name the columns"),
    ],
)
def test_refused_with_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(FileRefused, match=sentence):
        table(name)


def test_a_refusal_names_columns_and_quotes_no_message() -> None:
    with pytest.raises(ColumnsUnclear) as refused:
        read_table(b"1,I am going to end it tonight,no\n2,hello,no\n")
    assert "end it" not in str(refused.value) and "3 columns: 1, no." in str(refused.value)
    assert refused.value.columns == ("1", "I am going to end it tonight", "no")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ok", {"1": "hello", "2": "a, b", "3": "two\nlines"}),
        ("semicolon", {"1": "a"}),
        ("bom", {"1": "a"}),
        ("case_header", {"1": "a"}),
        ("blank_lines", {"1": "a"}),
        ("filename_traversal", {"1": "a"}),
        ("cp1252", {"1": "I’m here"}),
        ("na_words", {"1": "NA", "2": "null", "3": "None", "4": "nan"}),
        ("formula", {"1": "=1+1", "2": "+1", "3": "-1", "4": "@x"}),
        ("id_forms", {"007": "a", "7": "b", "1e5": "c", " 7 ": "d", "12345678901234567890123": "e"}),
        ("extra_comma_one", {"1": "a"}),
        ("dup_ids_same", {"1": "a"}),
        ("dup_ids_conflict", {"1": "I am fine", "2": "I want to die"}),
    ],
)
def test_every_accepted_text_under_its_own_id(name: str, expected: dict[str, str]) -> None:
    assert texts(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("extra_comma_one", [(2, 3, "2", Reason.EXTRA_CELLS)]),
        ("dup_ids_same", [(2, 3, "1", Reason.DUPLICATE)]),
        ("dup_ids_conflict", []),
        ("id_forms", []),
    ],
)
def test_every_rejected_row_is_named(name: str, expected: list[tuple[int, int | None, str | None, str]]) -> None:
    assert rejected(name) == expected


def test_the_encoding_found_is_announced() -> None:
    report = table("cp1252").report
    assert (report.encoding, report.encoding_guessed) == ("cp1252", True)
    assert "cp1252" in report.warnings[0]
    assert (table("bom").report.encoding, table("bom").report.encoding_guessed) == ("utf-8-sig", False)


def test_the_separator_found_is_announced() -> None:
    assert table("semicolon").report.separator == ";"


def test_what_was_passed_over_or_merged_is_said() -> None:
    assert "2 blank lines" in table("blank_lines").report.warnings[0]
    assert "kept once" in table("dup_ids_same").report.warnings[0]
    conflict = table("dup_ids_conflict").report
    assert conflict.mapping.id is None and conflict.mapping.group == "id"
    assert "The row number is the id" in conflict.warnings[0]
    assert "only in spaces" in table("id_forms").report.warnings[0]


def test_unknown_labels_are_shown_not_guessed() -> None:
    found = table("bad_labels")
    rows = [row for row in found.rows() if isinstance(row, NewCase)]
    assert [(row.reference_value, row.reference) for row in rows] == [
        ("SAFE", Label.SAFE),
        ("unsfae", None),
        ("", None),
        ("1", None),
    ]
    assert found.report.labels == {"SAFE": Label.SAFE}
    assert found.report.unmapped == ("1", "unsfae")


def test_a_person_may_confirm_what_a_value_means() -> None:
    found = read_table(FILES / "bad_labels.csv", label_values={"1": Label.UNSAFE, "SAFE": None})
    assert [row.reference for row in found.rows() if isinstance(row, NewCase)] == [None, None, None, Label.UNSAFE]


def test_a_reference_is_never_escalate() -> None:
    with pytest.raises(ValueError, match="safe or unsafe"):
        read_table(FILES / "bad_labels.csv", label_values={"1": Label.ESCALATE})


def accepted(content: bytes) -> list[tuple[str, str]]:
    rows = read_table(content).rows()
    return [(row.external_id, original_text(row.text)) for row in rows if isinstance(row, NewCase)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_carriage_return_ends_no_row_where_lines_end_otherwise(end: str, encoding: str) -> None:
    """As pandas writes one: without quotes."""
    rows = ("id,text", "1,a good day\rthen the end", '2,"said\r""no""\n\rmore"', "3,lone \udc0d half\r\rhere", "4,b\r")
    content = end.join(rows).encode(encoding, "surrogatepass" if encoding == "utf-16" else "replace")
    half = "\udc0d" if encoding == "utf-16" else "?"
    assert accepted(content) == [
        ("1", "a good day\rthen the end"),
        ("2", 'said\r"no"\n\rmore'),
        ("3", f"lone {half} half\r\rhere"),
        ("4", "b"),
    ]
    assert accepted(b"text" + end.encode() + b"a good day\rthen the end") == [("1", "a good day\rthen the end")]


def test_lines_of_an_old_mac_file_end_at_a_carriage_return() -> None:
    assert accepted(b'id,text\r1,a\r2,"b\rc"\r\n3,d\n') == [("1", "a"), ("2", "b\rc"), ("3", "d")]


def test_line_numbers_count_what_ends_a_line() -> None:
    with pytest.raises(FileRefused, match=r"Line 3: a quote opens here and is never closed"):
        read_table(b'id,text\n1,a\rb\n2,"c\rd\n')
    found = read_table(b"id,text\n1,a\rb\rc\n2,\n")
    assert [row.line for row in found.rows() if isinstance(row, RejectedRow)] == [3]


def test_the_longest_line_is_measured_to_its_real_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "CELL_LIMIT", 40)
    kept = csv.field_size_limit()  # of the whole process: packages are looked up by it too
    try:
        with pytest.raises(FileRefused, match=r"Line 2: longer than 40 characters"):
            read_table(b"id,text\n1," + b"a word\r" * 10 + b"\n")
    finally:
        csv.field_size_limit(kept)
