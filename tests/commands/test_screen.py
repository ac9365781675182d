"""`screen`: files as people produce them go in, and every row comes out once, decided, escalated or rejected."""

import csv
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from storage.audit_log import events
from storage.database import Database
from tests.fixtures.bad_inputs import bad_inputs
from tests.stub_server.plan import Fault, StubPlan
from tests.stub_server.server import StubServer

BAD_CSV = Path(__file__).parent.parent / "fixtures" / "bad_csv"
StartStub = Callable[[StubPlan], StubServer]


class Screened:
    """What one run of the command left behind."""

    def __init__(self, folder: Path, out: str, err: str) -> None:
        self.summary: dict[str, Any] = json.loads(out.splitlines()[-1])
        self.told = err
        lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        with (folder / "results.rejected.csv").open(encoding="utf-8", newline="") as file:
            self.rejected = list(csv.DictReader(file))

    def outcomes(self) -> dict[str, str]:
        return {row["id"]: row["outcome"] for row in self.rows}

    def reconcile(self) -> None:
        """Rows in = accepted + rejected, and every accepted row has exactly one result."""
        summary = self.summary
        assert summary["rows_in"] == summary["accepted"] + summary["rejected"]
        assert (len(self.rows), len(self.rejected)) == (summary["accepted"], summary["rejected"])
        ended = [summary[name] for name in ("safe", "unsafe", "human_review", "pending")]
        assert sum(ended) == summary["accepted"]
        assert summary["calls"] - summary["lost_calls"] == sum(row["calls"] for row in self.rows)
        numbers = [row["row"] for row in self.rows] + [int(row["row"]) for row in self.rejected]
        assert sorted(numbers) == list(range(1, summary["rows_in"] + 1))


@pytest.fixture
def screened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Screened]:
    def run(file: Path, *arguments: str) -> Screened:
        out = tmp_path / "results.jsonl"
        code = main(["screen", str(file), "--out", str(out), "--json", "--patience", "0", *arguments])
        result = Screened(tmp_path, *capsys.readouterr())
        assert code == (3 if result.summary["pending"] else 0)
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("results.*")} == {0o600}
        result.reconcile()
        return result

    return run


def _texts(tmp_path: Path, texts: dict[str, str]) -> Path:
    """A JSON file: it can hold every text, lone surrogates included."""
    file = tmp_path / "texts.json"
    file.write_text(json.dumps([{"id": name, "text": text} for name, text in texts.items()]), encoding="utf-8")
    return file


@pytest.mark.parametrize(("name", "rejected"), [("ok", {}), ("cp1252", {}), ("extra_comma_one", {"2": "extra_cells"})])
def test_every_row_of_a_file_is_accounted_for(
    screened: Callable[..., Screened], name: str, rejected: dict[str, str]
) -> None:
    """What becomes of the rows of every other bad file is in the golden files."""
    result = screened(BAD_CSV / f"{name}.csv", "--sampler", "simulated")
    assert {row["row"]: row["reason"] for row in result.rejected} == rejected


def test_a_file_that_cannot_be_read_and_a_budget_that_can_never_decide_are_refused_before_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "results.jsonl"
    assert main(["screen", str(BAD_CSV / "unterminated.csv"), "--out", str(out)]) == 2
    assert "Line 2: a quote opens here" in capsys.readouterr().err and not out.exists()
    monkeypatch.setenv("SECOND_LOOK_PRESET", "paper")
    monkeypatch.setenv("SECOND_LOOK_BUDGET", "50")
    assert main(["screen", str(BAD_CSV / "ok.csv"), "--out", str(out)]) == 2
    assert "the minimum is 72 calls" in capsys.readouterr().err and not out.exists()


def test_no_bad_text_is_safe_that_must_not_be_whatever_the_model_says(
    screened: Callable[..., Screened], stub: StartStub, tmp_path: Path
) -> None:
    stub(StubPlan(weights={"safe": 1.0}))  # a model that finds everything safe
    inputs = bad_inputs()
    texts = _texts(tmp_path, {one["id"]: one["text"] for one in inputs})
    result = screened(texts, "--sampler", "anthropic")
    outcomes, reasons = result.outcomes(), {row["id"]: row["reason"] for row in result.rows}
    by_the_text = ("one_char", "emoji_only", "rtl_override", "tag_chars", "leet", "spaced", "lone_surrogate")
    refused = [*by_the_text, *(name for name in outcomes if name.startswith(("inject_", "lang_")))]
    assert {name: outcomes[name] for name in refused} == dict.fromkeys(refused, "human_review")
    assert reasons["long_1mb"] == "too_long" and reasons["lang_2"] == "unsupported_language"
    assert [row["id"] for row in result.rejected] == ["zwsp_only"]

    simulated = screened(texts, "--sampler", "simulated").outcomes()
    forbidden = [one["id"] for one in inputs if "must not be 'safe'" in one["expect"]]
    assert len(forbidden) > 12 and not [name for name in forbidden if simulated[name] == "safe"]
    assert simulated["clin_0"] == "safe" and simulated["soft_hyphen"] == "unsafe"


def test_the_wire_carries_what_the_paper_asked_with_and_usage_is_summed(
    screened: Callable[..., Screened], stub: StartStub, tmp_path: Path
) -> None:
    server = stub(StubPlan(latency_s=1.0))
    result = screened(_texts(tmp_path, {"1": "We watched a film and had dinner together."}), "--sampler", "anthropic")
    assert result.outcomes() == {"1": "safe"}
    asked = server.counters
    assert asked.requests == result.summary["calls"] == 11 and asked.max_in_flight >= 6  # draw batches of 6 and 5
    assert asked.headers[-1]["anthropic-version"] == "2023-06-01"
    assert (asked.bodies[-1]["temperature"], asked.bodies[-1]["max_tokens"]) == (0.7, 10)
    assert result.summary["cost_usd"] is None  # a server of one's own: the price is not known, and not 0


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [(Fault.REFUSAL, "human_review", "no_answer"), (Fault.MALFORMED, "pending", "malformed")],
)
def test_answers_that_cannot_be_used_never_end_safe(
    screened: Callable[..., Screened], stub: StartStub, tmp_path: Path, fault: Fault, outcome: str, reason: str
) -> None:
    """What each fault of a reply ends as is tried in tests/models."""
    stub(StubPlan(faults={fault: 1.0}))
    result = screened(_texts(tmp_path, {"1": "We watched a film and had dinner together."}), "--sampler", "anthropic")
    assert (result.outcomes(), result.rows[0]["reason"]) == ({"1": outcome}, reason)
    if outcome == "pending":
        assert result.summary["calls"] == result.summary["lost_calls"] > 0, "answered, paid for, and of no use"


def test_the_same_seed_gives_the_same_results_in_any_database(
    screened: Callable[..., Screened], tmp_path: Path
) -> None:
    kept = screened(BAD_CSV / "ok.csv", "--seed", "7", "--database", f"sqlite:///{tmp_path}/kept.db")
    assert kept.rows == screened(BAD_CSV / "ok.csv", "--seed", "7").rows and (tmp_path / "kept.db").exists()


def test_results_of_a_kept_inbox_are_hidden_on_request_and_otherwise_count_as_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _texts(tmp_path, {"1": "x"})  # one character: no agent is asked, a person is to look
    out, kept = tmp_path / "results.jsonl", ["--database", f"sqlite:///{tmp_path}/kept.db"]
    for options, outcome, warned in (([], "human_review", False), (kept, "human_review", True)):
        assert main(["screen", str(file), "--out", str(out), *options]) == 0
        assert ("in this database: 1." in capsys.readouterr().err) is warned
        assert json.loads(out.read_text(encoding="utf-8"))["outcome"] == outcome
    assert main(["screen", str(file), "--out", str(out), "--hide-in-review", *kept]) == 0
    assert "in this database" not in capsys.readouterr().err
    row = json.loads(out.read_text(encoding="utf-8"))
    assert (row["id"], row["outcome"], row["calls"]) == ("1", "in review", None)
    assert row["node"] is None and row["reason"] is None and row["cost_usd"] is None
    assert _exports(kept[1]) == ["local results", "local rejected"] * 2


def test_the_summary_counts_what_the_ai_did_whatever_the_rows_hide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_LOOK_AUDIT_RATE", "1")
    file, out = _texts(tmp_path, {"1": "The weather was nice today."}), tmp_path / "results.jsonl"
    options = ["--json", "--database", f"sqlite:///{tmp_path}/kept.db"]
    for hide in ([], ["--hide-in-review"]):
        assert main(["screen", str(file), "--out", str(out), *options, *hide]) == 0
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert [summary["safe"], summary["human_review"]] == [1, 0]


def _exports(url: str) -> list[str]:
    """Who took which kind of file out, in order."""
    db = Database(url)
    found = events(db, LOCAL_USER, action="exported")
    db.close()
    return [f"{one.actor} {one.details['kind']}" for one in reversed(found)]


def _severities(tmp_path: Path) -> Path:
    file = tmp_path / "users.csv"
    labels = ("Supportive", "Indicator", "Ideation", "Behavior", "Attempt")
    rows = "".join(f"user-{n % 7},post number {n},a comment,{labels[n % 5]},r{n % 2}\n" for n in range(20))
    file.write_text(f"User,Post,comment,Severity,board\n{rows}", encoding="utf-8")
    return file


MAPPED = ("--text-column", "post", "--label-column", "severity", "--labels",
          "ideation=unsafe,Behavior=unsafe,Attempt=unsafe,Supportive=safe,Indicator=none")  # fmt: skip


def test_columns_and_labels_are_mapped_by_options_said_first_and_kept(
    screened: Callable[..., Screened], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kept = _severities(tmp_path), tmp_path / "mapping.json"
    assert main(["screen", str(file), "--out", str(tmp_path / "none.jsonl")]) == 2
    assert "2 columns could be the text: Post, comment" in capsys.readouterr().err
    result = screened(file, *MAPPED, "--save-mapping", str(kept))
    assert "text: 'Post'" in result.told and "'Ideation' (4 rows) is unsafe" in result.told
    assert "'Indicator' (4 rows) is no reference" in result.told
    assert [row["reference"] for row in result.rows[:5]] == ["safe", None, "unsafe", "unsafe", "unsafe"]
    assert result.rows[2]["reference_value"] == "Ideation" and result.rows[8]["group"] == "user-1"
    assert [row["id"] for row in result.rows] == [str(number) for number in range(1, 21)]  # users have several posts
    again = screened(file, "--mapping", str(kept), "--group-column", "board")
    assert [row["reference"] for row in again.rows] == [row["reference"] for row in result.rows]
    assert again.rows[3]["group"] == "r1"


def test_several_columns_are_joined_and_wrong_options_are_refused(
    screened: Callable[..., Screened], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.csv"
    file.write_text("id,text,text,class\n1,a quiet day,I want to die tonight,x\n", encoding="utf-8")
    joined = ("--text-column", "text (column 2)", "--text-column", "text (column 3)")
    assert screened(file, *joined).outcomes()["1"] != "safe"
    out = ("--out", str(tmp_path / "none.jsonl"))
    for options, words in (
        (("--text-column", "text"), "2 columns are called 'text'"),
        (("--text-column", "words"), "no column 'words'"),
        ((*joined, "--labels", "y=unsafe"), "no row has the label 'y'"),
        ((*joined, "--labels", "x=escalate"), "is none of NAME=safe"),
        ((*joined, "--labels", "x=safe,X=unsafe"), "'X' is named twice"),
        ((*joined, "--sheet", "One"), "not a workbook"),
    ):
        assert main(["screen", str(file), *out, *options]) == 2
        assert words in capsys.readouterr().err


def test_a_row_that_cannot_be_read_and_states_a_risk_is_in_the_queue_and_in_red(
    screened: Callable[..., Screened], tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,text\n,I am going to kill myself tonight\n2,a walk\n3,[removed]\n", encoding="utf-8")
    result = screened(file, "--sampler", "simulated")
    assert (result.summary["accepted"], result.summary["rejected"], result.summary["not_screened"]) == (2, 1, 1)
    assert [(row["outcome"], row["reason"], row["calls"]) for row in result.rows[:1]] == [
        ("human_review", "row_rejected", 0)
    ]
    assert "NOT SCREENED: 1 row" in result.told
    file.write_text("id,text\n1,[removed]\n", encoding="utf-8")
    assert main(["screen", str(file), "--out", str(tmp_path / "o.jsonl"), "--sampler", "simulated"]) == 4
