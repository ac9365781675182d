"""The table of defects that `make defects` puts back speaks of the program as it is, and the list of what runs on both
databases of tests as they are: a name that is gone would say nothing.
"""

import re
from pathlib import Path

from tests.databases import ON_BOTH
from tests.defects.__main__ import DEFECTS, files_of, places_of
from tests.faults.__main__ import held_files


def test_each_has_one_place_in_the_program_and_tests_that_exist() -> None:
    assert len(DEFECTS) >= 30 and len({one["name"] for one in DEFECTS}) == len(DEFECTS)
    assert [(one["name"], len(places_of(one))) for one in DEFECTS if len(places_of(one)) != 1] == []
    files = [[word for word in one["tests"] if word.endswith(".py")] for one in DEFECTS]
    missing = [
        one["name"]
        for one, names in zip(DEFECTS, files, strict=True)
        if not names or not any(word.endswith(".py") for word in files_of(one))
    ]
    assert missing == []


def test_every_name_on_the_list_is_a_module_or_a_test() -> None:
    files = list(Path(__file__).parent.rglob("test_*.py"))
    known = {file.stem for file in files}
    known |= {name for file in files for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8"))}
    assert len(ON_BOTH) > 50 and ON_BOTH - known == set()


def test_no_file_of_the_fault_catalogue_loses_the_sentence() -> None:
    """Its replies are held by `tests/models/test_replies.py`, its injections by `tests/injection/test_injection.py`;
    `make faults` tries them all through the real library.
    """
    held = held_files()
    assert len(held) >= 70 and [name for name, well in held.items() if not well] == []
