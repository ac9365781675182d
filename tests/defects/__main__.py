"""Put each defect of `table.toml` back, one at a time, and see a test fail: ``python -m tests.defects [--again]``.

The tree is copied; in the copy the text `old` becomes `new`, the tests beside it are run on SQLite, and the text is put
back. What was caught is not tried again while neither its file nor its tests have changed. Ends with 1 where a defect
was caught by no test.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from storage.database import Database
from tests.databases import TEMPLATE

ROOT = Path(__file__).parents[2]
DEFECTS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))["defect"]
KEPT = ROOT / "test-results" / "defects.json"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "var", "test-results", "*.egg-info", "images")
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not slow and not postgresql", "--no-header"]
PROGRAM = ("screening", "storage", "jobs", "api", "pages", "commands")
FAILED, NOT_COLLECTED = 1, 2


def places_of(defect: dict[str, Any], tree: Path = ROOT) -> list[Path]:
    """The files of the program that hold the text, as often as they hold it."""
    files = [path for part in PROGRAM for kind in ("*.py", "*.toml") for path in sorted((tree / part).rglob(kind))]
    return [path for path in files for _ in range(path.read_text(encoding="utf-8").count(defect["old"]))]


def files_of(defect: dict[str, Any], tree: Path = ROOT) -> list[str]:
    """What pytest is given: the files of these names, wherever they are, and the options after them."""
    given = []
    for word in defect["tests"]:
        given += [str(path) for path in (tree / "tests").rglob(word)] if word.endswith(".py") else [word]
    return given


def _state(defect: dict[str, Any], place: Path) -> str:
    """A hash of the defect, its file and its tests."""
    whole = hashlib.sha256(json.dumps(defect, sort_keys=True).encode() + place.read_bytes())
    for path in files_of(defect):
        read = [Path(path), *Path(path).parent.glob("*.toml")] if path.endswith(".py") else []
        whole.update(b"".join(each.read_bytes() for each in read) or path.encode())
    return whole.hexdigest()


def _is_caught(defect: dict[str, Any], copy: Path) -> bool:
    (file,) = places_of(defect, copy)
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(defect["old"], defect["new"]), encoding="utf-8")
    try:
        command = [*PYTEST, *files_of(defect, copy)]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300, check=False)
    finally:
        file.write_text(whole, encoding="utf-8")
    if done.returncode not in (0, FAILED, NOT_COLLECTED):
        raise SystemExit(f"{defect['name']}: its tests cannot be run\n{done.stdout[-2000:]}")
    return done.returncode == FAILED


def main(arguments: list[str]) -> int:
    kept = json.loads(KEPT.read_text()) if KEPT.exists() and "--again" not in arguments else {}
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
        os.environ[TEMPLATE] = str(Path(folder) / "empty.db")
        database = Database(f"sqlite:///{os.environ[TEMPLATE]}")
        database.prepare()
        database.close()
        for defect in DEFECTS:
            (place,) = places_of(defect)
            state = _state(defect, place)
            caught = kept.get(defect["name"]) == state or _is_caught(defect, copy)
            print("caught    " if caught else "NOT CAUGHT", defect["name"], flush=True)
            if caught:
                kept[defect["name"]] = state
                KEPT.parent.mkdir(exist_ok=True)
                KEPT.write_text(json.dumps(kept, indent=1))
            else:
                missed.append(defect["name"])
    print(f"{len(DEFECTS) - len(missed)} of {len(DEFECTS)} caught")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
