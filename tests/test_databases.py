"""The list of what runs on both databases names modules and tests that exist: a name that is gone would say nothing."""

import re
from pathlib import Path

from tests.databases import ON_BOTH


def test_every_name_on_the_list_is_a_module_or_a_test() -> None:
    files = list(Path(__file__).parent.rglob("test_*.py"))
    known = {file.stem for file in files}
    known |= {name for file in files for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8"))}
    assert len(ON_BOTH) > 50 and ON_BOTH - known == set()
