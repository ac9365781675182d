"""Files that are packed to fill memory or disk: refused in words, and before they take it.

`python -m tests.datasets.test_attacks FOLDER` reads each in there as far as it is read.
"""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from screening.datasets.reader import read_table
from screening.datasets.rows import FileRefused
from tests.datasets.reading import packed_workbook, parquet

MOST_MB = 600
_SECOND = b'<row><c t="s"><v>1</v></c></row>'


def _packed(columns: dict[str, object], **how: object) -> bytes:
    return parquet(columns, **{"compression": "zstd", "row_group_size": None, **how})


def _repeated(text: str, rows: int) -> pa.Table:
    places = pa.array([0] * rows, pa.int32())
    return pa.table({"text": pa.DictionaryArray.from_arrays(places, pa.array([text]))})


def _arrow(table: pa.Table, compression: str | None = None) -> bytes:
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return stream.getvalue()


def _forged(content: bytes) -> bytes:
    """The same pages below a footer that says that they unpack to 1,000 bytes."""
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    said, told = (_varint(2 * size, 5) for size in (column.total_uncompressed_size, 1_000))
    assert content.count(said) > 0
    return content.replace(said, told)


def _varint(number: int, length: int) -> bytes:
    """As Thrift writes it, in so many bytes."""
    return bytes((number >> 7 * at) & 0x7F | (0x80 if at < length - 1 else 0) for at in range(length))


ATTACKS: dict[str, Callable[[], bytes]] = {
    "one long text.parquet": lambda: _packed({"text": ["a" * 160_000_000]}),
    "one long text below a forged footer.parquet": lambda: _forged(_packed({"text": ["a" * 160_000_000]})),
    "one entry in many rows.parquet": lambda: _packed(
        {"text": _repeated("x" * 1_300_000, 10_000)["text"]}, write_batch_size=1
    ),
    "one entry in a long list.parquet": lambda: _packed(
        {"text": pa.ListArray.from_arrays([0, 9_000], _repeated("x" * 130_000, 9_000)["text"].combine_chunks())},
        write_batch_size=1,
    ),
    "many row groups.parquet": lambda: _packed({"text": ["b" * 3_000_000] * 60}, row_group_size=1),
    "each text repeats the last.parquet": lambda: _packed(
        {"text": [f"{'a' * 1_000_000}{n}" for n in range(500)]},
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY"},
    ),
    "one long list.parquet": lambda: _packed(
        {"text": pa.ListArray.from_arrays([0, 2_100_000], pa.array(["hello world"] * 2_100_000))}
    ),
    "many rows.parquet": lambda: _packed({"text": ["fine"] * 2_100_000}),
    "one entry in many rows.arrow": lambda: _arrow(_repeated("x" * 1_300_000, 70_000)),
    "long texts.feather": lambda: _arrow(
        pa.table(dict.fromkeys(("text", "b", "c", "d", "e"), pa.array(["a" * 160_000_000]))), "zstd"
    ),
    "one shared string of many parts.xlsx": lambda: packed_workbook(
        b"<si>%s</si>" % (b"<r><t>12</t></r>" * 500_000 + b"".join(b"<r><t>%d</t></r>" % n for n in range(900_000))),
        _SECOND,
    ),
    "one shared string in many rows.xlsx": lambda: packed_workbook(
        b"<si><t>%s</t></si>" % (b"abc " * 900_000), _SECOND * 200_000
    ),
    "many rows.xlsx": lambda: packed_workbook(b"", b"<row/>" * 3_000_000),
    "many cells.xlsx": lambda: packed_workbook(b"", b"<row>%s</row>" % (b"<c><v>7</v></c>" * 99_999)),
    "empty lists.json": lambda: b'[{"text":[' + b"[]," * 4_000_000 + b"[]]}]",
    "a quote never closed.csv": lambda: b'id,text\n1,"' + b"a\n" * 8_000_000,
}


@pytest.mark.slow
def test_no_attack_takes_memory_and_each_is_refused(tmp_path: Path) -> None:
    for name, made in ATTACKS.items():
        (tmp_path / name).write_bytes(made())
    command = [sys.executable, "-m", "tests.datasets.test_attacks", str(tmp_path)]
    read = subprocess.run(command, check=True, capture_output=True, text=True)
    found = [json.loads(line) for line in read.stdout.splitlines()]
    assert [name for name, _, _ in found] == list(ATTACKS)
    assert {name: said for name, _, said in found if not said.startswith("refused: ")} == {}
    assert max(memory for _, memory, _ in found) < MOST_MB, found


def _peak_mb() -> int:
    """The most memory this program has held; what `getrusage` tells counts the process it was forked from too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    for one in ATTACKS:
        try:
            outcome = f"{sum(1 for _ in read_table(Path(sys.argv[1]) / one, one).rows())} rows"
        except FileRefused as refusal:
            outcome = f"refused: {refusal}"
        print(json.dumps([one, _peak_mb(), outcome]))
