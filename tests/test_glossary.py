"""The glossary has each term once, and pages do not fall back into words that reviewers did not understand."""

from pathlib import Path

GLOSSARY = Path(__file__).parent.parent / "docs" / "glossary.md"


def test_each_term_stands_once() -> None:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    terms = [term.strip() for row in rows[1:] for term in row[0].split(",")]
    assert len(terms) >= 25 and len(set(terms)) == len(terms)


REPLACED = (
    "Labelled safe", "Labelled unsafe", "To a clinician", "Missed at worst", "Missed (FNR)", "False alarms (FPR)",
    "With adjudications", "Draws suggest", "ln evidence", "Label issue", "Contradiction by the draws",
    "Send for a second look", "Worth a second look", "Label withdrawn", "What to see:", "beaten by no other",
    "Reviewers err", "Switch rate", "Wrong commits", "reading due", "Keep this remark", "The most like it in this list",
    "To say: miss rate", "Fix this plan", "Day of one look", "this batch, as it ran", "π of the plan",
)  # fmt: skip


def test_no_page_says_what_was_replaced() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in (GLOSSARY.parent.parent / "pages").rglob("*.py")}
    assert not [(path.name, words) for path, text in pages.items() for words in REPLACED if words in text]
