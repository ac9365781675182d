"""The library for notebooks: the notebook prints what it says, and each function is what the program itself does."""

import contextlib
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import screening
from screening import replay, screen_texts

ROOT = Path(__file__).parents[2]


def test_the_notebook_prints_what_is_written_in_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    cells = json.loads((ROOT / "docs" / "library.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    ran = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec("".join(cell["source"]), names)
            assert printed.getvalue() == "".join(line for out in cell["outputs"] for line in out["text"])
            ran += 1
    assert ran >= 6


async def test_what_a_text_forbids_is_applied_and_an_index_is_kept_also_where_a_loop_runs_already():
    texts = pd.Series(["A quiet day at the lake.", "A quiet \u202eday at the lake."], index=["a", "b"])
    found = screen_texts(texts)
    assert found["outcome"].to_dict() == {"a": "safe", "b": "human_review"}
    assert (found.loc["b", "reason"], found.loc["b", "flags"]) == ("hidden_characters", "bidi_control")
    assert replay(found)["outcome"].tolist() == ["safe", "safe"]  # the rule alone
    assert screen_texts([]).empty
    with pytest.raises(ValueError, match="one reply"):
        screen_texts(["a"], replies=[])
    with pytest.raises(ValueError, match="no pipeline 'best'"):
        screen_texts(["a"], pipeline="best")


def test_too_few_draws_leave_a_row_without_an_outcome():
    found = replay(pd.DataFrame({"draws_worker": ["SSSSSSSSSSSSSSSS", "SU", None]}), "recommended")
    assert found["outcome"].isna().tolist() == [False, True, True] and found.loc[0, "outcome"] == "safe"
    with pytest.raises(ValueError, match="no column of draws"):
        replay(pd.DataFrame({"draws": ["S"]}))
    with pytest.raises(ValueError, match="not a draw code"):
        replay(pd.DataFrame({"draws_worker": ["safe"]}))


def test_the_package_has_the_project_s_version_and_no_other_names() -> None:
    with pytest.raises(AttributeError):
        _ = screening.no_such_name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert screening.__version__ == project["version"]
