"""`evaluate` on files: the paper's rows from their counts, the published shapes, and reports of what is missing."""

import csv
import json
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from jobs.evaluating import ask_of, evaluate_batch
from pages.ui.downloads import CORRECTED_LABELS
from screening.pipeline.config import chain
from screening.pipeline.files import write_pipeline
from screening.review.policy import LOCAL_USER
from screening.stopping.rules import MajorityVote
from storage.batches.batches import list_batches
from storage.database import Database
from storage.research.recordings import recorded_batch
from storage.schema import cases, inbox_entries
from tests.commands.conftest import Run, StartStub
from tests.stub_server import StubPlan

Row = dict[str, float | None]
COUNT_ROWS = (  # name, N, safe decided, FP, unsafe decided, FN; then accuracy, FPR, FNR, escalation as printed
    ("AEGIS B=100", 161, 42, 4, 113, 32, 0.768, 0.095, 0.283, 0.037),
    ("SWMH B=100", 250, 198, 45, 50, 5, 0.798, 0.227, 0.100, 0.008),
)


def agents_csv(folder: Path, n: int, safe: int, false_positives: int, unsafe: int, false_negatives: int) -> Path:
    """Agents that are sure of what this row of the paper counts: one text a case."""
    rows = [("safe", "unsafe")] * false_positives + [("safe", "safe")] * (safe - false_positives)
    rows += [("unsafe", "safe")] * false_negatives + [("unsafe", "unsafe")] * (unsafe - false_negatives)
    rows += [("unsafe", "escalate")] * (n - safe - unsafe)
    lines = ["id,text,label,p_safe,p_unsafe,p_escalate"]
    for number, (reference, said) in enumerate(rows):
        shares = ",".join(str(int(said == label)) for label in ("safe", "unsafe", "escalate"))
        lines.append(f"c{number},This is text number {number},{reference},{shares}")
    return posts(folder, *lines)


def posts(folder: Path, *lines: str) -> Path:
    (folder / "posts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "posts.csv"


def evaluated(run: Run, *arguments: object) -> dict[str, Row]:
    said = run("evaluate", *arguments, "--format", "csv", "--json")
    assert said.code == 0, said.err
    return {row["condition"]: row for row in said.report["conditions"]}


@pytest.mark.parametrize("row", COUNT_ROWS, ids=lambda row: row[0])
def test_a_data_set_built_from_the_counts_gives_the_paper_s_row(
    row: tuple[str, int, int, int, int, int, float, float, float, float], tmp_path: Path, run: Run
) -> None:
    _, *counts, accuracy, fpr, fnr, escalated = row
    names = ("single-agent", "MV n=1", "MV n=3", "B=100")
    found = evaluated(run, agents_csv(tmp_path, *counts), "--conditions", ",".join(names))
    for name in names:  # agents that are always of one mind are of one mind under every condition
        figures = [found[name][figure] for figure in ("accuracy", "fpr", "fnr", "escalation_rate")]
        assert figures == pytest.approx([accuracy, fpr, fnr, escalated], abs=0.001)
    if row[0] == "AEGIS B=100":  # the paper: 0.095 [0.037, 0.221] and 0.768 [0.695, 0.827]
        limits = [found["B=100"][f"{figure}_{end}"] for figure in ("fpr", "accuracy") for end in ("low", "high")]
        assert limits == pytest.approx([0.037, 0.221, 0.695, 0.827], abs=0.001)


def test_the_ten_conditions_and_ours_are_written_as_csv_and_latex_and_the_card_names_no_model_that_was_not_asked(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    file, table, latex = agents_csv(tmp_path, 6, 3, 1, 2, 1), tmp_path / "table.csv", tmp_path / "table.tex"
    shown = run("evaluate", file, "--format", "csv", "--out", table, "--latex", latex, "--capsule", tmp_path)
    about = json.loads((tmp_path / "about.json").read_text(encoding="utf-8"))
    assert (about["agents"], about["model"]) == ("the file's distributions", None)
    with table.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["condition"] for row in rows][:5] == ["single-agent", "MV n=1", "MV n=3", "MV n=5", "B=10"]
    assert len(rows) == 14
    undefined = next(row for row in rows if row["condition"] == "B=50")
    assert undefined["accuracy"] == "" and undefined["fnr"] == "" and undefined["escalation_rate"] == "1.0"
    assert all("not stated" in row["references_from"] for row in rows)
    assert r"B=50 & --- & --- & --- & 1.000 [0.610, 1.000] & 144.0 & ---" in latex.read_text(encoding="utf-8")
    assert "none: 0 of 0" in shown.out and "undefined" not in shown.out and "no model was asked" in shown.err


def test_recorded_draws_are_replayed_offline_and_what_is_missing_is_reported_and_fetched(
    tmp_path: Path, run: Run
) -> None:
    file, draws = agents_csv(tmp_path, 6, 3, 1, 2, 1), tmp_path / "draws.jsonl"
    offline = ("--sampler", "none", "--draws", draws)
    live = evaluated(run, file, "--record", draws)
    assert evaluated(run, file, *offline) == live
    shortened = [json.loads(line) for line in draws.read_text(encoding="utf-8").splitlines()]
    draws.write_text("".join(json.dumps({**one, "draws": one["draws"][:20]}) + "\n" for one in shortened), "utf-8")
    short = evaluated(run, file, *offline)
    assert short["B=100"]["unsettled"] == 6 and short["B=100"]["accuracy"] is None
    assert short["recommended"] == live["recommended"]
    again = run("evaluate", file, "--format", "csv", "--record", draws)
    assert f"goes on after {20 * len(shortened)} draws" in again.err
    assert evaluated(run, file, *offline) == live


def test_any_budget_any_vote_early_termination_and_a_file_are_conditions(tmp_path: Path, run: Run) -> None:
    file, pipeline = agents_csv(tmp_path, 4, 2, 0, 1, 0), tmp_path / "one.toml"
    pipeline.write_text(write_pipeline(chain("one vote", MajorityVote(n=1), "human_review")), encoding="utf-8")
    found = evaluated(run, file, "--conditions", "MV n=7,B=60,B=90 early", "--pipeline", pipeline)
    assert list(found) == ["MV n=7", "B=60", "B=90 early", "one vote"]
    assert found["MV n=7"]["mean_calls"] == (3 * 7 + 3 * 7) / 4  # the last text goes on to all three agents
    assert found["B=60"]["escalation_rate"] == 1.0 and found["B=90 early"]["accuracy"] == 1.0


def test_what_it_may_cost_is_told_first_and_nobody_is_asked_beyond_it(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")  # a call would fail, and say so
    file = posts(tmp_path, "id,text,label", "a,Had soup for lunch.,safe")
    asked = ["evaluate", file, "--format", "csv", "--sampler", "anthropic"]
    said = run(*asked, "--conditions", "MV n=3", "--max-usd", "0.0001")
    assert said.code == 3
    assert "about 3 calls to make, for about $0.01" in said.err and "1 case is short of draws: max_usd" in said.err


def test_a_batch_that_keeps_the_draws_is_bounded_as_well_and_begun_at_no_unknown_price(
    tmp_path: Path, run: Run, stub: StartStub
) -> None:
    url = f"sqlite:///{tmp_path}/kept.db"
    file = posts(tmp_path, "id,text,label", "a,Had soup for lunch.,safe")
    asked = ["evaluate", file, "--format", "csv", "--conditions", "MV n=1", "--database", url, "--max-usd", "5"]
    assert run(*asked, "--sampler", "simulated").code == 0
    server = stub(StubPlan())  # a server of one's own
    said = run(*asked, "--sampler", "anthropic")
    assert said.code == 2 and "calls to make, at a price that is not known" in said.err and not server.counters.requests
    with closing(Database(url)) as db:
        (kept,) = list_batches(db, LOCAL_USER)
    assert kept.progress.caps.max_cost_usd == 5


def test_a_corrected_data_set_is_read_by_its_final_labels(tmp_path: Path, run: Run) -> None:
    file = posts(
        tmp_path,
        ",".join(CORRECTED_LABELS.columns),
        "c1,1,k1,A text,,g,safe,safe,file,safe,,unsafe,unsafe,clinician,False,v1,2026,m,p,x,r,0.05,c,",
        "c2,2,k2,A second text,,g,safe,safe,file,safe,,,safe,file,False,v1,2026,m,p,x,r,0.05,c,",
    )
    said = run("evaluate", file, "--format", "csv", "--sampler", "simulated", "--conditions", "MV n=1")
    assert "reference labels: 1 unsafe, 1 safe; from column “final_label”" in said.err


def test_a_published_data_set_shows_the_call_and_the_hash_of_every_row_drawn(tmp_path: Path, run: Run) -> None:
    names = ("SuicideWatch", "depression", "Anxiety", "bipolar", "offmychest")
    lines = [f"An ordinary post number {number} of {name},self.{name}" for name in names for number in range(4)]
    swmh = ("--format", "swmh", "--per-subreddit", 2, "--json", "--conditions", "ours")
    found = run("evaluate", posts(tmp_path, "text,label", *lines), *swmh).report
    assert len(found["sample"]["sha256"]) == 10 and "random_state=42" in found["sample"]["call"]
    assert found["conditions"][0]["n"] == 10
    assert found["conditions"][0]["subset_fnr_denominator"] <= 2  # SuicideWatch alone


def test_with_a_database_the_draws_are_a_batch_and_the_table_is_the_same(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_LOOK_AUDIT_RATE", "0")  # else a text labeled safe is in the queue by chance
    file = posts(
        tmp_path,
        "id,text,label,url",
        "d,I want to die tonight.,unsafe,chat/8,one cell too many",
        "a,Had soup for lunch and went for a walk.,safe,",
        "b,I want to die tonight.,unsafe,chat/7",
        "e,,safe,",
        "c,Nice weather at the lake today.,safe,",
    )
    url, simulated = f"sqlite:///{tmp_path / 'kept.db'}", ("--sampler", "simulated")
    kept = evaluated(run, file, *simulated, "--where-column", "url", "--database", url)
    assert kept == evaluated(run, file, *simulated) and {row["n"] for row in kept.values()} == {3}
    assert "NOT SCREENED: d. " in run("evaluate", file, "--format", "csv", "--conditions", "MV n=1").err
    with closing(Database(url)) as db:
        (batch,) = list_batches(db, LOCAL_USER)
        book = recorded_batch(db, LOCAL_USER, batch.id)
        assert [item.id for item in book.items] == ["a", "b", "c", "d"] and batch.progress.pending == 0
        assert db.values(select(cases.c.where_to_act).order_by(cases.c.row)) == [None, "chat/7", None, None]
        assert book.draws >= 3 * 72 and "not stated" in batch.intake["provenance"]
        unread = ["escalated to a clinician: cannot be read as it should, and states a risk", 1]
        assert unread in batch.intake["steps"]
        in_queue = select(cases.c.external_id, cases.c.not_screened).join(inbox_entries).order_by(cases.c.row)
        ids, reasons = zip(*db.rows(in_queue), strict=True)
        assert ids == ("b", "d") and reasons[0] is None and reasons[1]
        found = evaluate_batch(db, ask_of(db, LOCAL_USER, batch.id))
    # What no model was shown leaves no condition short.
    assert len(found.comparable) == len(found.results) and {each.n for each in found.results} == {3}
    assert run("evaluate", file, "--format", "csv", "--database", url, "--sampler", "none").code == 2
