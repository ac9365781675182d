"""One word for each thing: no page says what the glossary says never to say."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"


def _rows() -> list[list[str]]:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return rows[1:]


@cache
def _strings(path: Path) -> list[str]:
    """What a page may show: its string literals, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = [item for item in ast.walk(tree) if isinstance(item, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = {id(item.body[0].value) for item in documented if ast.get_docstring(item) and item.body}  # type: ignore[attr-defined]
    found = [item for item in ast.walk(tree) if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return [item.value for item in found if id(item) not in docstrings]  # type: ignore[misc]


def test_each_word_stands_once() -> None:
    words = [word.strip() for row in _rows() for word in row[0].split(",")]
    assert len(words) >= 25 and len(set(words)) == len(words)


@pytest.mark.parametrize("avoided", sorted({word.strip() for row in _rows() for word in row[2].split(",")}))
def test_no_page_says_what_is_never_to_be_said(avoided: str) -> None:
    pattern = re.compile(rf"\b{re.escape(avoided)}s?\b", re.IGNORECASE)
    said = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "pages").rglob("*.py")
        if any(pattern.search(text) for text in _strings(path))
    }
    assert not said


_PARTICIPLE = re.compile(
    r"_*([a-z]+(?<!e)ed|begun|broken|chosen|drawn|found|given|gone|held|hidden|kept|known|laid|left|lost|made|met"
    r"|paid|proven|said|seen|sent|shown|spent|told|written)"
)
_FOLDERS = ("api", "benchmarks", "commands", "jobs", "pages", "screening", "storage")


def _verbs_and_nouns(path: Path) -> set[str]:
    """Names of functions that are no properties and that no framework calls: a decorator may stand for either."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {item.name for item in functions if not item.decorator_list}


def test_no_function_is_named_by_a_participle_alone() -> None:
    """What does something is named by a verb, what returns something by a noun: `recheck`, `unique_labels`."""
    paths = [*ROOT.glob("*.py"), *(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    names = {(name, str(path.relative_to(ROOT))) for path in paths for name in _verbs_and_nouns(path)}
    assert len(names) > 2500
    assert not [each for each in names if _PARTICIPLE.fullmatch(each[0])]
