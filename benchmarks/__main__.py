"""`make bench`: every section, or those named: ``python -m benchmarks [--write] [section ...]``.

A section is a module of this package with a ``main()``; each runs in a process of its own with its defaults. With
``--write`` what it prints is kept in docs/benchmarks.md, with machine, commit and command; other sections stay there as
they are, and so does what stands under *Profiles*.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parent / "docs" / "benchmarks.md"
SECTIONS = sorted(
    path.stem for path in HERE.glob("*.py") if "\ndef main(" in path.read_text() and not path.stem.startswith("_")
)
PROFILES = "## Profiles"
HEAD = """# Benchmarks

`make bench` runs every section, `python -m benchmarks <section>` one; `python -m benchmarks --write` keeps what they
print here. Figures stand with their aims and *met* or *NOT MET*; nothing is asserted. Trust ratios and processor time
more than wall time: the load of the machine is told with each.
"""


def run(sections: list[str], *, write: bool) -> int:
    """Run the sections one after the other; how many failed."""
    if unknown := set(sections) - set(SECTIONS):
        print(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    failed = 0
    for section in sections or SECTIONS:
        print(f"\n== {section}", flush=True)
        where = _where(section)
        code, printed = _printed(section)
        failed += code != 0
        if write and code == 0:
            TABLE.write_text(with_section(TABLE.read_text(), section, f"{where}\n\n```\n{printed.strip()}\n```"))
    return failed


def with_section(text: str, section: str, body: str) -> str:
    """The table with this section's block, in the order of their names, before the profiles.

    >>> print(with_section("# Old\\n\\n## b\\n\\nas it was\\n\\n## Profiles\\n\\n- kept\\n", "a", "new")[len(HEAD):])
    <BLANKLINE>
    ## a
    <BLANKLINE>
    new
    <BLANKLINE>
    ## b
    <BLANKLINE>
    as it was
    <BLANKLINE>
    ## Profiles
    <BLANKLINE>
    - kept
    <BLANKLINE>
    """
    tables, _, profiles = text.partition(PROFILES)
    blocks = {title: body.strip() for title, body in re.findall(r"^## (.+?)$\n(.*?)(?=^## |\Z)", tables, re.M | re.S)}
    blocks[section] = body
    kept = [f"\n## {title}\n\n{blocks[title]}\n" for title in sorted(blocks)]
    return HEAD + "".join(kept) + f"\n{PROFILES}\n\n{profiles.strip()}\n"


def _printed(section: str) -> tuple[int, str]:
    """A section's exit code and output, shown as it comes."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{section}"]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def _where(section: str) -> str:
    """Command, commit, machine and its load before the section began."""
    asked = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    found = re.search(r"model name\s*: (.*)", _text("/proc/cpuinfo"))
    cpu = " ".join(found[1].split()) if found else platform.machine()
    memory = re.search(r"MemTotal:\s*(\d+)", _text("/proc/meminfo"))
    size = f", {int(memory[1]) / 2**20:.0f} GB" if memory else ""
    when, load = datetime.now(UTC).date(), os.getloadavg()[0]
    machine = f"{os.cpu_count()} x {cpu}{size}, load {load:.1f}"
    return f"`python -m benchmarks.{section}`, commit {commit}, {when}, {machine}"


def _text(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="keep what they print in docs/benchmarks.md")
    options.add_argument("sections", nargs="*")
    chosen = options.parse_args()
    sys.exit(run(chosen.sections, write=chosen.write))
