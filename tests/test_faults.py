"""The fault catalogue holds, and is as large as it says."""

import pytest

from tests.faults.__main__ import held_files, held_injections, held_replies


def test_no_file_loses_the_sentence() -> None:
    held = held_files()
    assert len(held) >= 70 and [name for name, well in held.items() if not well] == []


@pytest.mark.slow
async def test_no_reply_ends_safe() -> None:
    held = await held_replies()
    assert len(held) >= 65 and all(held.values())


@pytest.mark.slow
async def test_no_injection_is_committed_safe() -> None:
    held = await held_injections()
    assert len(held) >= 110 and [name for name, well in held.items() if not well] == []
