"""`evaluate` on files: the paper's rows from their counts, the published shapes, and reports of what is missing."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from openpyxl import Workbook
from sqlalchemy import select

from commands.__main__ import main
from jobs.evaluating import ask_of, evaluate_batch
from pages.ui.downloads import CORRECTED_LABELS
from screening.pipeline.config import chain
from screening.pipeline.files import write_pipeline
from screening.review.actors import LOCAL_USER
from screening.stopping.rules import MajorityVote
from storage.batches.batches import list_batches
from storage.database import Database
from storage.research.recordings import recorded_batch
from storage.schema import cases, inbox_entries
from tests.jobs.processes import ROOT, wait_for
from tests.processes import usual_handlers

COUNT_ROWS = (  # name, N, safe decided, FP, unsafe decided, FN; then accuracy, FPR, FNR, escalation as printed
    ("AEGIS B=100", 161, 42, 4, 113, 32, 0.768, 0.095, 0.283, 0.037),
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


def test_any_budget_any_vote_early_termination_and_a_file_are_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = agents_csv(tmp_path / "agents.csv", 4, 2, 0, 1, 0)
    pipeline = tmp_path / "one.toml"
    written = write_pipeline(chain("one vote", MajorityVote(n=1), "human_review"))
    pipeline.write_text(written, encoding="utf-8")
    names = ["--conditions", "MV n=7,B=60,B=90 early", "--pipeline", pipeline]
    found = evaluated(capsys, file, "--format", "csv", *names)
    assert list(found) == ["MV n=7", "B=60", "B=90 early", "one vote"]
    assert found["MV n=7"]["mean_calls"] == (3 * 7 + 3 * 7) / 4  # the last text goes on to all three agents
    assert found["B=60"]["escalation_rate"] == 1.0 and found["B=90 early"]["accuracy"] == 1.0


TALK = {"id": "a", "label": "unsafe", "p_safe": 1, "p_unsafe": 0, "p_escalate": 0, "messages": [
    {"role": "user", "content": "hello"}, {"role": "user", "content": "I want to die"}]}  # fmt: skip
AS_TALK = ("--text-column", "messages", "--conversations", "messages", "--judged", "each_user")


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("id,text,label\n", (), "a header but no rows"),
        ("id,text,label\na,Some text,\n", (), "no row has a reference label"),
        ("id,text,label\na,Some text,safe\n", ("--conditions", "B=75,B=0"), "no condition B=0; there are single-agent"),
        (json.dumps(TALK), AS_TALK, "the probabilities in p_safe, p_unsafe and p_escalate belong to rows"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_the_reason(
    content: str, options: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ("talk.jsonl" if options is AS_TALK else "posts.csv")
    file.write_text(content, encoding="utf-8")
    assert main(["evaluate", str(file), "--format", "csv", "--sampler", "simulated", *options]) == 2
    told = capsys.readouterr()
    assert told.out == "" and words in told.err


def test_what_it_may_cost_is_told_first_and_nobody_is_asked_beyond_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "posts.csv").write_text("id,text,label\na,Had soup for lunch.,safe\n", encoding="utf-8")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")  # a call would fail, and say so
    asked = ["evaluate", str(tmp_path / "posts.csv"), "--format", "csv", "--sampler", "anthropic"]
    assert main([*asked, "--conditions", "MV n=3", "--max-usd", "0.0001"]) == 3
    said = capsys.readouterr().err
    assert "about 3 calls to make, for about $0.01" in said and "1 case is short of draws: max_usd" in said


def test_a_corrected_data_set_is_read_by_its_final_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        ",".join(CORRECTED_LABELS.columns),
        "c1,1,k1,A text,,g,safe,safe,file,safe,,unsafe,unsafe,clinician,False,v1,2026,m,p,x,r,0.05,c,",
        "c2,2,k2,A second text,,g,safe,safe,file,safe,,,safe,file,False,v1,2026,m,p,x,r,0.05,c,",
    ]
    (tmp_path / "corrected_labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = [tmp_path / "corrected_labels.csv", "--format", "csv", "--sampler", "simulated", "--conditions", "MV n=1"]
    assert evaluated(capsys, *asked)["MV n=1"]["n"] == 2
    main(["evaluate", *map(str, asked)])
    assert "reference labels: 1 unsafe, 1 safe; from column “final_label”" in capsys.readouterr().err


@pytest.mark.timeout(120)
def test_a_stopped_recording_goes_on_where_it_was(tmp_path: Path) -> None:
    rows = [f"c{each},An ordinary text number {each},safe" for each in range(60)]
    (tmp_path / "posts.csv").write_text("\n".join(["id,text,label", *rows]) + "\n", encoding="utf-8")
    draws = tmp_path / "draws.jsonl"
    words = [sys.executable, "-m", "screening", "evaluate", str(tmp_path / "posts.csv"), "--format", "csv"]
    words += ["--sampler", "simulated", "--conditions", "MV n=5", "--record", str(draws)]
    slow = os.environ | {"SECOND_LOOK_SIMULATED_LATENCY_S": "0.4", "SECOND_LOOK_CASES_IN_FLIGHT": "2"}
    with subprocess.Popen(
        words, cwd=ROOT, env=slow, stderr=subprocess.PIPE, text=True, preexec_fn=usual_handlers
    ) as started:
        wait_for(lambda: (draws.exists() and draws.stat().st_size > 0) or started.poll() is not None, 60)
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGTERM and "Traceback" not in said
    kept = sum(len(json.loads(line)["draws"]) for line in draws.read_text(encoding="utf-8").splitlines())
    assert 0 < kept < 300
    again = subprocess.run(words, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=True)
    assert f"goes on after {kept} draws" in again.stderr and f"{300 - kept} draws fetched, 300 recorded" in again.stderr


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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_LOOK_AUDIT_RATE", "0")  # else a text labeled safe is in the queue by chance
    lines = [
        "id,text,label,url",
        "d,I want to die tonight.,unsafe,chat/8,one cell too many",
        "a,Had soup for lunch and went for a walk.,safe,",
        "b,I want to die tonight.,unsafe,chat/7",
        "e,,safe,",
        "c,Nice weather at the lake today.,safe,",
    ]
    (tmp_path / "posts.csv").write_text("\n".join(lines) + "\n", "utf-8")
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    plain = evaluated(capsys, tmp_path / "posts.csv", "--format", "csv", "--sampler", "simulated")
    place = ("--where-column", "url", "--database", url)
    kept = evaluated(capsys, tmp_path / "posts.csv", "--format", "csv", "--sampler", "simulated", *place)
    assert main(["evaluate", str(tmp_path / "posts.csv"), "--format", "csv", "--conditions", "MV n=1"]) == 0
    assert "NOT SCREENED: d. " in capsys.readouterr().err
    assert kept == plain and {row["n"] for row in kept.values()} == {3}
    db = Database(url)
    (batch,) = list_batches(db, LOCAL_USER)
    recorded = recorded_batch(db, LOCAL_USER, batch.id)
    assert [item.id for item in recorded.items] == ["a", "b", "c", "d"] and recorded.pending == 0
    assert db.values(select(cases.c.where_to_act).order_by(cases.c.row)) == [None, "chat/7", None, None]
    assert recorded.book.draws >= 3 * 72 and "not stated" in batch.intake["provenance"]
    assert ["escalated to a clinician: cannot be read as it should, and states a risk", 1] in batch.intake["steps"]
    in_queue = select(cases.c.external_id, cases.c.not_screened).join(inbox_entries).order_by(cases.c.row)
    ids, reasons = zip(*db.rows(in_queue), strict=True)
    assert ids == ("b", "d") and reasons[0] is None and reasons[1]
    found = evaluate_batch(db, ask_of(db, LOCAL_USER, batch.id))  # what no model was shown leaves no condition short
    assert len(found.comparable) == len(found.results) and {each.metrics.n for each in found.results} == {3}
    db.close()
    assert (
        main(["evaluate", str(tmp_path / "posts.csv"), "--format", "csv", "--database", url, "--sampler", "none"]) == 2
    )
