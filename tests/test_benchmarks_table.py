"""What a section prints takes its place in docs/benchmarks.md, and what else stands there stays."""

from benchmarks.__main__ import HEAD, PROFILES, TABLE, with_section


def test_a_section_takes_its_place_and_everything_else_stays() -> None:
    before = f"# Old\n\n## b\n\nas it was\n\n{PROFILES}\n\n- kept\n"
    after = with_section(before, "a", "new")
    assert after == f"{HEAD}\n## a\n\nnew\n\n## b\n\nas it was\n\n{PROFILES}\n\n- kept\n"
    assert with_section(after, "a", "newer") == after.replace("new\n\n", "newer\n\n"), "it is replaced"


def test_the_table_is_in_the_form_that_is_written() -> None:
    text = TABLE.read_text()
    assert text.startswith(HEAD) and PROFILES in text
    first = text.split("\n## ")[1]
    title, body = first.split("\n", 1)
    assert with_section(text, title, body.strip()) == text
