"""Files as tools write them, and what becomes of each row of a file in few words."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook

from screening.datasets.mapping import ColumnMapping, ConversationReading, Shape
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import NewCase, Reason
from screening.text.received import ReceivedText, original_text, receive

_MAIN = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATION = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_FIRST = b'<row><c t="s"><v>0</v></c></row>'
RISK = "I am going to kill myself tonight"
FACTS: dict[str, Callable[[NewCase], Any]] = {
    "id": lambda row: row.external_id,
    "text": lambda row: original_text(row.text),
    "label": lambda row: row.reference,
    "value": lambda row: row.reference_value,
    "group": lambda row: row.group,
    "reply": lambda row: row.reply and row.reply.stored,
    "where": lambda row: row.where,
    "flags": lambda row: row.text.flags,
}


def read(source: bytes | Path | Table, facts: str = "id text", mapping: ColumnMapping | None = None) -> list[Any]:
    """Each row as these facts of it, or as the reason for which it is none; the file's name says nothing."""
    table = source if isinstance(source, Table) else read_table(source, "../../etc/passwd.pdf", mapping=mapping)
    found: list[Any] = []
    for row in table.rows():
        told = tuple(FACTS[name](row) for name in facts.split()) if isinstance(row, NewCase) else ()
        found.append(Reason(row.reason) if not isinstance(row, NewCase) else told if len(told) > 1 else told[0])
    return found


def cases(table: Table, received: Callable[[str], ReceivedText] = receive) -> list[NewCase]:
    return [row for row in table.rows(received) if isinstance(row, NewCase)]


def talk(text: str, shape: Shape = Shape.TRANSCRIPT, **said: Any) -> ColumnMapping:
    """Rows of conversations in this column."""
    return ColumnMapping(text=text, id="id", conversation=ConversationReading(shape=shape, **said))


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def workbook(*rows: tuple[object, ...]) -> bytes:
    book, stream = Workbook(), io.BytesIO()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(stream)
    return stream.getvalue()


def parquet(columns: dict[str, Any], features: object = None, **how: Any) -> bytes:
    """A Parquet file; ``features`` is what the datasets library writes of its columns."""
    stream, said = io.BytesIO(), {"huggingface": json.dumps({"info": {"features": features}})} if features else None
    pq.write_table(pa.table(columns).replace_schema_metadata(said), stream, **({"row_group_size": 2} | how))
    return stream.getvalue()


def saved(folder: Path, columns: dict[str, Any], stream: bool = True) -> Path:
    """A folder as the datasets library saves one: Arrow streams and what lists them."""
    folder.mkdir(parents=True)
    table = pa.table(columns)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(folder / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    return folder


def packed_workbook(strings: bytes, rows: bytes) -> bytes:
    """A workbook of one column named text, with these further shared strings and rows as they stand in the file."""
    parts = {
        "xl/workbook.xml": b'<workbook xmlns="%s" xmlns:r="%s"><sheets><sheet name="S" r:id="a"/></sheets></workbook>'
        % (_MAIN, _RELATION),
        "xl/_rels/workbook.xml.rels": b'<Relationships><Relationship Id="a" Type="%s/worksheet" Target="s.xml"/>'
        b'<Relationship Id="b" Type="%s/sharedStrings" Target="t.xml"/></Relationships>' % (_RELATION, _RELATION),
        "xl/s.xml": b'<worksheet xmlns="%s"><sheetData>%s</sheetData></worksheet>' % (_MAIN, _FIRST + rows),
        "xl/t.xml": b'<sst xmlns="%s"><si><t>text</t></si>%s</sst>' % (_MAIN, strings),
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()
