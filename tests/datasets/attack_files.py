"""Files that are packed to fill memory or disk. `python -m tests.datasets.attack_files make|read FOLDER`."""

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from screening.datasets.reader import read_table
from screening.datasets.sources import FileRefused

_MAIN = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SHEET = b'<row><c t="s"><v>0</v></c></row>'


def _parquet(columns: dict[str, object], **how: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, **{"compression": "zstd", **how})
    return stream.getvalue()


def _repeated(text: str, rows: int) -> pa.Table:
    places = pa.array([0] * rows, pa.int32())
    return pa.table({"text": pa.DictionaryArray.from_arrays(places, pa.array([text]))})


def _arrow(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def _feather(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    feather.write_feather(table, stream, compression="zstd")
    return stream.getvalue()


def _workbook(strings: bytes, rows: bytes) -> bytes:
    relation = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    parts = {
        "xl/workbook.xml": b'<workbook xmlns="%s" xmlns:r="%s"><sheets><sheet name="S" r:id="a"/></sheets></workbook>'
        % (_MAIN, relation),
        "xl/_rels/workbook.xml.rels": b'<Relationships><Relationship Id="a" Type="%s/worksheet" Target="s.xml"/>'
        b'<Relationship Id="b" Type="%s/sharedStrings" Target="t.xml"/></Relationships>' % (relation, relation),
        "xl/s.xml": b'<worksheet xmlns="%s"><sheetData>%s</sheetData></worksheet>' % (_MAIN, _SHEET + rows),
        "xl/t.xml": b'<sst xmlns="%s"><si><t>text</t></si>%s</sst>' % (_MAIN, strings),
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


ATTACKS: dict[str, Callable[[], bytes]] = {
    "one long text.parquet": lambda: _parquet({"text": ["a" * 300_000_000]}),
    "one entry in many rows.parquet": lambda: _parquet(
        {"text": _repeated("x" * 1_300_000, 70_000)["text"]}, write_batch_size=1
    ),
    "many row groups.parquet": lambda: _parquet({"text": ["b" * 3_000_000] * 60}, row_group_size=1),
    "each text repeats the last.parquet": lambda: _parquet(
        {"text": [f"{'a' * 1_000_000}{n}" for n in range(500)]},
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY"},
    ),
    "one long list.parquet": lambda: _parquet(
        {"text": pa.ListArray.from_arrays([0, 2_100_000], pa.array(["hello world"] * 2_100_000))}
    ),
    "many rows.parquet": lambda: _parquet({"text": ["fine"] * 2_100_000}),
    "one entry in many rows.arrow": lambda: _arrow(_repeated("x" * 1_300_000, 70_000)),
    "one long text.feather": lambda: _feather(pa.table({"text": ["a" * 300_000_000]})),
    "one shared string of many parts.xlsx": lambda: _workbook(
        b"<si>%s</si>" % (b"<r><t>12</t></r>" * 500_000 + b"".join(b"<r><t>%d</t></r>" % n for n in range(900_000))),
        b'<row><c t="s"><v>1</v></c></row>',
    ),
    "one shared string in many rows.xlsx": lambda: _workbook(
        b"<si><t>%s</t></si>" % (b"abc " * 900_000), b'<row><c t="s"><v>1</v></c></row>' * 200_000
    ),
    "many cells.xlsx": lambda: _workbook(
        b"", b"<row>%s</row>" % b"".join(b"<c><v>%d</v></c>" % n for n in range(99_999))
    ),
    "empty lists.json": lambda: b'[{"text":[' + b"[]," * 4_000_000 + b"[]]}]",
    "a quote never closed.csv": lambda: b'id,text\n1,"' + b"a\n" * 8_000_000,
}


def main(what: str, folder: Path) -> None:
    """Make the files, or read each as far as it is read: what became of it, and the most memory so far in MB."""
    if what == "make":
        for name, made in ATTACKS.items():
            (folder / name).write_bytes(made())
        return
    for name in ATTACKS:
        try:
            said = f"{sum(1 for _ in read_table(folder / name, name).rows())} rows"
        except FileRefused as refusal:
            said = f"refused: {refusal}"
        print(json.dumps([name, _peak_mb(), said]))


def _peak_mb() -> int:
    """The most memory this program has held; what `getrusage` tells counts the process it was forked from too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
