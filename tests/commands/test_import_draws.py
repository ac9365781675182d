"""`import-draws`: labels of several models become draws, and the paper's conditions are replayed on them."""

import json
import zipfile
from pathlib import Path

import pytest

from screening.evaluation.imported_answers import answers_in
from screening.labels import Label
from tests.commands.conftest import Run

HEADER = "id,text,label,gpt,claude,llama\n"
ROWS = HEADER + (
    "1,a quiet day,safe,safe,safe,safe\n"
    "2,I want to die,unsafe,unsafe,Yes,unsafe\n"
    "3,some days are hard,unsafe,safe,maybe,\n"
)
TURNS = "id,role,text,gpt,claude,llama\na,user,hello,safe,safe,safe\nb,user,I want to die,unsafe,unsafe,unsafe\n"
AS_TURNS = ("--conversations", "rows", "--id-column", "id", "--role-column", "role", "--order-column", "")


def message(custom_id: str, text: str, **reply: object) -> str:
    body = {
        "type": "message", "role": "assistant", "id": f"msg_{custom_id}", "model": "m-1", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 10, "output_tokens": 1},
    }  # fmt: skip
    return json.dumps({"custom_id": custom_id, "result": {"type": "succeeded", "message": body | reply}})


def completion(custom_id: str, text: str, finish: str = "stop") -> str:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    body = {"object": "chat.completion", "id": f"c-{custom_id}", "model": "m-2", "choices": [choice], "usage": {}}
    return json.dumps({"custom_id": custom_id, "response": {"status_code": 200, "body": body}, "error": None})


def sample(identity: str, text: str, epoch: int = 1, stop: str = "stop") -> dict[str, object]:
    choice = {"message": {"role": "assistant", "content": text}, "stop_reason": stop}
    output = {"model": "m-3", "choices": [choice], "completion": text}
    return {"id": identity, "epoch": epoch, "input": "?", "target": "safe", "output": output}


def test_the_labels_of_models_in_columns_are_draws(tmp_path: Path, run: Run) -> None:
    (tmp_path / "five.csv").write_text(ROWS, encoding="utf-8")
    asked = ["import-draws", tmp_path / "five.csv", "--node", "worker", "--draw-columns", "gpt,claude,LLAMA"]
    labels = ("--draw-labels", "yes=unsafe, Maybe=escalate")
    assert run(*asked, *labels, "--out", tmp_path / "draws.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "draws.jsonl").read_text().splitlines()]
    found = [(line["id"], line["node"], line["draws"]) for line in lines]
    assert found == [("1", "worker", "SSS"), ("2", "worker", "UUU"), ("3", "worker", "SE")]


COLUMNS = ("--draw-columns", "gpt,claude,LLAMA")


@pytest.mark.parametrize(
    ("content", "answers", "options", "words"),
    [
        (ROWS, "", COLUMNS, "row 2, column 'claude': 'Yes' stands for no label"),
        (ROWS, "", (*COLUMNS, "--draw-labels", "yes=perhaps"), "is none of NAME=safe"),
        ("id,text,gpt,claude\n1,a,safe,safe\n", "", COLUMNS, "no column 'LLAMA'"),
        # A row is a turn there and a case its conversation: a later turn's label would be another conversation's.
        (TURNS, "", (*COLUMNS, *AS_TURNS), "the labels in --draw-columns belong to rows of the file"),
        ("id,text\n1,a\n", '{"text": "no answer"}', (), "line 1: neither an answer of a batch nor an Inspect log"),
        ("id,text\n1,a\n", f"{message('1/0', 'safe')}\n{message('1/0', 'safe')}", (),
         "line 2: this row and number stand in line 1 already"),
    ],
)  # fmt: skip
def test_what_is_no_label_or_answer_is_named_and_nothing_is_written(
    tmp_path: Path, run: Run, content: str, answers: str, options: tuple[str, ...], words: str
) -> None:
    data, said, out = tmp_path / "data.csv", tmp_path / "a.jsonl", tmp_path / "draws.jsonl"
    data.write_text(content, encoding="utf-8")
    said.write_text(answers, encoding="utf-8")
    given = ("--outputs", said) if answers else ()
    told = run("import-draws", data, "--node", "worker", *given, *options, "--out", out)
    assert told.code == 2 and words in told.err and not out.exists()


def five_models(folder: Path) -> list[Path]:
    """What five models said of rows 1 to 3, as five services write it down."""
    unanswered = json.dumps({"custom_id": "3", "result": {"type": "errored", "error": {"type": "x"}}})
    failed = json.dumps({"custom_id": "3", "response": {"status_code": 500, "body": {}}, "error": None})
    samples = [sample("1", "safe"), sample("2", "unsafe"), sample("3", "unsa", 1, "max_tokens")]
    files = {
        "a.jsonl": "\n".join([message("1", "safe"), message("2", "unsafe"), unanswered]),
        "b.jsonl": "\n".join([message("2/worker/0", "Unsafe."), message("1/worker/0", "safe"), message("9", "safe")]),
        "c.jsonl": "\n".join([completion("1", "safe"), completion("2", "I will not say", "content_filter"), failed]),
        "d.json": json.dumps({"samples": samples}),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    with zipfile.ZipFile(folder / "e.eval", "w") as archive:
        archive.writestr("header.json", "{}")
        for identity, text, epoch in (("1", "safe", 1), ("1", "safe", 2), ("2", "unsafe", 1), ("2", "yes", 2)):
            archive.writestr(f"samples/{identity}_epoch_{epoch}.json", json.dumps(sample(identity, text, epoch)))
    return [folder / name for name in (*files, "e.eval")]


def test_a_data_set_labelled_by_five_models_is_replayed(tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "draws.jsonl"
    data.write_text("id,text,label\n1,a quiet day,safe\n2,I want to die,unsafe\n3,hm,safe\n", encoding="utf-8")
    outputs = [word for path in five_models(tmp_path) for word in ("--outputs", path)]
    asked = ["import-draws", data, "--node", "worker", "--draw-labels", "yes=unsafe", "--out", out]
    said = run(*asked, *outputs)
    lines = {line["id"]: line for line in map(json.loads, out.read_text().splitlines())}
    assert {one: line["draws"] for one, line in lines.items()} == {"1": "SSSSSS", "2": "UU!UUU", "3": "~"}
    assert lines["1"]["tokens"] == 22  # of the two batches that count them
    assert "1 answer of other rows or nodes, 2 requests without an answer" in said.err
    replayed = ["evaluate", data, "--format", "csv", "--conditions", "MV n=5", "--draws", out]
    (condition,) = run(*replayed, "--sampler", "none", "--json").report["conditions"]
    assert (condition["n"], condition["unsettled"]) == (2, 1)  # one model answered of the third


def test_an_answer_given_twice_or_of_several_parts_is_no_label_and_what_was_thought_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    parts = message("2", "safe", content=[{"type": "text", "text": "safe"}, {"type": "text", "text": "or not"}])
    again = message("1", "safe").replace('"custom_id": "1"', '"custom_id": "3"')  # one answer under two names
    file.write_text("\n".join([message("1", "safe"), parts, again]), encoding="utf-8")
    assert [one.draw.code if one.draw else None for one in answers_in(file)] == ["S", "#", "#"]
    given = (Path(__file__).parent.parent / "fixtures" / "field" / "f20_responses_batch.jsonl").read_text()
    body = json.loads(given)
    body["response"]["body"]["output"].append({"type": "function_call", "name": "look", "arguments": "{}"})
    file.write_text(given.strip() + "\n" + json.dumps(body | {"custom_id": "b"}), encoding="utf-8")
    first, beside = answers_in(file)
    assert first.draw is not None and first.draw.label is Label.SAFE and first.draw.usage.input_tokens == 5
    assert beside.draw is not None and beside.draw.label is Label.ESCALATE
