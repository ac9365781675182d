"""Subject × layer: every module has a named room, imports point down, each outside library has its place."""

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (  # from the bottom; a module may import from its own room and from those in the rows before
    ("screening.__version__", "screening.labels", "screening.words"),
    ("screening.stopping",),
    (  # the arithmetic of evaluation knows no pipeline, model or file
        "screening.text",
        *(f"screening.evaluation.{name}" for name in ("agreement", "label_errors", "metrics")),
    ),
    ("screening.evaluation.monitoring",),
    ("screening.evaluation.audit", "screening.evaluation.paired"),
    ("screening.evaluation.estimates",),
    ("screening.pipeline", "screening.settings"),
    ("screening.models", "screening.datasets", "screening.review"),
    ("screening.evaluation",),
    ("storage.schema", "storage.clock"),
    ("storage.migrations",),
    ("storage.database",),
    ("storage.audit_log",),
    ("storage.settings_store", "storage.visibility"),
    ("storage.batches.counts",),
    ("storage.site",),
    ("storage.batches",),
    ("storage.review",),
    ("storage.research",),
    ("jobs",),
    ("pages.ui", "api"),
    ("pages.batches", "pages.site"),
    ("pages.review", "pages.research"),
    ("pages",),
    ("commands", "app", "worker", "serve"),
)
PACKAGES = {"screening", "storage"}  # their own files are rooms by themselves and named in LAYERS
ABOVE = {"screening.__main__": "commands"}  # `python -m screening` starts the command line
PLACES = {
    "streamlit": ("app", "pages"),
    "sqlalchemy": ("storage",),
    "alembic": ("storage",),
    "anthropic": ("screening.models.anthropic", "screening.models.batches"),
    "procrastinate": ("jobs.procrastinate",),
}
PURE = tuple(
    f"screening.{room}" for room in ("labels", "words", "stopping", "evaluation", "text", "pipeline", "review")
)
OUTSIDE_WORLD = {
    "asyncio.subprocess", "http", "httpx", "io", "logging", "os", "pathlib", "random", "requests", "shutil", "socket",
    "sqlite3", "subprocess", "tempfile", "time", "urllib",
}  # fmt: skip
ALLOWED = {  # files that come with the program, and what an experiment reads and writes
    "screening.evaluation.tables": {"pathlib"},
    "screening.evaluation.recording": {"pathlib"},
    "screening.evaluation.imported_answers": {"pathlib"},
    "screening.evaluation.public_datasets": {"pathlib"},
    "screening.pipeline.files": {"pathlib"},
    "screening.text.lexicon": {"pathlib"},
    "screening.text.language": {"pathlib"},
}


def _modules() -> dict[str, Path]:
    files = [
        path
        for folder in ("screening", "storage", "jobs", "pages", "api", "commands")
        for path in (ROOT / folder).rglob("*.py")
    ]
    files += [ROOT / name for name in ("app.py", "worker.py", "serve.py")]
    names = {}
    for path in files:
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def _imports(path: Path) -> tuple[str, ...]:
    found: list[str] = []
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            found += [alias.name for alias in item.names]
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path}: relative import"
            found += [f"{item.module}.{alias.name}" for alias in item.names]
    return tuple(found)


def _in(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def _room(name: str) -> tuple[int, str]:
    """The row and the room of a module, or of a name in it."""
    fits = [(len(room), row, room) for row, rooms in enumerate(LAYERS) for room in rooms if _in(name, room)]
    assert fits, f"{name} has no place: name its room in LAYERS and in docs/architecture.md"
    return max(fits)[1:]


def _may_import(name: str, target: str) -> bool:
    (row, room), (its_row, its_room) = _room(name), _room(target)
    return its_room == room or its_row < row


MODULES = _modules()
OURS = {"screening", "storage", "jobs", "pages", "api", "commands"}


def test_imports_point_down() -> None:
    backward = [
        f"{name} imports {target}"
        for name in sorted(set(MODULES) - PACKAGES - set(ABOVE))
        for target in _imports(MODULES[name])
        if target.split(".")[0] in OURS and not _may_import(name, target)
    ]
    assert not backward


def test_a_module_beside_the_rooms_has_no_place() -> None:
    for stranger in ("screening.helpers", "storage.more", "elsewhere"):
        with pytest.raises(AssertionError, match="has no place"):
            _room(stranger)


def test_what_is_above_a_package_is_imported_by_its_door_alone() -> None:
    for door, above in ABOVE.items():
        assert MODULES[door].read_text(encoding="utf-8").count("\n") <= 6
        assert all(target.split(".")[0] == above for target in _imports(MODULES[door]))


def test_each_library_has_its_place() -> None:
    misplaced = [
        f"{name} imports {target}"
        for name, path in MODULES.items()
        for target in _imports(path)
        if (places := PLACES.get(target.split(".")[0])) and not name.startswith(places)
    ]
    assert not misplaced


def _private_names(text: str) -> list[str]:
    """Private names of libraries that this source imports, reads or sets: what has one underscore in front."""
    tree = ast.parse(text)
    theirs, found = set[str](), list[str]()
    for item in ast.walk(tree):
        if isinstance(item, ast.Import):
            theirs |= {(alias.asname or alias.name).split(".")[0] for alias in item.names} - OURS
            names = [alias.name for alias in item.names]
        elif isinstance(item, ast.ImportFrom):
            names = [f"{item.module}.{alias.name}" for alias in item.names]
            if item.module and item.module.split(".")[0] not in OURS:
                theirs |= {alias.asname or alias.name for alias in item.names}
        else:
            continue
        found += [name for name in names if name.split(".")[0] not in OURS and _is_private(name)]
    for item in ast.walk(tree):
        if isinstance(item, ast.Attribute) and _is_private(item.attr):
            owner = ast.unparse(item.value)
            if owner.split(".")[0].split("(")[0] in theirs and (owner, item.attr) != ("os", "_exit"):  # documented
                found.append(f"{owner}.{item.attr}")
        elif isinstance(item, ast.Call) and ast.unparse(item.func) in {"setattr", "getattr", "delattr"}:
            name = item.args[1]
            if isinstance(name, ast.Constant) and _is_private(str(name.value)):
                found.append(str(name.value))
    return found


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def test_no_private_name_of_a_library_is_imported_read_or_set() -> None:
    assert not [
        f"{name}: {found}" for name, path in MODULES.items() for found in _private_names(path.read_text("utf-8"))
    ]
    for bad in (
        "from asyncio import _x",
        "import a._b",
        "import a.b\na.b._c = 1",
        "from a import b\nb()._c",
        "setattr(x, '_y', 1)",
    ):
        assert _private_names(bad), bad
    assert not _private_names("from pages.ui import auth\nfrom a import b\nself._x = b.__doc__")


def test_pure_modules_do_no_input_or_output() -> None:
    for name in sorted(name for name in MODULES if any(_in(name, room) for room in PURE)):
        reached = {word for target in _imports(MODULES[name]) for word in (target.split(".")[0], target)}
        assert not reached & OUTSIDE_WORLD - ALLOWED.get(name, set()), name


def test_no_page_imports_a_command() -> None:
    pages = [name for name in MODULES if _in(name, "pages")]
    assert not [name for name in pages for target in _imports(MODULES[name]) if _in(target, "commands")]


def test_nobody_imports_a_page() -> None:
    pages = {name for name, path in MODULES.items() if path.parent == ROOT / "pages" and path.name != "__init__.py"}
    for name, path in MODULES.items():
        imported = [target for target in _imports(path) if target in pages or target.rpartition(".")[0] in pages]
        assert not imported, f"{name} imports {imported}"


def test_who_acts_and_when_are_one_value() -> None:
    apart = []
    for name, path in MODULES.items():
        for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = (*item.args.args, *item.args.kwonlyargs)
                types = {one.arg: ast.unparse(one.annotation) for one in parameters if one.annotation}
                if "Actor" in types.values() and types.get("now") == "datetime":
                    apart.append(f"{name}.{item.name}")
    assert not apart, "`by: Acting`, please"


def test_no_path_or_host_of_a_machine_is_committed() -> None:
    words = ["pypi" + ".org", "python" + "hosted", "/wo" + "rk/", "npm" + "js.org", "deb" + "ian.org"]
    pattern = "|".join(word.replace(".", r"\.") for word in words)
    listed = subprocess.run(["git", "grep", "-lE", pattern], cwd=ROOT, capture_output=True, text=True, check=False)
    assert listed.stdout == ""
