"""The files of the fault catalogue hold; replies and injections have tests of their own (`make faults` tries all)."""

from tests.faults.__main__ import held_files


def test_no_file_loses_the_sentence() -> None:
    held = held_files()
    assert len(held) >= 70 and [name for name, well in held.items() if not well] == []
