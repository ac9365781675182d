"""Commands on files: `metrics`, `rule` with the pinned stopping times, `import-draws`; and `correct`, from a data set
and its draws to a file for a reviewer, and from what was read to corrected figures. And what any command refuses.
"""

import csv
import json
import shlex
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from screening.evaluation.imported_answers import answers_in
from screening.labels import Label
from tests.commands.conftest import Run

ASKED = tomllib.loads(Path(__file__).with_name("asked.toml").read_text("utf-8"))


def test_what_is_undefined_is_null_and_not_zero_and_a_carriage_return_makes_no_second_row(
    tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "outcomes.csv"
    file.write_text("reference,outcome\nsafe,human_review\nunsafe,human_review\n")
    found = run("metrics", file).report
    for name in ("accuracy", "fpr", "fnr"):
        assert (found[name]["value"], found[name]["low"], found[name]["denominator"]) == (None, None, 0)
    assert found["escalation_rate"]["value"] == 1.0
    file.write_bytes(b"id,reference,outcome,text\n1,safe,safe,a day\rin two lines\n2,unsafe,unsafe,b\n")
    found = run("metrics", file).report
    assert (found["n"], found["pending"], found["without_reference"]) == (2, 0, 0)


def test_another_file_of_the_same_cases_is_compared_case_by_case(tmp_path: Path, run: Run) -> None:
    """Ten unsafe texts: the first file misses four, the other two of these; one case is in one file alone."""
    first, other = tmp_path / "first.csv", tmp_path / "other.jsonl"
    lines = [f"u{place},unsafe,{'safe' if place < 4 else 'unsafe'},10" for place in range(10)]
    first.write_text("id,reference,outcome,calls\n" + "\n".join([*lines, "x,safe,safe,10"]) + "\n", encoding="utf-8")
    rows = [
        {"id": f"u{place}", "reference": None, "outcome": "safe" if place < 2 else "unsafe", "calls": 13}
        for place in range(10)
    ]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = run("metrics", first, "--against", other).report["against"]
    assert (found["shared"], found["not_in_both"]) == (10, 1)
    assert (found["right_in_the_first_alone"], found["right_in_the_other_alone"]) == (0, 2)
    assert found["mcnemar_p"] == 0.5  # 2 of 2 either way: 2 / 4
    missed = found["differences"]["False negative (missed)"]
    assert missed["value"] == pytest.approx(-0.2) and missed["low"] < -0.2 < missed["high"]
    calls = found["differences"]["Calls a text"]
    assert (calls["value"], calls["low"], calls["high"]) == (3, None, None), "files do not say how many it can be"


@pytest.mark.parametrize("rule", ASKED["rule"], ids=lambda rule: f"{rule['asked']} on {rule['draws']}")
def test_the_pinned_stopping_times(run: Run, rule: dict[str, Any]) -> None:
    draws = " ".join(label for label, times in rule["draws"].items() for _ in range(times))
    said, (verdict, ended, calls) = run("rule", *rule["asked"].split(), "--draws", draws), rule["found"]
    assert [said.report[name] for name in ("verdict", "ended", "calls")] == [verdict or None, ended, calls]
    assert ended != "futility" or "72 needed" in said.err


@pytest.mark.parametrize(
    ("command", "case"), [pytest.param(each, case, id=case[1]) for each in ASKED["refused"] for case in each["cases"]]
)
def test_what_cannot_be_used_is_refused_in_words_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, command: dict[str, Any], case: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options, words, *content = case
    (holds,) = content or [command["content"]]
    files = command.get("beside", {}) | {command.get("given", "data.csv"): holds}
    for name, text in files.items():
        Path(name).write_bytes(text.encode("latin-1"))
    told = run(*shlex.split(f"{command['asked']} {options}"))
    assert told.code == 2 and told.out == "" and words in told.err
    assert {path.name for path in tmp_path.iterdir()} == set(files)
    assert "pipelines" not in command["asked"] or told.err.count("\n") == 1


# `import-draws`: labels of several models become draws, and the conditions are replayed on them.


ROWS = """id,text,label,gpt,claude,llama
1,a quiet day,safe,safe,safe,safe
2,I want to die,unsafe,unsafe,Yes,unsafe
3,some days are hard,unsafe,safe,maybe,
"""


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


def sample(identity: str, said: object, epoch: int = 1, stop: str = "stop") -> dict[str, object]:
    choice = {"message": {"role": "assistant", "content": said}, "stop_reason": stop}
    output = {"model": "m-3", "choices": [choice], "usage": {"input_tokens": 5, "output_tokens": 1}}
    return {"id": identity, "epoch": epoch, "input": "?", "target": "safe", "output": output}


def pack(file: Path, samples: list[dict[str, object]]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", "{}")
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))


def test_the_labels_of_models_in_columns_are_draws(tmp_path: Path, run: Run) -> None:
    (tmp_path / "five.csv").write_text(ROWS, encoding="utf-8")
    asked = ["import-draws", tmp_path / "five.csv", "--node", "worker", "--draw-columns", "gpt,claude,LLAMA"]
    labels = ("--draw-labels", "yes=unsafe, Maybe=escalate")
    mapping = tmp_path / "mapping.json"
    assert run(*asked, *labels, "--out", tmp_path / "draws.jsonl", "--save-mapping", mapping).code == 0
    assert json.loads(mapping.read_text())["columns"]["unread"] == ["gpt", "claude", "llama"]
    lines = [json.loads(line) for line in (tmp_path / "draws.jsonl").read_text().splitlines()]
    found = [(line["id"], line["node"], line["draws"]) for line in lines]
    assert found == [("1", "worker", "SSS"), ("2", "worker", "UUU"), ("3", "worker", "SE")]


def test_a_data_set_labelled_by_five_models_is_replayed(tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "draws.jsonl"
    data.write_text("id,text,label\n1,a quiet day,safe\n2,I want to die,unsafe\n3,hm,safe\n", encoding="utf-8")
    unanswered = json.dumps({"custom_id": "3", "result": {"type": "errored", "error": {"type": "x"}}})
    failed = json.dumps({"custom_id": "3", "response": {"status_code": 500, "body": {}}, "error": None})
    files = (
        [message("1", "safe"), message("2", "yes"), unanswered],
        [message("2/worker/0", "Unsafe."), message("1/worker/0", "safe"), message("9", "safe")],
        [completion("1", "safe"), completion("2", "I will not say", "content_filter"), failed],
    )
    outputs = []
    for number, lines in enumerate(files):
        outputs += ["--outputs", tmp_path / f"{number}.jsonl"]
        outputs[-1].write_text("\n".join(lines), encoding="utf-8")
    thought = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "unsafe"}]
    samples = [sample("1", "safe"), sample("2", thought), sample("3", "safe", stop="max_tokens")]
    samples += [sample("3", "safe", 2, "content_filter"), sample("3", "safe", 3) | {"error": {"message": "x"}}]
    (tmp_path / "log.json").write_text(json.dumps({"samples": samples}), encoding="utf-8")
    packed = [sample("1", "safe"), sample("1", "safe", 2), sample("2", "unsafe"), sample("2", "yes", 2)]
    pack(tmp_path / "log.eval", packed)
    outputs += ["--outputs", tmp_path / "log.json", "--outputs", tmp_path / "log.eval"]
    asked = ["import-draws", data, "--node", "worker", "--draw-labels", "yes=unsafe", "--out", out]
    said = run(*asked, *outputs)
    lines = {line["id"]: line for line in map(json.loads, out.read_text().splitlines())}
    assert {one: line["draws"] for one, line in lines.items()} == {"1": "SSSSSS", "2": "UU!UUU", "3": "~!"}
    assert lines["1"]["tokens"] == 40  # of all but the batch that does not count them
    assert "1 answer of other rows or nodes, 3 requests without an answer" in said.err
    replayed = ["evaluate", data, "--format", "csv", "--conditions", "MV n=5", "--draws", out]
    (condition,) = run(*replayed, "--sampler", "none", "--json").report["conditions"]
    assert (condition["n"], condition["unsettled"]) == (2, 1)  # of the third there are two answers, of no label


def test_a_damaged_log_is_refused(tmp_path: Path, run: Run) -> None:
    (data := tmp_path / "data.csv").write_text("id,text\n1,a\n", encoding="utf-8")
    pack(cut := tmp_path / "cut.eval", [sample("1", "safe")])
    cut.write_bytes(cut.read_bytes().replace(b'"safe"', b'"sane"', 1))  # no longer its checksum
    told = run("import-draws", data, "--node", "worker", "--outputs", cut, "--out", tmp_path / "draws.jsonl")
    assert told.code == 2 and "damaged or cut off" in told.err and not (tmp_path / "draws.jsonl").exists()


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


TRULY_UNSAFE = {f"c{number}" for number in range(0, 120, 3)}
WRONGLY_LABELLED = {f"c{number}" for number in range(0, 120, 12)}


@pytest.fixture
def drawn(tmp_path: Path) -> list[str]:
    """The options of `correct`: every twelfth label of the data set is wrong, and the agents are always right."""
    rows, draws = ["id,text,label"], []
    for number in range(120):
        name = f"c{number}"
        labelled = (name in TRULY_UNSAFE) != (name in WRONGLY_LABELLED)
        rows.append(f"{name},This is text number {number},{'unsafe' if labelled else 'safe'}")
        draws.append(json.dumps({"id": name, "node": "worker", "draws": "UUUUU" if name in TRULY_UNSAFE else "SSSSS"}))
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "draws.jsonl").write_text("\n".join(draws) + "\n")
    (tmp_path / "known.csv").write_text("id,text,label\nk1,Known to be unsafe,unsafe\nk2,Known to be safe,safe\n")
    return [
        str(tmp_path / "data.csv"), "--format", "csv", "--draws", str(tmp_path / "draws.jsonl"),
        "--conditions", "MV n=1,MV n=3", "--key", str(tmp_path / "key.json"),
    ]  # fmt: skip


def draw_and_read(run: Run, tmp_path: Path, drawn: list[str], many: int, *more: object) -> Path:
    """The reviewer's file, filled in by somebody who is always right but for the planted unsafe text."""
    out = tmp_path / "read.csv"
    assert run("correct", "draw", *drawn, "--reviews", many, "--out", out, *more).code == 0
    with out.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(set(row) == {"item", "text", "reply", "review"} for row in rows)  # nothing of label, model or order
    for row in rows:
        row["review"] = "unsafe" if f"c{row['text'].rsplit(' ', 1)[-1]}" in TRULY_UNSAFE else "safe"
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["item", "text", "reply", "review"])
        writer.writeheader()
        writer.writerows(rows)
    return out


def test_reading_all_finds_every_wrong_label_and_what_is_no_review_of_it_is_refused(
    tmp_path: Path, drawn: list[str], run: Run
) -> None:
    out = draw_and_read(run, tmp_path, drawn, 120)
    estimate = ("correct", "estimate", *drawn, "--reviews", out)
    assert (tmp_path / "key.json").stat().st_mode & 0o077 == 0
    report = run(*estimate, "--json").report
    assert report["wrong_labels"]["value"] == pytest.approx(len(WRONGLY_LABELLED) / 120)
    for name in ("MV n=1", "MV n=3"):  # by the labels as they are, accuracy would be .917
        assert report["conditions"]["accuracy"][name]["low"] == 1.0
        assert report["conditions"]["fnr"][name]["high"] == 0.0

    lines = out.read_text().splitlines()
    for cell in ("", "unsure"):  # a text passed over is taken both ways, as an unsure one is
        out.write_text("\n".join([lines[0], lines[1].rpartition(",")[0] + f",{cell}", *lines[2:]]) + "\n")
        assert "1 of them unsure" in run(*estimate).out
    out.write_text("\n".join([lines[0], lines[1] + "?", *lines[2:]]) + "\n")
    said = run(*estimate)
    assert said.code == 2 and "row 1: " in said.err and "is none of" in said.err
    out.write_text("\n".join(lines) + "\n")
    data = tmp_path / "data.csv"
    data.write_text(data.read_text().replace("number 7,safe", "number 7,unsafe"))
    said = run(*estimate)
    assert said.code == 2 and "another data set" in said.err


def test_a_part_and_planted_texts_give_limits_and_say_how_reviewers_err(
    tmp_path: Path, drawn: list[str], run: Run
) -> None:
    out = draw_and_read(run, tmp_path, drawn, 40, "--planted", tmp_path / "known.csv")
    key = json.loads((tmp_path / "key.json").read_text())
    assert sorted(str(what) for what in key["items"].values() if isinstance(what, str)) == ["safe", "unsafe"]
    assert key["probabilities"] == [30 / 110, 10 / 10]  # there is more to learn where draws contradict the label
    given = ["correct", "estimate", *drawn, "--reviews", out, "--reviews", out]
    report = run(*given, "--json").report
    assert report["read"] == 40
    assert report["reviewers"]["sensitivity"] == [0, 1] and report["reviewers"]["specificity"] == [1, 1]
    assert report["reviewers"]["pairs"][0] == report["reviewers"]["pairs"][1] > 0
    told = run(*given, "--sensitivity", "1", "--specificity", "1")
    assert told.code == 0 and "taken to be right" in told.out
    assert run(*given, "--baseline", "MV n=7").code == 2
    assert run("correct", "draw", *drawn, "--out", out).code == 2, "reviews are never written over"
