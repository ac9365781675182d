"""Imports point down, each outside library has its place, and modules stay small."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (  # from the bottom; a module may import from its own layer and from those below
    ("screening.labels",),
    ("screening.rules", "screening.bounds", "screening.metrics", "screening.agreement", "screening.verification",
     "screening.label_noise", "screening.regret"),
    ("screening.draws",
        "screening.guard", "screening.pipeline", "screening.screen", "screening.text", "screening.conditions",
     "screening.replay", "screening.answers", "screening.cost", "screening.export", "screening.prompting",
     "screening.prompts", "screening"),
    ("screening.samplers", "screening.datasets", "screening.settings"),
    ("storage",),
    ("jobs",),
    ("screening.__main__", "screening.commands", "pages", "app", "worker", "serve"),
)  # fmt: skip
PLACES = {
    "streamlit": ("app", "pages"),
    "sqlalchemy": ("storage",),
    "alembic": ("storage",),
    "anthropic": ("screening.samplers.anthropic",),
    "procrastinate": ("jobs.procrastinate",),
}
LARGEST_MODULE = 250


def _modules() -> dict[str, Path]:
    files = [path for folder in ("screening", "storage", "jobs", "pages") for path in (ROOT / folder).rglob("*.py")]
    files += [ROOT / name for name in ("app.py", "worker.py", "serve.py") if (ROOT / name).exists()]
    names = {}
    for path in files:
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def _imports(path: Path) -> list[str]:
    found: list[str] = []
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            found += [alias.name for alias in item.names]
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path}: relative import"
            found += [f"{item.module}.{alias.name}" for alias in item.names]
    return found


def _layer(name: str) -> int:
    fits = [
        (len(prefix), level)
        for level, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if name == prefix or name.startswith(prefix + ".")
    ]
    assert fits, f"{name} has no place in the layers: name it in LAYERS and in docs/architecture.md"
    return max(fits)[1]


MODULES = _modules()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_down(name: str) -> None:
    ours = [
        target
        for target in _imports(MODULES[name])
        if target.split(".")[0] in {"screening", "storage", "jobs", "pages"}
    ]
    upward = [target for target in ours if _layer(target) > _layer(name)]
    assert not upward, f"{name} imports upwards: {upward}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_each_library_has_its_place(name: str) -> None:
    for target in _imports(MODULES[name]):
        for place in [PLACES[target.split(".")[0]]] if target.split(".")[0] in PLACES else []:
            assert name.startswith(place), f"{name} imports {target}"


@pytest.mark.parametrize("name", sorted(name for name in MODULES if name.startswith("screening.rules")))
def test_rules_do_no_input_or_output(name: str) -> None:
    allowed = {
        "screening",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "math",
        "typing",
        "numpy",
        "scipy",
        "itertools",
    }
    assert {target.split(".")[0] for target in _imports(MODULES[name])} <= allowed


def test_nobody_imports_a_page() -> None:
    pages = {name for name in MODULES if name.startswith("pages.") and not name.startswith("pages.components")}
    for name, path in MODULES.items():
        imported = [target for target in _imports(path) if target in pages or target.rpartition(".")[0] in pages]
        assert not imported or name in {"app", "pages.shell"}, f"{name} imports {imported}"


@pytest.mark.parametrize("name", sorted(name for name in MODULES if "migrations.versions" not in name))
def test_modules_stay_small(name: str) -> None:
    lines = MODULES[name].read_text(encoding="utf-8").count("\n")
    assert lines <= (150 if name.startswith("pages.") and "components" not in name else LARGEST_MODULE)


def test_no_path_or_host_of_a_machine_is_committed() -> None:
    words = ["pypi" + ".org", "python" + "hosted", "/wo" + "rk/", "npm" + "js.org", "deb" + "ian.org"]
    pattern = "|".join(word.replace(".", r"\.") for word in words)
    listed = subprocess.run(["git", "grep", "-lE", pattern], cwd=ROOT, capture_output=True, text=True, check=False)
    assert listed.stdout == ""
