"""What README.md tells a reader to type or to open is there and does what it says."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.__main__ import main
from screening.settings import Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = ".venv/bin/python"
OF_OTHERS = {"PORT", "PYTHON", "POSTGRES_PASSWORD", "HTTPS_PROXY"}
"""Variables that serve.py, make and compose.yaml read; all others are the settings'."""
OUTCOMES = '{"id": "1", "reference": "safe", "outcome": "safe"}\n'


def _lines() -> Iterator[str]:
    """The lines of the shell blocks, without comments."""
    for block in re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", README, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            told = re.sub(r"(^|\s)#.*$", "", line).strip()
            if told:
                yield told


def _inline() -> list[str]:
    """What stands between single backticks outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE))


def _words(line: str) -> list[str]:
    return shlex.split(line.removeprefix("$ "))


def _command(line: str) -> list[str]:
    """The words after settings made for one command (``PORT=8600 make run``)."""
    words = _words(line)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return words


COMMANDS = [line for line in _lines() if _command(line)]
OF_SCREENING = [line for line in COMMANDS if _command(line)[:3] == [PYTHON, "-m", "screening"]]
OF_MAKE = sorted({line for line in [*COMMANDS, *_inline()] if re.search(r"(?:^|\s)make [a-z]", line)})


def test_the_readme_has_commands_to_check() -> None:
    assert len(OF_SCREENING) >= 1 and len(OF_MAKE) >= 2


@pytest.mark.parametrize("line", COMMANDS)
def test_every_line_is_of_a_kind_that_is_checked_here(line: str) -> None:
    """A new kind of line has to be given its check, so that none goes unchecked."""
    words = _command(line)
    if words[0] == PYTHON:
        assert words[1] == "-m" or (ROOT / words[1]).is_file()
        if words[1] == "-m":
            module = ROOT.joinpath(*words[2].split("."))
            assert (module / "__main__.py").is_file() or module.with_suffix(".py").is_file()
    else:
        assert words[0] in {"make", "export", "git", "cd", "docker"}
    for word in words:
        if re.match(r"(?:data|docs|screening|benchmarks|tests|pages)/", word):
            assert (ROOT / word).exists(), word


@pytest.mark.parametrize("line", OF_SCREENING)
def test_commands_of_the_program_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of their own, on the sample, with simulated agents and a database of their own."""
    for name in [name for name in os.environ if name.startswith(("SECOND_LOOK_", "ANTHROPIC_", "DATABASE_URL"))]:
        monkeypatch.delenv(name)
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    arguments = _command(line)[3:]
    if arguments[0] == "metrics":  # of what the first command made
        Path("results.jsonl").write_text(OUTCOMES, encoding="utf-8")
    if arguments[0] == "evaluate" or {"URL", "FILE", "BATCH"} & set(arguments):
        with pytest.raises(SystemExit) as ended:  # long, or with a place for the reader's own value: that it is there
            main([arguments[0], "--help"])
        assert ended.value.code == 0
    else:
        assert main(arguments) == 0


@pytest.mark.parametrize("line", OF_MAKE)
def test_make_knows_its_targets(line: str) -> None:
    assignments = [word for word in _words(line) if re.match(r"[A-Z_]+=", word)]
    targets = re.findall(r"\bmake ([a-z][a-z-]*)", line)
    fixed = [*assignments, f"PYTHON={sys.executable}", "FROM=backup.zip"]
    done = subprocess.run(["make", "-n", *targets, *fixed], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_setting_named_exists() -> None:
    known = {f"SECOND_LOOK_{name.upper()}" for name in Settings.model_fields}
    known |= {str(field.validation_alias) for field in Settings.model_fields.values() if field.validation_alias}
    named = set(re.findall(r"\bSECOND_LOOK_[A-Z_]*[A-Z]\b", README))
    for line in COMMANDS:
        named |= {word.partition("=")[0] for word in _words(line) if re.match(r"[A-Z_]+=", word)}
    assert named and named <= known | OF_OTHERS, named - known - OF_OTHERS


def test_the_model_named_is_the_default() -> None:
    for named in re.findall(r"SECOND_LOOK_MODEL=(\S+)", README):
        assert named == Settings.model_fields["model"].default


def test_links_and_images_lead_somewhere() -> None:
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", README)]
    missing = [target for target in targets if target and "://" not in target and not (ROOT / target).exists()]
    assert not missing


def test_files_named_exist() -> None:
    made = {"results.rejected.csv", "results.jsonl", ".env"}  # by the reader, or for them
    folders = r"(?:data|docs|screening|storage|jobs|pages|tests|benchmarks)/\S*"
    named = [word for word in _inline() if re.fullmatch(rf"{folders}|[\w.-]+\.(?:py|md|yaml|toml|csv|txt)", word)]
    missing = [word for word in named if word not in made and not (ROOT / word).exists()]
    assert named and not missing


def test_headings_linked_to_exist() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings
