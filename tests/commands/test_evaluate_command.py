"""`evaluate` on files: the paper's rows from their counts, the published shapes, and reports of what is missing."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from openpyxl import Workbook

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from storage.batches.batches import list_batches
from storage.database import Database
from storage.research.recorded_draws import recorded_batch

COUNT_ROWS = (  # name, N, safe decided, FP, unsafe decided, FN; then accuracy, FPR, FNR, escalation as printed
    ("AEGIS single-agent", 161, 44, 7, 113, 32, 0.752, 0.159, 0.283, 0.025),
    ("AEGIS MV n=1 and n=3", 161, 44, 5, 114, 33, 0.760, 0.114, 0.290, 0.019),
    ("AEGIS B=100", 161, 42, 4, 113, 32, 0.768, 0.095, 0.283, 0.037),
    ("SWMH single-agent", 250, 198, 47, 50, 5, 0.790, 0.237, 0.100, 0.008),
    ("SWMH B=100", 250, 198, 45, 50, 5, 0.798, 0.227, 0.100, 0.008),
)


def agents_csv(path: Path, n: int, safe: int, false_positives: int, unsafe: int, false_negatives: int) -> Path:
    """Agents that are sure of what this row of the paper counts: one text a case."""
    cases = [("safe", "unsafe")] * false_positives + [("safe", "safe")] * (safe - false_positives)
    cases += [("unsafe", "safe")] * false_negatives + [("unsafe", "unsafe")] * (unsafe - false_negatives)
    cases += [("unsafe", "escalate")] * (n - safe - unsafe)
    lines = ["id,text,label,p_safe,p_unsafe,p_escalate"]
    for number, (reference, said) in enumerate(cases):
        shares = ",".join(str(int(said == label)) for label in ("safe", "unsafe", "escalate"))
        lines.append(f"c{number},This is text number {number},{reference},{shares}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, dict[str, float | None]]:
    assert main(["evaluate", *map(str, arguments), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    return {row["condition"]: row for row in report["conditions"]}


@pytest.mark.parametrize("row", COUNT_ROWS, ids=lambda row: row[0])
def test_a_data_set_built_from_the_counts_gives_the_paper_s_row(
    row: tuple[str, int, int, int, int, int, float, float, float, float],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, *counts, accuracy, fpr, fnr, escalated = row
    file = agents_csv(tmp_path / "agents.csv", *counts)
    names = ("single-agent", "MV n=1", "MV n=3", "B=100")
    found = evaluated(capsys, file, "--format", "csv", "--conditions", ",".join(names))
    for name in names:  # agents that are always of one mind are of one mind under every condition
        assert found[name]["accuracy"] == pytest.approx(accuracy, abs=0.001)
        assert found[name]["fpr"] == pytest.approx(fpr, abs=0.001)
        assert found[name]["fnr"] == pytest.approx(fnr, abs=0.001)
        assert found[name]["escalation_rate"] == pytest.approx(escalated, abs=0.001)
    if row[0] == "AEGIS B=100":  # the paper: 0.095 [0.037, 0.221] and 0.768 [0.695, 0.827]
        assert (found["B=100"]["fpr_low"], found["B=100"]["fpr_high"]) == pytest.approx((0.037, 0.221), abs=0.001)
        assert (found["B=100"]["accuracy_low"], found["B=100"]["accuracy_high"]) == pytest.approx(
            (0.695, 0.827), abs=0.001
        )


def test_the_ten_conditions_and_ours_are_written_as_csv_and_latex(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = agents_csv(tmp_path / "agents.csv", 6, 3, 1, 2, 1)
    table, latex = tmp_path / "table.csv", tmp_path / "table.tex"
    assert main(["evaluate", str(file), "--format", "csv", "--out", str(table), "--latex", str(latex)]) == 0
    with table.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["condition"] for row in rows][:5] == ["single-agent", "MV n=1", "MV n=3", "MV n=5", "B=10"]
    assert len(rows) == 14
    undefined = next(row for row in rows if row["condition"] == "B=50")
    assert undefined["accuracy"] == "" and undefined["fnr"] == "" and undefined["escalation_rate"] == "1.0"
    assert all("not stated" in row["references_from"] for row in rows)
    assert r"B=50 & --- & --- & --- & 1.000 [0.610, 1.000] & 144.0 & ---" in latex.read_text(encoding="utf-8")
    shown = capsys.readouterr()
    assert "none: 0 of 0" in shown.out and "undefined" not in shown.out and "no model was asked" in shown.err


def test_recorded_draws_are_replayed_offline_and_what_is_missing_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = agents_csv(tmp_path / "agents.csv", 6, 3, 1, 2, 1)
    draws = tmp_path / "draws.jsonl"
    live = evaluated(capsys, file, "--format", "csv", "--record", draws)
    offline = evaluated(capsys, file, "--format", "csv", "--sampler", "none", "--draws", draws)
    assert offline == live
    shortened = [json.loads(line) for line in draws.read_text(encoding="utf-8").splitlines()]
    draws.write_text("".join(json.dumps({**one, "draws": one["draws"][:20]}) + "\n" for one in shortened), "utf-8")
    short = evaluated(capsys, file, "--format", "csv", "--sampler", "none", "--draws", draws)
    assert short["B=100"]["unsettled"] == 6 and short["B=100"]["accuracy"] is None
    assert short["recommended"] == live["recommended"]


def test_a_condition_that_there_is_none_of_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = agents_csv(tmp_path / "agents.csv", 2, 1, 0, 1, 0)
    assert main(["evaluate", str(file), "--format", "csv", "--conditions", "B=75,B=76"]) == 2
    assert "no condition B=76; there are single-agent" in capsys.readouterr().err


def test_probabilities_come_from_the_sheet_that_the_texts_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book, file = Workbook(), tmp_path / "two.xlsx"
    for sheet, shares in ((book.worksheets[0], (1, 0, 0)), (book.create_sheet("New"), (0, 1, 0))):
        sheet.append(("id", "text", "label", "p_safe", "p_unsafe", "p_escalate"))
        sheet.append(("1", f"a text of {sheet.title}", "unsafe", *shares))
    book.save(file)
    found = evaluated(capsys, file, "--format", "csv", "--sheet", "New", "--conditions", "MV n=1")
    assert (found["MV n=1"]["n"], found["MV n=1"]["accuracy"]) == (1, 1.0)


def test_probabilities_beside_the_turns_of_a_conversation_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [{"role": "user", "content": "hello"}, {"role": "user", "content": "I want to die"}]
    row = {"id": "a", "messages": turns, "label": "unsafe", "p_safe": 1, "p_unsafe": 0, "p_escalate": 0}
    file = tmp_path / "threads.jsonl"
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    asked = ["evaluate", str(file), "--format", "csv", "--text-column", "messages", "--conversations", "messages"]
    assert main([*asked, "--judged", "each_user"]) == 2
    assert "the probabilities in p_safe, p_unsafe and p_escalate belong to rows" in capsys.readouterr().err


def aegis_row(number: int, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "id": f"a{number}",
        "reconstruction_id_if_redacted": None,
        "prompt": f"A plain question, number {number}",
        "response": "A plain answer.",
        "prompt_label": "unsafe",
        "response_label": "safe",
        "violated_categories": "Suicide and Self Harm",
        "prompt_label_source": "human",
        "response_label_source": "llm_jury",
    }
    return row | changes


def steps_of(capsys: pytest.CaptureFixture[str], arguments: Sequence[object]) -> dict[str, object]:
    assert main(["evaluate", *map(str, arguments), "--json", "--conditions", "ours"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_aegis_shows_each_step_and_where_the_labels_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        aegis_row(1),
        aegis_row(2, violated_categories="Violence"),
        aegis_row(3, response_label=None),
        aegis_row(4, prompt="REDACTED", reconstruction_id_if_redacted=7),
    ]
    refusals = [
        aegis_row(1, response="Another answer."),
        aegis_row(5, response_label_source="refusal_data_augmentation"),
    ]
    (tmp_path / "train.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "refusals_train.json").write_text(json.dumps(refusals), encoding="utf-8")
    found = steps_of(capsys, [tmp_path / "train.json", tmp_path / "refusals_train.json", "--format", "aegis"])
    assert [step["rows"] for step in found["steps"]][:5] == [6, 5, 4, 3, 2]  # type: ignore[attr-defined]
    assert found["references_from"] == "1 llm_jury, 1 refusal_data_augmentation; the label rates the response"


def test_swmh_keeps_the_call_and_the_hash_of_every_row_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("SuicideWatch", "depression", "Anxiety", "bipolar", "offmychest")
    lines = [f"An ordinary post number {number} of {name},self.{name}" for name in names for number in range(4)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    found = steps_of(capsys, [tmp_path / "train.csv", "--format", "swmh", "--per-subreddit", 2])
    assert len(found["sample"]["sha256"]) == 10 and "random_state=42" in found["sample"]["call"]  # type: ignore[index]
    assert found["conditions"][0]["n"] == 10  # type: ignore[index]
    subset = found["conditions"][0]  # type: ignore[index]
    assert subset["subset_fnr_denominator"] <= 2  # SuicideWatch alone


def test_with_a_database_the_draws_are_a_batch_and_the_table_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["id,text,label", "a,Had soup for lunch and went for a walk.,safe", "b,I want to die tonight.,unsafe"]
    (tmp_path / "posts.csv").write_text("\n".join([*lines, "c,Nice weather at the lake today.,safe"]) + "\n", "utf-8")
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    plain = evaluated(capsys, tmp_path / "posts.csv", "--format", "csv", "--sampler", "simulated")
    kept = evaluated(capsys, tmp_path / "posts.csv", "--format", "csv", "--sampler", "simulated", "--database", url)
    assert kept == plain
    db = Database(url)
    (batch,) = list_batches(db, LOCAL_USER)
    recorded = recorded_batch(db, LOCAL_USER, batch.id)
    assert [item.id for item in recorded.items] == ["a", "b", "c"] and recorded.pending == 0
    assert recorded.book.draws >= 3 * 72 and "not stated" in recorded.intake["provenance"]
    db.close()
    assert (
        main(["evaluate", str(tmp_path / "posts.csv"), "--format", "csv", "--database", url, "--sampler", "none"]) == 2
    )
