"""Subject × layer: every module has a named room, imports point down, each outside library has its place."""

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RULES = tomllib.loads(Path(__file__).with_name("architecture.toml").read_text("utf-8"))
LAYERS, PLACES = RULES["layers"], {library: tuple(rooms) for library, rooms in RULES["places"].items()}
PURE, WITH_FILES, OUTSIDE_WORLD = (set(RULES[name]) for name in ("pure", "with_files", "outside_world"))
PACKAGES = {"screening", "storage"}  # their own files are rooms by themselves
ABOVE = {"screening.__main__": "commands"}  # `python -m screening` starts the command line
OURS = ("screening", "storage", "jobs", "pages", "api", "commands")


def _modules() -> dict[str, Path]:
    files = [path for folder in OURS for path in (ROOT / folder).rglob("*.py")]
    files += [ROOT / name for name in ("app.py", "worker.py", "serve.py")]
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in files}
    return {".".join(part[:-1] if part[-1] == "__init__" else part): path for path, part in parts.items()}


MODULES = _modules()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _named(item: ast.AST) -> list[str]:
    """What an import names, with its module."""
    if isinstance(item, ast.Import):
        return [alias.name for alias in item.names]
    if isinstance(item, ast.ImportFrom):
        assert item.level == 0, f"relative import of {item.module}"
        return [f"{item.module}.{alias.name}" for alias in item.names]
    return []


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(name for item in ast.walk(_tree(path)) for name in _named(item))


def _in(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def _room(name: str) -> tuple[int, str]:
    """The row and the room of a module, or of a name in it."""
    fits = [(len(room), row, room) for row, rooms in enumerate(LAYERS) for room in rooms if _in(name, room)]
    assert fits, f"{name} has no place: name its room in architecture.toml and in docs/architecture.md"
    return max(fits)[1:]


def _may_import(name: str, target: str) -> bool:
    (row, room), (its_row, its_room) = _room(name), _room(target)
    return its_room == room or its_row < row


def test_imports_point_down_and_each_library_has_its_place() -> None:
    pages = {name for name, path in MODULES.items() if path.parent == ROOT / "pages" and path.name != "__init__.py"}
    wrong = []
    for name, path in MODULES.items():
        layered = name not in PACKAGES and name not in ABOVE
        for target in _imports(path):
            top = target.split(".")[0]
            backward = layered and top in OURS and not _may_import(name, target)
            misplaced = top in PLACES and not name.startswith(PLACES[top])
            of_a_page = target in pages or target.rpartition(".")[0] in pages
            if backward or misplaced or of_a_page or (_in(name, "pages") and top == "commands"):
                wrong.append(f"{name} imports {target}")
    assert not wrong
    for door, above in ABOVE.items():
        assert MODULES[door].read_text(encoding="utf-8").count("\n") <= 6
        assert all(target.split(".")[0] == above for target in _imports(MODULES[door]))
    for stranger in ("screening.helpers", "storage.more", "elsewhere"):
        with pytest.raises(AssertionError, match="has no place"):
            _room(stranger)


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def _private_names(tree: ast.Module) -> list[str]:
    """Private names of libraries that this source imports, reads or sets: what has one underscore in front."""
    theirs, found = set[str](), list[str]()
    for item in ast.walk(tree):
        foreign = [name for name in _named(item) if name.split(".")[0] not in OURS]
        if foreign and isinstance(item, ast.Import | ast.ImportFrom):
            theirs |= {(alias.asname or alias.name).split(".")[0] for alias in item.names}
        found += filter(_is_private, foreign)
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


def test_no_private_name_of_a_library_is_imported_read_or_set() -> None:
    assert not [f"{name}: {found}" for name, path in MODULES.items() for found in _private_names(_tree(path))]
    for bad in (
        "from asyncio import _x",
        "import a._b",
        "import a.b\na.b._c = 1",
        "from a import b\nb()._c",
        "setattr(x, '_y', 1)",
    ):
        assert _private_names(ast.parse(bad)), bad
    assert not _private_names(ast.parse("from pages.ui import auth\nfrom a import b\nself._x = b.__doc__"))


def test_pure_modules_do_no_input_or_output() -> None:
    for name in (name for name in MODULES if any(_in(name, room) for room in PURE)):
        reached = {word for target in _imports(MODULES[name]) for word in (target.split(".")[0], target)}
        assert not reached & OUTSIDE_WORLD - ({"pathlib"} if name in WITH_FILES else set()), name


def test_who_acts_and_when_are_one_value() -> None:
    apart = []
    for name, path in MODULES.items():
        for item in ast.walk(_tree(path)):
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
