"""The evaluation page: numbers are the experiment's, undefined is said, and the sliders replay at once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select, update
from streamlit.testing.v1 import AppTest

from commands.__main__ import main
from jobs import evaluating
from jobs.evaluating import experiment
from pages.research.evaluation_view import results_frame, sweep_counts, what_if_figures
from pages.research.figures import Series, curves, histogram
from screening.evaluation.experiments import Condition, WhatIf, budget_conditions, encode_items
from screening.evaluation.metrics import Metrics
from screening.evaluation.recording import Item, read_draws
from screening.evaluation.replay import OUTCOMES, Record
from screening.evaluation.tables import ResultsTable
from screening.labels import Label, Outcome
from screening.pipeline.draws import ScreenedText
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from storage.database import Database
from storage.research.cells import confusions
from storage.research.recordings import guards_in, recorded_batch
from storage.research.standing import batch_now
from storage.schema import cases, node_runs, screenings
from tests.databases import write
from tests.pages.conftest import Opener, restart
from tests.pages.researched import asked, review, sample_rows, screened
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import ANN, RESEARCHER

TURNED = "s901,Does anyone have notes from \u202eTuesday's biology lecture?,,safe,school\n".encode()


@pytest.fixture
def batch_id(page_database: Database) -> str:
    return screened(page_database, sample_rows(every=4))


def open_tab(app: AppTest, tab: str) -> AppTest:
    app.session_state["evaluation_tab"] = tab
    app.run()
    assert not app.exception and not app.error, (tab, app.exception)
    return app


def test_the_table_holds_the_ten_conditions_ours_and_the_batch_s_own_for_those_who_may_see_it(
    page_database: Database, batch_id: str
) -> None:
    """The same for everybody and also once its cases are reviewed."""
    ask = asked(page_database, batch_id)
    found = evaluating.evaluate_batch(page_database, ask)
    frame = results_frame(ResultsTable(title="", provenance="", rows=found.results))
    assert len(frame) == 15 and list(frame["Condition"])[-1] == "Your run"
    assert found.made > 0 and not frame["Unsettled"].any()
    undefined = frame[frame["Condition"] == "B=50"].iloc[0]
    assert undefined["Accuracy"] == "none: 0 of 0" and undefined["FNR"] == "none: 0 of 0"
    assert undefined["Escalated"].startswith("100.0% (95% CI") and undefined["n"] == 30
    for function in (evaluating.evaluate_batch, evaluating.list_missed, evaluating.count_gaps):
        with pytest.raises(Forbidden):
            function(page_database, replace(ask, actor=ANN))
    of_another = evaluating.evaluate_batch(page_database, asked(page_database, batch_id, who=RESEARCHER))
    review(page_database, "safe", "unsafe", most=4)
    reviewed = evaluating.evaluate_batch(page_database, asked(page_database, batch_id))
    assert found.results == of_another.results == reviewed.results


def test_paid_calls_are_one_number_also_where_a_batch_went_past_the_first_hopeless_draw(
    page_database: Database, batch_id: str
) -> None:
    """What the batch did counts all that was paid; its rule replayed counts to the first hopeless draw."""
    ask = asked(page_database, batch_id)
    found = evaluating.evaluate_batch(page_database, ask)
    runs = page_database.rows(select(node_runs).where(node_runs.c.batch_id == batch_id))
    assert any(one.ended == "futility" for one in runs) and all(one.calls == len(one.draws) for one in runs)
    paid = sum(one.calls for one in runs)
    assert paid == page_database.value(select(func.sum(screenings.c.calls))) == found.results[-1].metrics.calls
    assert paid == batch_now(page_database, LOCAL_USER, batch_id).settled[-1]
    drawn = experiment(page_database, ask)
    replayed = drawn.drawn.measure(drawn.own)[0].metrics.calls
    assert replayed is not None and replayed < paid

    def safe(confirm: bool) -> int:
        trial = WhatIf(
            safe_given_unsafe=0.001, other_errors=0.025, budget=100, abstentions_go_on=False, confirm_safe=confirm
        )
        measured, told = drawn.drawn.measure(Condition(name="x", pipeline=trial.pipeline()))
        assert not measured.unsettled
        return int((told.outcome == OUTCOMES.index(Outcome.SAFE)).sum())

    assert 0 < safe(True) <= safe(False), "confirming safe makes no more texts safe"


def test_where_few_draws_were_recorded_there_are_limits_and_no_comparison(
    open_page: Opener, page_database: Database
) -> None:
    batch(page_database, ["a quiet day", "a long walk", "a late train", "an early night"], references="SUSU")
    for case_id in waiting(page_database):
        decide(page_database, case_id)
    app = open_page("evaluation")
    hundred = next(row for row in app.dataframe[0].value.to_dict("records") if row["Condition"] == "B=100")
    assert hundred["Unsettled"] == 4 and hundred["FNR"] == "not known: 2 unsettled; 0.0-100.0%"
    assert hundred["Mean calls"] == "not known" and app.warning
    for tab in ("Budget sweep", "Calls and tokens", "What if", "Cases", "Compare"):
        open_tab(app, tab)
    assert app.selectbox(key="compare_one").value == "single-agent"
    assert "B=100" not in app.selectbox(key="compare_other").options
    assert "n = 4" in " ".join(app.dataframe[0].value.astype(str).to_numpy().ravel())


def test_the_missing_draws_alone_are_asked_for_with_the_batch_s_own_file(
    page_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of the page, and the command that it names, on the file that was uploaded."""
    rows = sample_rows(every=16)
    batch_id = screened(page_database, rows)
    source, draws, whole = tmp_path / "rows.csv", tmp_path / "draws.jsonl", tmp_path / "all.jsonl"
    source.write_bytes(rows)
    draws.write_text(evaluating.draw_file(page_database, asked(page_database, batch_id)))
    found = recorded_batch(page_database, LOCAL_USER, batch_id)
    options = ["--draws", str(draws), "--record", str(whole), "--sampler", "simulated", "--conditions", "all"]
    assert main(["evaluate", str(source), "--format", "csv", *options, "--json"]) == 0
    printed = capsys.readouterr()
    assert not any(row["unsettled"] for row in json.loads(printed.out)["conditions"])
    with whole.open() as lines:
        after = read_draws(lines, found.items)
    assert after.draws > found.book.draws > 0
    assert f"{after.draws - found.book.draws:,} draws fetched" in printed.err
    for key, one in found.book.nodes.items():
        assert after.nodes[key].codes.startswith(one.codes)


def test_errors_and_evaluation_count_the_same_cases(page_database: Database) -> None:
    """One text turns its own direction round, which forbids safe; the rules alone would call it that."""
    batch_id = screened(page_database, sample_rows(every=2) + TURNED)
    own = evaluating.evaluate_batch(page_database, asked(page_database, batch_id)).results[-1].metrics
    counted = {(str(key[0]), str(key[1])): cases for key, cases in own.confusion.items() if cases}
    assert counted == confusions(page_database, RESEARCHER, batch_id).original
    found = experiment(page_database, asked(page_database, batch_id))
    rules = Condition(name="rules", pipeline=found.batch.configuration.pipeline)
    guards = guards_in(page_database, LOCAL_USER, batch_id, found.batch.rows)
    bare, guarded = (found.drawn.measure(rules, each)[0].metrics for each in (None, guards))
    assert bare.confusion != guarded.confusion == own.confusion
    # a run may have paid for draws after the first that left no hope; its replay does not count them
    assert 0.9 * own.calls < guarded.calls <= own.calls


def test_a_sweep_says_how_many_texts_each_point_is_of() -> None:
    codes = ["SSSSSSSSSSS"] * 3 + ["UUUUUU"] * 3 + ["SUE" * 6] * 4  # the four mixed ones soon want more than is there
    labels = [Label.SAFE] * 3 + [Label.UNSAFE] * 7
    items = [Item(id=str(n), text=ScreenedText(text=""), reference=label, group=None) for n, label in enumerate(labels)]
    record = Record.from_codes(dict.fromkeys(("worker", "risk", "legal"), codes))
    sweep = [(budget, condition) for budget, condition in budget_conditions("pairwise") if budget in (6, 50, 100)]
    results = [encode_items(items, record).measure(condition)[0] for _, condition in sweep]
    assert sweep_counts([6], results[:1]) == "n = 10 at every budget"
    told = sweep_counts([6, 50, 100], results)
    assert told.startswith("n = 10 at every budget") and told.endswith("B = 50: 4, B = 100: 4")


def test_the_page_shows_the_table_compares_and_replays_a_what_if(open_page: Opener, batch_id: str) -> None:
    app = open_page("evaluation")
    assert not app.exception and app.query_params["batch"] in (batch_id, [batch_id])
    assert len(app.dataframe[0].value) == 15 and not app.metric, "what is in another tab is not computed"
    assert evaluating.OWN in open_tab(app, "Compare").selectbox(key="compare_other").options
    open_tab(app, "Calls and tokens")
    before = {each.label: each for each in open_tab(app, "What if").metric}
    assert set(before) == {"FNR", "FPR", "Escalated", "Mean calls", "Reviews a day"}
    assert all(each.delta.startswith("your run ") for each in before.values())
    app.slider[0].set_value(6).run()
    after = {each.label: each for each in app.metric}
    assert float(after["Mean calls"].value) < float(before["Mean calls"].value)
    assert float(after["Escalated"].value.rstrip("%")) > float(before["Escalated"].value.rstrip("%"))


def test_the_reviews_a_day_hold_what_is_labeled_unsafe() -> None:
    """100 texts, 20 labeled unsafe and 30 escalated: 50 and 5% of 50, of 1,000 ten times that."""
    outcomes = (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW)
    ended = {Label.SAFE: (45, 5, 20), Label.UNSAFE: (5, 15, 10)}
    counts = {(label, one): n for label, row in ended.items() for one, n in zip(outcomes, row, strict=True)}
    shown, rests = what_if_figures(Metrics(confusion=counts), 1_000, 0.05)["Reviews a day"]
    assert shown == "525" and rests.startswith("95% CI 434 to 616: ")


def test_what_every_condition_missed_is_listed_and_read(open_page: Opener, page_database: Database) -> None:
    batch_id = screened(page_database, sample_rows(), audit_rate=0.0)
    app = open_tab(open_page("evaluation", batch=batch_id), "Cases")
    app.session_state["evaluation_cases"] = "Missed by every condition"
    app.run()
    missed = evaluating.list_missed(page_database, asked(page_database, batch_id))
    assert missed.deciding == 13 and missed.cases[0] == dict(missed.by_number).get(13, 0)  # not B=10 and B=50
    number, ids = evaluating.list_missed(page_database, asked(page_database, batch_id), 1).cases
    assert len(ids) == number == sum(texts for _, texts in missed.by_number)
    listed = app.dataframe[0].value
    assert len(listed) and set(listed["Original label"]) == {"unsafe"} and set(listed["Outcome"]) <= {"labeled safe"}
    app.query_params["case"] = page_database.value(select(cases.c.id).where(cases.c.external_id == listed["ID"][0]))
    app.run()
    assert not app.exception and any(button.label == "Next" for button in app.button)


@pytest.mark.usefixtures("batch_id")
def test_a_large_batch_is_computed_beside_the_server_with_the_same_figures(
    open_page: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = open_page("evaluation").dataframe[0].value
    restart()
    monkeypatch.setattr("pages.ui.compute.AT_ONCE", 0)
    app = open_page("evaluation")
    assert app.dataframe[0].value.equals(here) and not app.info
    assert open_tab(app, "Cases").dataframe


@pytest.mark.usefixtures("batch_id")
def test_what_cannot_be_computed_is_told(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pages.ui.compute.AT_ONCE", 0)
    write(page_database, update(node_runs).values(draws="x"))  # no code that this version knows
    app = open_page("evaluation")
    assert not app.exception and not app.info and not app.dataframe and "ValueError" in app.error[0].value


def test_of_more_texts_than_draws_are_made_for_each_figure_is_that_of_an_independent_count(
    page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the record settles, and what it leaves open, by a plain loop."""
    monkeypatch.setattr(evaluating, "MOST_EXTENDED", 119)
    batch_id = screened(page_database, sample_rows(), audit_rate=0.0)
    found = evaluating.evaluate_batch(page_database, asked(page_database, batch_id))
    assert found.cases == found.labelled == 120 and not found.made
    told = page_database.rows(select(cases.c.id, cases.c.reference, screenings).join(screenings))
    own = found.results[-1].metrics
    for rate, wrong, of in ((own.fnr, "safe", "unsafe"), (own.fpr, "unsafe", "safe")):
        decided = [row.outcome for row in told if row.reference == of and row.outcome != "human_review"]
        assert (rate.numerator, rate.denominator) == (decided.count(wrong), len(decided))
    assert own.escalation_rate.numerator == sum(row.outcome == "human_review" for row in told)
    assert own.calls == sum(row.calls for row in told)
    run = node_runs.c
    codes = dict(page_database.rows(select(run.case_id, run.draws).where(run.node == "worker")))
    labels = dict(page_database.rows(select(cases.c.id, cases.c.reference)))
    said = {case_id: {"S": "safe", "U": "unsafe"}.get(drawn[0]) for case_id, drawn in codes.items() if drawn}
    single = next(each for each in found.results if each.name == "single-agent")
    assert single.unsettled == 120 - len(said)
    unsafe = [said[case_id] for case_id in said if labels[case_id] == "unsafe" and said[case_id]]
    rate = single.metrics.fnr
    assert (rate.numerator, rate.denominator) == (unsafe.count("safe"), len(unsafe))
    assert rate.unsettled == sum(labels[case_id] == "unsafe" for case_id in labels if case_id not in said)


def test_an_undefined_value_takes_no_place() -> None:
    series = Series(name="a", x=[1, 2], y=[None, 0.5], names=["none", "some"], mode="markers")
    (trace,) = curves([series], "What it costs", "calls", "accuracy", x_log=True, y_percent=True).data
    assert trace.y[0] is None and trace.text[1] == "some"


def test_a_histogram_counts_every_value_the_largest_in_the_last_part() -> None:
    """Texts on whose label all draws agree have a gap of 1: most texts, in most batches."""
    (trace,) = histogram([(0.0, 5), (0.15, 1), (0.3, 2), (0.95, 3), (1.0, 17)], 20, "Margins", "margin", "texts").data
    assert sum(trace.y) == 28 and (trace.y[0], trace.y[3], trace.y[6], trace.y[19]) == (5, 1, 2, 20)
