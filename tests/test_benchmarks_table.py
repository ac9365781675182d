"""What a section prints takes its place in docs/benchmarks.md, and what else stands there stays."""

from benchmarks.__main__ import HEAD, PROFILES, TABLE, with_section


def test_a_section_takes_its_place_and_everything_else_stays() -> None:
    before = f"# Old\n\n## b\n\nas it was\n\n{PROFILES}\n\n- kept\n"
    after = with_section(before, "a", "new")
    assert after == f"{HEAD}\n## a\n\nnew\n\n## b\n\nas it was\n\n{PROFILES}\n\n- kept\n"
    assert with_section(after, "a", "newer") == after.replace("new\n\n", "newer\n\n"), "it is replaced"


def test_the_table_can_be_written_into() -> None:
    text = TABLE.read_text()
    assert text.startswith(HEAD) and PROFILES in text
    for title, *_ in (block.split("\n", 1) for block in text.split("\n## ")[1:]):
        assert f"\n## {title}\n" in with_section(text, "inbox", "new"), "a block that stands there is kept"
