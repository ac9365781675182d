"""The subset of AEGIS 2.0: each step's count, the order of dropping and deduplicating, and where labels come from."""

import json
from collections import Counter
from typing import Any

import pytest

from screening.datasets.refused import FileRefused
from screening.labels import Label
from screening.research.aegis import AegisSubset, LabelOf, Screened, Step, load_aegis


def row(identity: str, **values: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "reconstruction_id_if_redacted": None,
        "prompt": f"prompt of {identity}",
        "response": f"reply to {identity}",
        "prompt_label": "unsafe",
        "response_label": "safe",
        "violated_categories": "Suicide and Self Harm",
        "prompt_label_source": "human",
        "response_label_source": "llm_jury",
        **values,
    }


TRAIN = [
    row("a"),
    row("b", violated_categories="Violence, Suicide and Self Harm", response_label="unsafe"),
    row("c", violated_categories="Violence"),
    row("d", violated_categories=""),
    row("e", prompt="REDACTED", reconstruction_id_if_redacted=17.0),
    row("f", response=None, response_label=None, response_label_source=None),
    row("g", response="", prompt="tired \ud83d"),
    row("h", response_label=None),
    row("c2", violated_categories="self-harm"),
]
REFUSALS = [
    row("a", response="another reply", response_label_source="refusal_data_augmentation"),
    row("h", response_label_source="refusal_data_augmentation"),
]


def subset(**options: Any) -> AegisSubset:
    files = [("train.json", json.dumps(TRAIN).encode()), ("refusals_train.json", json.dumps(REFUSALS).encode())]
    return load_aegis(files, **options)


def test_the_count_at_each_step() -> None:
    assert subset().steps == (
        Step(name="rows in all files", rows=11),
        Step(name="category suicide or self harm", rows=8),
        Step(name="prompt not redacted", rows=7),
        Step(name="with a response label", rows=5),
        Step(name="first row of each id", rows=4),
        Step(name="with a prompt and response to screen", rows=4),
    )


def test_null_labels_are_dropped_before_ids_are_compared() -> None:
    rows = {one.id: one for one in subset().rows}
    assert list(rows) == ["a", "b", "g", "h"]
    assert (rows["h"].file, rows["h"].label_source) == ("refusals_train.json", "refusal_data_augmentation")
    assert rows["a"].reply is not None
    assert rows["a"].reply.stored == "reply to a"


def test_labels_and_where_they_come_from() -> None:
    found = subset()
    assert Counter(row.reference for row in found.rows) == {Label.SAFE: 3, Label.UNSAFE: 1}
    assert found.label_sources == {"llm_jury": 3, "refusal_data_augmentation": 1}


def test_broken_unicode_is_repaired_and_counted_not_dropped() -> None:
    found = subset()
    assert found.repaired == 1
    assert next(one for one in found.rows if one.id == "g").text.stored == "tired \ufffd"


def test_the_prompts_label_may_be_used_instead() -> None:
    found = subset(label_of=LabelOf.PROMPT)
    assert [one.id for one in found.rows] == ["a", "b", "f", "g", "h"]
    assert found.label_sources == {"human": 5}
    assert {one.reference for one in found.rows} == {Label.UNSAFE}


def test_the_reply_alone_may_be_screened() -> None:
    found = subset(screened=Screened.RESPONSE)
    assert [one.text.stored for one in found.rows] == ["reply to a", "reply to b", "reply to h"]
    assert all(one.reply is None for one in found.rows)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_exports_in_other_formats_give_the_same_rows(form: str) -> None:
    if form == "jsonl":
        content = "".join(json.dumps(one) + "\n" for one in TRAIN)
    else:
        lines = [TRAIN[0].keys(), *(one.values() for one in TRAIN if one["id"] != "g")]
        content = "".join(",".join(f'"{"" if cell is None else cell}"' for cell in line) + "\n" for line in lines)
    whole = load_aegis([("train", json.dumps(TRAIN).encode())])
    wanted = [one.id for one in whole.rows if form == "jsonl" or one.id != "g"]
    assert [one.id for one in load_aegis([("train", content.encode())]).rows] == wanted


def test_a_file_of_another_shape_is_refused() -> None:
    with pytest.raises(FileRefused, match="violated_categories"):
        load_aegis([("x.csv", b"id,prompt,response,prompt_label,response_label\n1,a,b,safe,safe\n")])
