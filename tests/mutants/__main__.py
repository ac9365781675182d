"""Change the code that decides, one small change at a time: ``python -m tests.mutants`` says how many a test notices.

Each module is changed in a copy of the tree and only the tests named beside it are run, without slow ones and without
PostgreSQL. Names of modules as arguments choose some: ``screening/stopping/theory.py``; ``--sample 150`` tries so
many of each, always the same. A change that seems to live is written into the module and tried once more in a process
of its own: mutmut chooses it after the module was read, and asks only the tests that it saw come by. Ends with 1 where
fewer than `LEAST` of a module's changes are noticed.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

import libcst

from tests.databases import TEMPLATE

ROOT = Path(__file__).parents[2]
LEAST = 0.9
PLAIN = "_plain"
"""What a decorated function is called by itself."""
NOT_DECORATED = ("staticmethod", "classmethod")
"""Decorators that mutmut can do with."""
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "mutants", "var", "test-results", "*.egg-info")
PYTEST = ["-x", "-n0", "-m", "not slow and not postgresql", "-k"]
AT_FIRST, IN_THE_END = "not mutmut and not nothing_served", "not mutmut"
"""Which tests are asked: those that compare whole worlds take long, and only what seems to live is shown to them."""
FAILED, NOT_COLLECTED = 1, 2
"""What pytest ends with where a test fails, and where a module cannot be read."""
TABLE = tomllib.loads(Path(__file__).with_name("modules.toml").read_text("utf-8"))
MODULES: dict[str, list[str]] = {module: one["tests"] for module, one in TABLE.items()}
DECIDING: dict[str, list[str]] = {module: one["functions"] for module, one in TABLE.items() if "functions" in one}


def noticed(module: str, folder: Path, sample: int | None = None) -> float:
    """The share of changes to this module that its tests notice; prints each of the others."""
    copy = folder / "tree"
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    shutil.copytree(ROOT / ".streamlit", copy / ".streamlit")
    (copy / module).write_text(undecorated((ROOT / module).read_text()))
    (copy / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + _settings(module, copy))
    if module.startswith("storage/"):
        os.environ[TEMPLATE] = str(folder / "template.db")
        _python(copy, "-c", _MIGRATE, f"sqlite:///{folder / 'template.db'}")
    names = _changed_functions(module)
    if sample is not None:
        names = _sample(copy, names, sample)
    _mutmut(copy, "run", "--max-children", "1", *names)
    tried = _results(copy, names)
    left = _changes(copy, [name for name, found in tried.items() if found not in ("killed", "timeout")])
    if left and _fails(copy, module):
        raise SystemExit(f"{module}: its tests fail without any change")
    for name, change in left.copy().items():
        if _drops_a_guard_alone(change):
            del left[name], tried[name]
        elif _is_noticed_from_the_start(copy, module, name):
            del left[name]
        else:
            print(change)
    of_all = " in a sample" if sample is not None else ""
    print(f"{module}: {len(tried) - len(left)} of {len(tried)} changes{of_all} are noticed", flush=True)
    return 1 - len(left) / len(tried) if tried else 0.0


def _changed_functions(module: str) -> list[str]:
    """mutmut's names for all changes to the functions that decide; none where every function does."""
    place = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [f"{place}.x_{name}{plain}__mutmut_*" for name in DECIDING.get(module, []) for plain in ("", PLAIN)]


def _results(copy: Path, names: list[str]) -> dict[str, str]:
    found = dict(line.strip().rsplit(": ", 1) for line in _mutmut(copy, "results", "--all", "1").splitlines())
    return {name: end for name, end in found.items() if not names or any(fnmatchcase(name, one) for one in names)}


def _sample(copy: Path, names: list[str], size: int) -> list[str]:
    """So many of the changes, the same at every run: mutmut writes all of them down and then is asked for some."""
    write = (
        "from mutmut.__main__ import *; config(); set_mutant_under_test('mutant_generation'); makedirs('mutants');"
        "copy_src_dir(); copy_also_copy_files(); setup_source_paths(); create_mutants(1)"
    )
    _python(copy, "-c", write)
    written = sorted(_results(copy, names))
    return sorted(random.Random(0).sample(written, min(size, len(written))))


def _is_noticed_from_the_start(copy: Path, module: str, name: str) -> bool:
    """Whether the tests fail where the module holds this change alone, when it is read already."""
    untouched = (copy / module).read_text()
    apply = "import sys; from mutmut.mutation.diff_apply import apply_mutant; apply_mutant(sys.argv[1])"
    _python(copy, "-c", apply, name)
    try:
        return _fails(copy, module)
    finally:
        (copy / module).write_text(untouched)


def _fails(copy: Path, module: str) -> bool:
    tests = [*PYTEST, IN_THE_END, "-q", "-p", "no:cacheprovider", module, *MODULES[module]]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *tests], cwd=copy, stdout=subprocess.DEVNULL, timeout=300
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode in (FAILED, NOT_COLLECTED)


_MIGRATE = (
    "import sys; from storage.database import Database; made = Database(sys.argv[1]); made.prepare(); made.close()"
)


def _changes(copy: Path, names: list[str]) -> dict[str, str]:
    """What each of these changes, all in one process: to start it takes longer than to show them."""
    show = (
        "import sys; from mutmut.__main__ import show; [(show.callback(name), print(chr(30))) for name in sys.argv[1:]]"
    )
    shown = _python(copy, "-c", show, *names) if names else ""
    return dict(zip(names, shown.split("\x1e\n"), strict=False))


def undecorated(source: str) -> str:
    """The same program with each decorator written as a call, since mutmut leaves decorated functions alone."""
    return libcst.parse_module(source).visit(_Undecorated()).code


class _Undecorated(libcst.CSTTransformer):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def leave_FunctionDef(
        self, original_node: libcst.FunctionDef, updated_node: libcst.FunctionDef
    ) -> libcst.BaseStatement | libcst.FlattenSentinel[libcst.BaseStatement]:
        around = [each.decorator for each in updated_node.decorators]
        named = [getattr(each, "value", "") for each in around]
        if not around or "abstractmethod" in named or (len(around) == 1 and named[0] in NOT_DECORATED):
            return updated_node
        name = updated_node.name.value
        plain = next(one for n in count() if (one := f"{name}{PLAIN}{n or ''}") not in self.names)
        self.names.add(plain)
        value: libcst.BaseExpression = libcst.Name(plain)
        for decorator in reversed(around):
            value = libcst.Call(decorator, [libcst.Arg(value)])
        called = libcst.Assign([libcst.AssignTarget(libcst.Name(name))], value)
        function = updated_node.with_changes(name=libcst.Name(plain), decorators=[])
        return libcst.FlattenSentinel([function, libcst.SimpleStatementLine([called])])


def _drops_a_guard_alone(change: str) -> bool:
    """Whether no more than ``strict=`` of a `zip` is changed, which guards a promise that holds: lengths are equal."""
    lines = [line[1:] for line in change.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return len({re.sub(r",\s*(strict=(True|False|None))?\)", ")", line) for line in lines}) == 1


def _settings(module: str, copy: Path) -> str:
    beside = sorted(each.name for each in copy.iterdir() if each.name not in ("screening", "storage", "tests"))
    chosen = {
        "source_paths": ["screening", "storage"],
        "only_mutate": [module],
        "do_not_mutate_patterns": [r"^\s*raise ", r'^\s*f?"[^"]*"$'],  # the words of an error decide nothing
        "also_copy": beside,
        "timeout_multiplier": 3.0,
        "timeout_constant": 10.0,
        "process_isolation": "forkserver",  # no process begins with what an earlier test left in a cache
        "pytest_add_cli_args": [*PYTEST, AT_FIRST],
        "pytest_add_cli_args_test_selection": [module, *MODULES[module]],  # the module: its doctests
    }
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items())


def _mutmut(copy: Path, *arguments: str) -> str:
    return _python(copy, "-m", "mutmut", *arguments)


def _python(copy: Path, *arguments: str) -> str:
    """What it says. It may leave a process of its own behind that hangs (a change can make one): that is ended."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as wrong:
        started = subprocess.Popen(
            [sys.executable, *arguments], cwd=copy, stdout=said, stderr=wrong, start_new_session=True
        )
        code = started.wait()
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        said.seek(0), wrong.seek(0)
        if code:
            raise SystemExit(said.read()[-3000:] + wrong.read()[-3000:])
        return said.read()


def chosen(arguments: list[str]) -> tuple[list[str], int | None]:
    """The modules that these arguments name, or all, and how many changes of each to try (None: all of them)."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Change the code that decides, one small change at a time, and print what no test notices.",
        epilog="Modules: " + ", ".join(MODULES),
    )
    parser.add_argument("modules", nargs="*", metavar="module", help="a path from the list below; without one, all")
    parser.add_argument("--sample", type=int, metavar="N", help="try N changes of each module, drawn with a fixed seed")
    found = parser.parse_args(arguments)
    if unknown := [module for module in found.modules if module not in MODULES]:
        parser.error(f"no tests are named for {', '.join(unknown)}: --help lists the modules that can be tried")
    return found.modules or list(MODULES), found.sample


def main(arguments: list[str]) -> int:
    """Run these modules, or all; 1 where one of them has too few changes noticed."""
    modules, sample = chosen(arguments)
    os.nice(5)
    shares = []
    for module in modules:
        with tempfile.TemporaryDirectory() as folder:
            shares.append(noticed(module, Path(folder), sample))
    return int(any(share < LEAST for share in shares))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
