"""`make bench`: every section, or those named: ``python -m benchmarks [section ...]``.

A section is a module of this package with a ``main()``; each runs in a process of its own with its defaults.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SECTIONS = sorted(
    path.stem for path in HERE.glob("*.py") if "\ndef main(" in path.read_text() and not path.stem.startswith("_")
)


def run(sections: list[str]) -> int:
    """Run the sections one after the other; how many failed."""
    if unknown := set(sections) - set(SECTIONS):
        print(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    failed = 0
    for section in sections or SECTIONS:
        print(f"\n== {section}", flush=True)
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{section}"]
        failed += subprocess.run(command, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
