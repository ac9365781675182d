"""`make bench`: every section, or those named: ``python -m benchmarks [section ...]``.

A section is a module of this package that tells figures; each runs in a process of its own with its defaults, or with
options of its own (``python -m benchmarks "inbox --sizes 1000000"``). docs/benchmarks.md has the ratios worth
remembering.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
SECTIONS = sorted(
    path.stem
    for path in HERE.glob("*.py")
    if re.search(r"^from benchmarks\.figures import .*tell", path.read_text(), re.M)
)


def run(asked: Sequence[str]) -> int:
    """Run the sections one after the other, each with its own options; how many failed."""
    wanted = [each.split() for each in asked] or [[section] for section in SECTIONS]
    if unknown := {section for section, *_ in wanted} - set(SECTIONS):
        print(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles its libraries anew: Pandas takes 1 s
    failed = 0
    print(f"{os.cpu_count()} x {platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f}")
    for section, *options in wanted:
        print(f"\n== {section}", flush=True)
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{section}", *options]
        failed += subprocess.run(command, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sections", nargs="*", help='a name, or a name with its options: "idle --seconds 10"')
    sys.exit(run(options.parse_args().sections))
