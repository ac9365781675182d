"""The table of defects that `make defects` puts back speaks of the program as it is."""

from tests.defects.__main__ import DEFECTS, files_of, places_of


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
