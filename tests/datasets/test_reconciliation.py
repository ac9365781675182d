"""Whatever the bytes: every row comes out once, and no text under another row's id."""

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase
from screening.datasets.sources import FileRefused
from screening.text.received import original_text

PIECES = st.sampled_from([b"id,text\n", b"1,", b"2,", b"a", b'"', b",", b"\n", b"\r\n", b"\r", b";", b"\t", b" ",
                          b"\xff", b"\xc3\xa9", b"\xe2\x80\x8b", b"\x00", b"[", b"{", b"}", b'{"id":1,"text":"a"}\n',
                          b"NA", b"=1"])  # fmt: skip
MESSY = st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=40).map(b"".join)).map(
    lambda tail: b"id,text\n" + tail
) | st.lists(PIECES, max_size=30).map(b"".join)
CELL = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12) | st.sampled_from(
    ["NA", "007", "a,b", 'say "hi"', "two\nlines", "=1", ""]
)


@settings(max_examples=100, deadline=None)
@given(MESSY)
def test_any_bytes_are_refused_or_reconciled(content: bytes) -> None:
    try:
        table = read_table(content)
    except FileRefused as refused:
        assert str(refused)
        return
    rows = list(table.rows())
    assert [row.row for row in rows] == list(range(1, table.report.rows + 1))
    ids = [row.external_id for row in rows if isinstance(row, NewCase)]
    assert len(ids) == len(set(ids))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8),
    st.sampled_from(",;\t|"),
    st.sampled_from(["utf-8", "utf-16"]),
)
def test_a_well_written_file_keeps_each_text_with_its_id(
    cells: list[tuple[str, str]], separator: str, encoding: str
) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=separator, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *cells])
    table = read_table(stream.getvalue().encode(encoding))
    rows = list(table.rows())
    assert len(rows) == len(cells)
    named = table.report.mapping.id is not None  # an id that stands at two texts is none: rows are numbered
    for row, (identity, text) in zip(rows, cells, strict=True):
        if isinstance(row, NewCase):
            assert (row.external_id, original_text(row.text)) == (identity if named else str(row.row), text)
