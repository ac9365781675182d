"""What README.md and docs/ tell a reader to type or to open is there; the hazard log is whole."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.__main__ import SECTIONS, run
from commands.__main__ import main
from screening.settings import Settings
from storage.schema import metadata

ROOT = Path(__file__).parent.parent
WORDS = tomllib.loads(Path(__file__).with_name("documents.toml").read_text("utf-8"))
OF_OTHERS, MADE, PLACES = (set(WORDS[name]) for name in ("of_others", "made", "places"))
FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}
HAZARDS, START = TEXTS["docs/safety/hazard-log.md"], TEXTS["docs/start-here.md"]
OUTCOMES = '{"id": "1", "reference": "safe", "outcome": "safe"}\n'


def _lines(text: str) -> Iterator[str]:
    """The lines of the shell blocks, without comments."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if told := re.sub(r"(^|\s)#.*$", "", line).strip():
                yield told


def _inline(text: str) -> list[str]:
    """What stands between single backticks outside of blocks."""
    return re.findall(r"`([^`]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))


def _words(line: str) -> list[str]:
    """The words of a command, after settings made for it alone (``PORT=8600 make run``)."""
    return shlex.split(re.sub(r"^([A-Z_]+=\S* *)+", "", line))


COMMANDS = sorted({line for text in TEXTS.values() for line in _lines(text) if _words(line)})
SAID = {" ".join(line.split()) for line in (*COMMANDS, *(word for text in TEXTS.values() for word in _inline(text)))}
PYTHON = re.compile(r"^(?:\.venv/bin/)?python -m screening (?=[a-z])")
OF_SCREENING = sorted(line for line in SAID if PYTHON.match(line))
MAKES = " ".join(line for line in SAID if re.match(r"([A-Z_]+=\S+ )*make ", line))
OF_MAKE = set(re.findall(r"\bmake ([a-z][a-z-]*)", MAKES))


def test_the_documents_stay_short_and_every_line_is_of_a_kind_that_is_checked_here() -> None:
    """A new kind of line has to be given its check, so that none goes unchecked."""
    assert TEXTS["README.md"].count("\n") <= 120 and TEXTS["CHANGELOG.md"].count("\n") <= 60
    assert sum(len(text.encode()) for name, text in TEXTS.items() if name.startswith("docs/")) <= 100_000
    assert len(OF_SCREENING) >= 20 and len(OF_MAKE) >= 8
    for words in map(_words, COMMANDS):
        assert words[0] in {".venv/bin/python", "make", "export", "docker", "curl"}, words
        if words[0] == ".venv/bin/python" and words[1] != "-m":
            assert (ROOT / words[1]).is_file(), words
        elif words[0] == ".venv/bin/python" and words[2] != "pytest":
            module = ROOT.joinpath(*words[2].split("."))
            assert (module / "__main__.py").is_file() or module.with_suffix(".py").is_file(), words
        named = [word for word in words if re.match(r"(?:data|docs|screening|benchmarks|tests|pages)/", word)]
        assert all((ROOT / word).exists() for word in named), named


@pytest.mark.parametrize("line", OF_SCREENING)
def test_commands_of_the_program_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the sample, with simulated agents and a database of their own; one that needs a value of the reviewer's own, a
    service or a running server knows at least each option named.
    """
    for name in [name for name in os.environ if name.startswith(("SECOND_LOOK_", "ANTHROPIC_", "DATABASE_URL"))]:
        monkeypatch.delenv(name)
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(PYTHON.sub("", line).replace("…", "").partition(" > ")[0])
    arguments = [word.partition("|")[0] for word in words]
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    Path("results.jsonl").write_text(OUTCOMES, encoding="utf-8")  # of what another command made
    runs = arguments[0] in {"rule", "metrics"} or (arguments[0] == "screen" and "data/sample.csv" in line)
    if runs and not PLACES & set(arguments) and not {"--overnight", "--against"} & options and len(arguments) > 1:
        assert main(arguments) == 0
        return
    actions = [one for one in arguments[1:] if re.fullmatch(r"[a-z][a-z-]*", one)][:1]
    for asked in ([arguments[0], "--help"], [arguments[0], *actions, "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(asked)
        assert ended.value.code == 0 or asked[1:-1]
    told = capsys.readouterr().out
    assert {option for option in options if not re.search(rf"{option}\b", told)} <= {"--help"}


def test_make_knows_its_targets() -> None:
    asked = ["make", "-n", *sorted(OF_MAKE), f"PYTHON={sys.executable}", "FROM=backup.db"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_setting_named_exists() -> None:
    known = {f"SECOND_LOOK_{name.upper()}" for name in Settings.model_fields}
    known |= {str(field.validation_alias) for field in Settings.model_fields.values() if field.validation_alias}
    everything = "\n".join(TEXTS.values())
    named = set(re.findall(r"\bSECOND_LOOK_(?!TEST_)[A-Z_]*[A-Z]\b(?!_)", everything))
    named |= {name for line in _lines(everything) for name in re.findall(r"(?:^|\s)([A-Z_]+)=", line)}
    assert named and named <= known | OF_OTHERS, named - known - OF_OTHERS
    models = re.findall(r"SECOND_LOOK_MODEL=(\S+)", TEXTS["README.md"])
    assert {*models} <= {Settings.model_fields["model"].default}


FOLDERS, SUFFIXES = ("|".join(WORDS[name]) for name in ("folders", "suffixes"))
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
CODE = "\n".join((ROOT / path).read_text("utf-8") for path in TRACKED if path.endswith((".py", ".toml")))


@pytest.mark.parametrize("name", TEXTS)
def test_links_files_headings_and_names_stand_where_they_are_said_to(name: str) -> None:
    text, here, known = TEXTS[name], (ROOT / name).parent, "\n".join(f"/{path}" for path in TRACKED) + "\n"
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [one for one in targets if one and "://" not in one and not (here / one).exists()] == []
    file = re.compile(rf"(?:{FOLDERS})/[\w./-]*\w|[\w./-]+\.(?:{SUFFIXES})")
    files = {word for word in _inline(text) if file.fullmatch(word)} - MADE
    assert [word for word in files if not re.search(rf"/{re.escape(word)}[/\n]", known)] == []
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    headings = {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings
    if name in ("README.md", "docs/start-here.md", "docs/architecture.md", "docs/paper.md"):
        words = [re.sub(r"\(.*", "", word).split(".")[-1] for word in _inline(text) if re.match(r"[A-Za-z_]", word)]
        named = [word for word in words if re.fullmatch(r"[a-z]+_\w+|[A-Z][a-z]+[A-Z]\w+|[A-Z_]{4,}", word)]
        assert [word for word in named if not re.search(rf"\b{word}", CODE)] == []


def _missing(named: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of file and function those that are not there."""
    found = {path: (ROOT / path).read_text("utf-8") if (ROOT / path).exists() else "" for path, _ in named}
    there = {path: set(re.findall(r"^\s*(?:async )?def (\w+)", text, re.MULTILINE)) for path, text in found.items()}
    return [(path, name) for path, name in named if name not in there[path]]


def test_functions_modules_and_tables_that_are_named_exist() -> None:
    ten = re.findall(r"\| `(\w+)` in `([\w/]+\.py)`", START)
    assert len(ten) == 10 and _missing([(path, name) for name, path in ten]) == []
    for folder in ("commands", "jobs"):
        (row,) = re.findall(rf"^\| `{folder}/`[^|]*\|(.+)\|$", TEXTS["docs/architecture.md"], re.MULTILINE)
        modules = re.findall(r"[a-z_]+", row)
        assert modules and [name for name in modules if not (ROOT / folder / f"{name}.py").exists()] == []
    (picture,) = re.findall(r"```mermaid\n(.*?)```", START, re.DOTALL)
    drawn = re.findall(r"\b([a-z]+_?[a-z]+s)\b(?= [|}])|(?<=\S{2} )([a-z]+_?[a-z]+s)(?= :)", picture)
    assert {name for pair in drawn for name in pair if name} <= set(metadata.tables)


def test_every_hazard_is_rated_and_each_control_names_a_test_that_exists() -> None:
    named = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
    assert _missing(named.findall(HAZARDS)) == []
    hazards = re.split(r"^## H(?=\d+\.)", HAZARDS, flags=re.MULTILINE)[1:]
    assert [int(hazard.partition(".")[0]) for hazard in hazards] == list(range(1, len(hazards) + 1))
    for hazard in hazards:
        controls = [line for line in hazard.splitlines() if line.startswith("- ")]
        assert re.search(r"^Severity [1-5], likelihood [1-5]\.", hazard, re.MULTILINE) and controls, hazard[:60]
        assert all(named.search(line) for line in controls), hazard[:60]


def test_the_benchmark_of_the_results_table_still_knows_the_tables() -> None:
    assert {"idle", "inbox", "inbox_keys", "results_table", "screening", "start"} <= set(SECTIONS), "all with an aim"
    assert run(["results_table --rows 120"]) == 0


def test_each_term_of_the_glossary_stands_once() -> None:
    rows = [line for line in TEXTS["docs/glossary.md"].splitlines() if line.startswith("| ")]
    terms = [term.strip() for row in rows[1:] for term in row.strip("|").split("|")[0].split(",")]
    assert len(terms) >= 25 and len(set(terms)) == len(terms)
