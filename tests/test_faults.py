"""The files of the fault catalogue hold. Its replies are held by `tests/models/test_replies.py`, its injections by
`tests/injection/test_injection.py`; `make faults` tries them all through the real library.
"""

from tests.faults.__main__ import held_files


def test_no_file_loses_the_sentence() -> None:
    held = held_files()
    assert len(held) >= 70 and [name for name, well in held.items() if not well] == []
