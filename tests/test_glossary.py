"""The glossary has each term once."""

from pathlib import Path

GLOSSARY = Path(__file__).parent.parent / "docs" / "glossary.md"


def test_each_term_stands_once() -> None:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    terms = [term.strip() for row in rows[1:] for term in row[0].split(",")]
    assert len(terms) >= 25 and len(set(terms)) == len(terms)
