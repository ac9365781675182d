"""The sample of SWMH: equal sizes, repeatable, with the call and the hashes that fix it."""

import csv
import io
from collections import Counter

import pytest

from screening.datasets.refused import FileRefused
from screening.labels import Label
from screening.research.swmh import load_swmh
from screening.text.received import text_sha256

SUBREDDITS = ("self.SuicideWatch", "self.depression", "self.Anxiety", "self.bipolar", "self.offmychest")


def posts(count: int, start: int = 0) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(("text", "label"))
    for number in range(start, start + count):
        writer.writerows((f"post {number} of {label[5:]},\nsecond line", label) for label in SUBREDDITS)
    return stream.getvalue().encode()


def test_the_same_number_of_each_subreddit_and_only_one_is_unsafe() -> None:
    sample = load_swmh([("train.csv", posts(6)), ("val.csv", posts(3, 6))], per_subreddit=4)
    assert Counter(row.subreddit for row in sample.rows) == dict.fromkeys(SUBREDDITS, 4)
    assert {row.subreddit for row in sample.rows if row.reference is Label.UNSAFE} == {"self.SuicideWatch"}
    assert sample.posts == dict.fromkeys(SUBREDDITS, 9)


def test_the_sample_is_fixed_by_its_call_and_named_by_hashes() -> None:
    once, again = (load_swmh([("train.csv", posts(9))], per_subreddit=4) for _ in range(2))
    assert once == again
    assert once.call == (
        "DataFrame.groupby('label').sample(n=4, random_state=42) on the files' rows in the order given"
    )
    assert once.sha256 == tuple(text_sha256(row.text.stored) for row in once.rows)
    assert load_swmh([("train.csv", posts(9))], per_subreddit=4, seed=43).sha256 != once.sha256


def test_a_post_is_named_by_its_place() -> None:
    sample = load_swmh([("train.csv", posts(4))], per_subreddit=4)
    assert len({row.id for row in sample.rows}) == 20
    by_id = {row.id: row for row in sample.rows}
    assert by_id["train.csv:1"].text.stored == "post 0 of SuicideWatch,\nsecond line"


def test_too_few_posts_are_an_error() -> None:
    with pytest.raises(ValueError, match="fewer than 5"):
        load_swmh([("train.csv", posts(4))], per_subreddit=5)


def test_a_file_of_another_shape_is_refused() -> None:
    with pytest.raises(FileRefused, match="no column label"):
        load_swmh([("train.csv", b"text,class\na,b\n")])
