"""`make bench`: every section, or those named: ``python -m benchmarks [section ...]``.

A section is a module of this package that tells figures; each runs in a process of its own with its defaults, or with
options of its own (``python -m benchmarks "inbox --sizes 1000000"``). At the end all figures stand in one table with
their aims, under the machine and its load. docs/benchmarks.md has the ratios worth remembering.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, process_time

from benchmarks.figures import Row, read

HERE = Path(__file__).parent
SECTIONS = sorted(
    path.stem
    for path in HERE.glob("*.py")
    if re.search(r"^from benchmarks\.figures import .*tell", path.read_text(), re.M)
)
FIGURES = "| Section | Figure | Measured | Aim | |\n|---|---|---|---|---|\n"
Table = dict[str, list[str]]
"""Lines of a table by their first cell."""


def run(asked: Sequence[str]) -> int:
    """Run the sections one after the other, each with its own options; how many failed."""
    wanted = [each.split() for each in asked] or [[section] for section in SECTIONS]
    if unknown := {section for section, *_ in wanted} - set(SECTIONS):
        print(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    failed, found, began, where = 0, Table(), monotonic(), _where()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles its libraries anew: Pandas takes 1 s
    for section, *options in wanted:
        name = command_words([section, *options])
        print(f"\n== {name}", flush=True)
        code, rows = _run_section(section, options)
        failed += code != 0
        found[name] = [f"| {name} {row}" for row in rows]
    print(f"\n{FIGURES}{_lines(found)}\n{where}; {(monotonic() - began) / 60:.0f} min in all")
    return failed


def command_words(command: list[str]) -> str:
    """A section and its options, as they stand in the table: where somebody keeps a file is nobody's business.

    >>> command_words(["side_by_side", "--label-studio", "/home/kim/label-studio", "--rounds", "30"])
    'side_by_side --label-studio … --rounds 30'
    """
    return " ".join("…" if "/" in word else word for word in command)


def _lines(table: Table) -> str:
    return "".join(f"{line}\n" for section in sorted(table) for line in table[section])


def _run_section(section: str, options: list[str]) -> tuple[int, list[Row]]:
    """A section's exit code and figures; all it prints is shown as it comes."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{section}", *options]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if row := read(line):
                rows.append(row)
    return process.returncode, rows


def _where() -> str:
    """Commit, day, machine and its load before the first section began."""
    found = re.search(r"model name\s*: (.*)", _text("/proc/cpuinfo"))
    cpu = " ".join(found[1].split()) if found else platform.machine()
    memory = re.search(r"MemTotal:\s*(\d+)", _text("/proc/meminfo"))
    size = f", {int(memory[1]) / 2**20:.0f} GB" if memory else ""
    when, load = datetime.now(UTC).date(), os.getloadavg()[0]
    machine = f"{os.cpu_count()} x {cpu}{size}, {_million_steps_ms():.0f} ms a million steps, load {load:.1f}"
    return f"{_commit()}, {when}, {machine}"


def _million_steps_ms() -> float:
    """The machine's pace: milliseconds of processor time for a million additions in a loop, the best of five."""
    times = []
    for _ in range(5):
        began, total = process_time(), 0
        for step in range(1_000_000):
            total += step * step
        times.append(1_000 * (process_time() - began))
    return min(times)


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _text(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sections", nargs="*", help='a name, or a name with its options: "idle --seconds 10"')
    sys.exit(run(options.parse_args().sections))
