"""Files of the paper's data sets on the Batches page: prepared by a switch, with the counts of the command line."""

import json

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest

from pages.batches.intake_runs import intake_runs
from screening.datasets.known import KnownDataset
from screening.research.aegis import load_aegis
from screening.research.paper_sets import prepare
from screening.research.swmh import load_swmh
from screening.review.actors import LOCAL_USER
from storage.batches.results import results
from storage.database import Database
from storage.schema import batches
from tests.pages.batches.test_mapping import press, shown, upload
from tests.pages.conftest import Opener
from tests.research.test_aegis import REFUSALS, TRAIN
from tests.research.test_swmh import SUBREDDITS, posts

AEGIS = json.dumps([row for row in TRAIN + REFUSALS if row["id"] != "g"]).encode()
SWMH = posts(52)


def switch(page: AppTest) -> AppTest:
    (paper,) = (one for one in page.toggle if one.label.startswith("Prepare "))
    paper.set_value(not paper.value).run()
    assert not page.exception, page.exception
    return page


def taken_in(page: AppTest, db: Database) -> list[tuple[str, str | None, str | None]]:
    press(page, "Start screening")
    intake_runs().wait()
    chosen = page.query_params["batch"]
    rows = results(db, LOCAL_USER, chosen if isinstance(chosen, str) else chosen[0])
    return [(row.external_id, row.reference, row.group) for row in rows]


def test_aegis_is_prepared_and_read_as_it_stands_again(open_page: Opener, page_database: Database) -> None:
    page = upload(open_page, AEGIS, "train.json")
    assert "10 rows in" in shown(page)
    found = load_aegis([("train.json", AEGIS)])
    page = switch(page)
    assert f"{len(found.rows)} rows in = {len(found.rows)} accepted + 0 rejected" in shown(page)
    assert [step.rows for step in found.steps] == list(page.dataframe[0].value["Rows"])[: len(found.steps)]
    assert "10 rows in" in shown(switch(page))
    page = switch(page)
    assert taken_in(page, page_database) == [(row.id, row.reference.value, None) for row in found.rows]
    (intake,) = page_database.values(select(batches.c.intake))
    assert intake["prepared"]["as"] == "AEGIS 2.0"


def test_of_swmh_fifty_posts_of_each_subreddit_are_drawn_which_is_the_group(
    open_page: Opener, page_database: Database
) -> None:
    page = switch(upload(open_page, SWMH, "train.csv"))
    assert "250 rows in = 250 accepted + 0 rejected" in shown(page)
    sample = load_swmh([("train.csv", SWMH)])
    assert taken_in(page, page_database) == [(row.id, row.reference.value, row.subreddit) for row in sample.rows]


def test_a_file_too_small_for_the_sample_says_so_and_other_files_have_no_switch(open_page: Opener) -> None:
    page = switch(upload(open_page, posts(9), "train.csv"))
    assert "fewer than 50 posts" in page.error[0].value
    other = upload(open_page, b"id,text\n1,We walked by the lake.\n")
    assert not [one for one in other.toggle if one.label.startswith("Prepare ")]


@pytest.mark.parametrize(
    ("known", "content"), [(KnownDataset.AEGIS, json.dumps(TRAIN).encode()), (KnownDataset.SWMH, SWMH)]
)
def test_each_text_leaves_the_preparation_exactly_as_it_came(known: KnownDataset, content: bytes) -> None:
    rows = prepare(known, "train", content).rows
    texts = {row["text"] for row in rows}
    if known is KnownDataset.AEGIS:
        assert "tired \ud83d" in texts
    else:
        assert {row["group"] for row in rows} == set(SUBREDDITS)
        assert all(str(text).endswith(",\nsecond line") for text in texts)
