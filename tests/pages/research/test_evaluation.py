"""Evaluation, label errors and methods: figures are the experiment's or exact; planted labels are corrected."""

import csv
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from jobs import evaluating
from jobs.label_noise import controls, count_corrected_labels, measure_corrected, order_labels
from jobs.process import system_clock
from pages.research import evaluation_view, figures
from pages.research import theory_numbers as theory
from pages.ui.downloads import CORRECTED_LABELS, as_data_card, export
from screening.evaluation import label_errors, metrics, recording, tables
from screening.labels import Label, Outcome
from screening.review import policy, review_form
from screening.review.policy import LOCAL_USER, Role
from storage.database import Database
from storage.research import cells, corrected_labels, recordings
from storage.review import adjudication, claims, erasure, follow_ups
from storage.review.reviews import submit_review, take_back
from storage.schema import adjudications, cases, inbox_entries, node_runs, reviews, screenings, unblindings
from storage.schema.columns import new_id
from tests.databases import write
from tests.pages.conftest import Opener, restart
from tests.pages.researched import SAMPLE, asked, review, sample_rows, screened
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import form, register
from tests.storage.people import ANN, RESEARCHER, person

TURNED = "s901,Does anyone have notes from \u202eTuesday's biology lecture?,,safe,school\n".encode()


@pytest.fixture
def batch_id(page_database: Database) -> str:
    return screened(page_database, sample_rows(every=4))


def open_tab(app: AppTest, tab: str, of: str = "evaluation") -> AppTest:
    app.session_state[f"{of}_tab"] = tab
    app.run()
    assert not app.exception and not app.error, (tab, app.exception)
    return app


def test_the_table_holds_all_conditions_for_those_who_may_see_it(page_database: Database, batch_id: str) -> None:
    """The same for everybody and also once its cases are reviewed."""
    ask = asked(page_database, batch_id)
    found = evaluating.evaluate_batch(page_database, ask)
    frame = evaluation_view.results_frame(tables.ResultsTable(title="", provenance="", rows=found.results))
    assert len(frame) == 15 and found.made > 0 and not frame["Unsettled"].any()
    undefined = frame[frame["Condition"] == "B=50"].iloc[0]
    assert undefined["Accuracy"] == undefined["FNR"] == "none: 0 of 0"
    assert undefined["Escalated"].startswith("100.0% (95% CI") and undefined["n"] == 30
    kept = recordings.recorded_batch(page_database, LOCAL_USER, batch_id)
    drawn = recording.read_draws(evaluating.draw_file(page_database, ask).splitlines(), kept.items)
    assert drawn == kept, "what the command that is named goes on from"
    for function in (evaluating.evaluate_batch, evaluating.list_missed, evaluating.count_gaps):
        with pytest.raises(policy.Forbidden):
            function(page_database, replace(ask, actor=ANN))
    of_another = evaluating.evaluate_batch(page_database, asked(page_database, batch_id, who=RESEARCHER))
    review(page_database, "safe", "unsafe", most=4)
    reviewed = evaluating.evaluate_batch(page_database, asked(page_database, batch_id))
    assert found.results == of_another.results == reviewed.results


def test_where_few_draws_were_recorded_there_are_limits(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where one cannot be read, the failure is told."""
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
    restart()
    monkeypatch.setattr("pages.ui.context.AT_ONCE", 0)
    write(page_database, update(node_runs).values(draws="x"))  # no code that this version knows
    app = open_page("evaluation")
    assert not app.exception and not app.info and not app.dataframe and "ValueError" in app.error[0].value


def test_errors_and_evaluation_count_the_same_cases(page_database: Database) -> None:
    """One text turns its own direction round, which forbids safe; the rules alone would call it that."""
    batch_id = screened(page_database, sample_rows(every=2) + TURNED)
    own = evaluating.evaluate_batch(page_database, asked(page_database, batch_id)).results[-1]
    counted = {(str(key[0]), str(key[1])): cases for key, cases in own.confusion.items() if cases}
    assert counted == cells.confusions(page_database, RESEARCHER, batch_id).original
    found = evaluating.experiment(page_database, asked(page_database, batch_id))
    rules = found.batch.configuration.pipeline
    guards = recordings.guards_in(page_database, LOCAL_USER, batch_id, found.batch.rows)
    bare, guarded = (found.drawn.measure(rules, each)[0] for each in (None, guards))
    assert bare.confusion != guarded.confusion == own.confusion
    # a run may have paid for draws after the first that left no hope; its replay does not count them
    assert 0.9 * own.calls < guarded.calls <= own.calls


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


def test_figures_count_every_value_and_every_review() -> None:
    """Texts on whose label all draws agree have a gap of 1: most texts, in most batches. Of 100 texts, 20 labeled
    unsafe and 30 escalated: 50 and 5% of 50 are reviewed, of 1,000 a day ten times that.
    """
    values = [(0.0, 5), (0.15, 1), (0.3, 2), (0.95, 3), (1.0, 17)]
    (trace,) = figures.histogram(values, 20, "Margins", "margin", "texts").data
    assert sum(trace.y) == 28 and (trace.y[0], trace.y[3], trace.y[6], trace.y[19]) == (5, 1, 2, 20)
    ended = {Label.SAFE: (45, 5, 20), Label.UNSAFE: (5, 15, 10)}
    counts = {(label, one): n for label, row in ended.items() for one, n in zip(Outcome, row, strict=True)}
    shown, rests = evaluation_view.what_if_figures(metrics.Metrics(confusion=counts), 1_000, 0.05)["Reviews a day"]
    assert shown == "525" and rests.startswith("95% CI 434 to 616: ")


def test_what_every_condition_missed_is_listed(open_page: Opener, page_database: Database) -> None:
    batch_id = screened(page_database, sample_rows(), audit_rate=0.0)
    app = open_tab(open_page("evaluation", batch=batch_id), "Cases")
    app.session_state["evaluation_cases"] = "Missed by every condition"
    listed = app.run().dataframe[0].value
    missed = evaluating.list_missed(page_database, asked(page_database, batch_id))
    assert missed.deciding == 13 and missed.cases[0] == dict(missed.by_number).get(13, 0)  # not B=10 and B=50
    number, ids = evaluating.list_missed(page_database, asked(page_database, batch_id), 1).cases
    assert len(ids) == number == sum(texts for _, texts in missed.by_number)
    assert len(listed) and set(listed["Original label"]) == {"unsafe"} and set(listed["Outcome"]) <= {"labeled safe"}


def test_each_figure_is_that_of_an_independent_count(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more texts than draws are made for: what the record settles, and what it leaves open, by a plain loop."""
    monkeypatch.setattr(evaluating, "MOST_EXTENDED", 119)
    found = evaluating.evaluate_batch(page_database, asked(page_database, screened(page_database, sample_rows())))
    assert found.cases == found.labelled == 120 and not found.made
    told = page_database.rows(select(cases.c.id, cases.c.reference, screenings).join(screenings))
    own, single = found.results[-1], next(each for each in found.results if each.name == "single-agent")
    for rate, wrong, of in ((own.fnr, "safe", "unsafe"), (own.fpr, "unsafe", "safe")):
        decided = [row.outcome for row in told if row.reference == of and row.outcome != "human_review"]
        assert (rate.numerator, rate.denominator) == (decided.count(wrong), len(decided))
    assert own.escalation_rate.numerator == sum(row.outcome == "human_review" for row in told)
    assert own.calls == sum(row.calls for row in told), "all that was paid, also past the first hopeless draw"
    first = select(node_runs.c.case_id, node_runs.c.draws).where(node_runs.c.node == "worker")
    said = {case_id: drawn[0] for case_id, drawn in page_database.rows(first) if drawn}
    assert single.unsettled == 120 - len(said)
    unsafe = [said.get(row.id) for row in told if row.reference == "unsafe"]
    rate = single.fnr
    counts = (unsafe.count("S"), unsafe.count("S") + unsafe.count("U"), unsafe.count(None))
    assert (rate.numerator, rate.denominator, rate.unsettled) == counts


PLANTED = SAMPLE.with_name("sample_planted_labels.csv")
REVIEWER = person("ann", Role.REVIEWER, Role.SENIOR)


def recorded(db: Database, every: int = 1) -> tuple[str, dict[str, str], list[recording.Item]]:
    """A batch with its cases' ids by their names in the file, and its items."""
    register(db, REVIEWER)
    batch_id = screened(db, sample_rows(every), audit_rate=0.0)
    ids = {row.external_id: row.id for row in db.rows(select(cases.c.external_id, cases.c.id))}
    return batch_id, ids, list(recordings.recorded_batch(db, LOCAL_USER, batch_id).items)


def labeled(ids: dict[str, str], items: list[recording.Item], label: Label) -> list[str]:
    return [ids[item.id] for item in items if item.reference is label]


def rate(db: Database, *case_ids: str, label: str = "safe", sent: bool = False) -> None:
    """A reviewer gives each of them this label, sent to review first where they are not."""
    if not sent:
        follow_ups.request_second_looks(db, LOCAL_USER.at(system_clock()), case_ids)
    for case_id in case_ids:
        by = REVIEWER.at(system_clock())
        held = claims.claim(db, by, case_id)
        submit_review(db, by, case_id, held.token, form(label), new_id(by.now))


def test_controls_are_drawn_from_all_behind_the_first_and_with_a_known_probability() -> None:
    free = np.array([0, 1, 2, 4, 5, 6, 8, 9, 10, 11])
    mixed, chance = controls(free, 4, "seed")
    assert len(mixed) == len(set(mixed)) == 4 and set(mixed) <= {5, 6, 8, 9, 10, 11}, "neither picked nor waiting"
    assert chance == 4 / 6 and controls(free, 4, "seed") != controls(free, 4, "another seed")
    assert controls(free[:4], 4, "seed") == ((), 0.0)


def test_planted_labels_come_first_and_are_corrected_everywhere(open_page: Opener, page_database: Database) -> None:
    """The top of each ranking holds what is planted. All planted as unsafe is read as safe, and one more that is."""
    db, (batch_id, ids, items) = page_database, recorded(page_database)
    with PLANTED.open(encoding="utf-8", newline="") as file:
        planted = {row["id"]: row["right_label"] for row in csv.DictReader(file)}
    for ranking in label_errors.Ranking:
        _, order = order_labels(db, asked(db, batch_id), ranking)
        looks = [order.at(place) for place in range(len(order.cases))]
        places = {items[look.case].id: place for place, look in enumerate(looks)}
        beyond = {identity for identity in planted if places[identity] >= 12}
        assert beyond <= {"s097"}, places  # a quotation: the agents mostly escalate it, and that takes neither side
        assert all(looks[places[identity]].suggested == right for identity, right in planted.items())
    wrong = [identity for identity, right in planted.items() if right == "safe"]
    fixed = [ids[identity] for identity in wrong]
    rate(db, *fixed, next(case_id for case_id in labeled(ids, items, Label.SAFE) if case_id not in fixed))
    ask, many = asked(db, batch_id), len(wrong)
    before, first, after = (count_corrected_labels(db, ask, version) for version in (0, 1, None))
    assert [kinds["changed"][0] for _, _, kinds in (before, first, after)] == [0, 1, many]
    assert (after[1], after[2]["reviewed"][0]) == (many, many + 1), "each by one reviewer alone"
    by = LOCAL_USER.at(system_clock())
    rows = corrected_labels.export_corrected_labels(db, by, batch_id, "key", with_text=False)
    lines = [json.loads(line) for line in export(CORRECTED_LABELS, rows, "jsonl")]
    assert len(lines) == 120 and all(line["text"] is None for line in lines)
    final = {line["id"]: (line["reference"], line["final_label"], line["final_source"]) for line in lines}
    assert all(final[identity] == ("unsafe", "safe", "one reviewer") for identity in wrong)
    assert "ann" not in json.dumps([line["reviews"] for line in lines])  # pseudonyms only
    export_as_of = partial(corrected_labels.export_corrected_labels, db, by, batch_id, "key")
    none, one = ("".join(as_data_card(export_as_of(as_of=as_of))) for as_of in (0, 1))
    rows = [replace(row, group="[a](http://b)", tags=("*c*",)) for row in export_as_of(as_of=0)]
    assert r"\[a\]" in (card := "".join(as_data_card(rows))) and "[a](" not in card and r"\*c\*" in card
    assert "0 labels changed" in none and "1 label changed" in one and "120 texts" in one and "by 1 reviewer" in one
    app = open_tab(open_page("label_noise"), "Label history", "labels")
    history = app.dataframe[0].value
    assert history["From"].tolist() == [*["unsafe"] * many, "safe"] and set(history["To"]) == {"safe"}
    assert not history["Who"].isin(["ann"]).any() and history["Version"].tolist() == list(range(1, many + 2))
    open_tab(app, "Corrected data set", "labels")
    app.session_state["corrected_kind"] = f"Label changed {many}, by one reviewer alone {many}"
    assert len(app.run().dataframe[-1].value) == many
    write(db, update(reviews).values(blind=True))  # as a reviewer's who sees no results
    estimated = measure_corrected(db, asked(db, batch_id))
    assert (estimated.picked, estimated.drawn, estimated.texts) == (many + 1, 0, 120)
    assert estimated.wrong.value is None and estimated.wrong.low >= many / 120 - 1e-9, "nothing was drawn at random"


def test_what_is_sent_is_picked_or_drawn_and_comes_back_weighted_so(open_page: Opener, page_database: Database) -> None:
    """From the page of label errors, and then a sample from that of the evaluation."""
    db, (batch_id, ids, items) = page_database, recorded(page_database, every=2)
    app = open_page("label_noise")
    listed = len(app.dataframe[0].value)
    assert app.dataframe[0].value["Open"].str.startswith("/case?case=").all()
    app.number_input[0].set_value(5).run()
    app.button(key="send_labels").click().run()
    entries = select(inbox_entries.c.case_id, inbox_entries.c.chance).where(inbox_entries.c.sent_as.is_not(None))
    chances = {row.case_id: row.chance for row in db.rows(entries)}
    picked = {case_id for case_id, chance in chances.items() if chance is None}
    (drawn,) = {chance for chance in chances.values() if chance}
    assert len(picked) == 5 and 0.05 < drawn < 0.2
    told = select(unblindings.c.case_id).where(unblindings.c.reviewer == LOCAL_USER.id)
    assert picked <= set(db.values(told)), "the list told who sent them how they ended"
    rate(db, *chances, sent=True)
    assert len(app.run().dataframe[0].value) == listed - len(chances), "what was reviewed is not listed"
    assert not any(db.values(select(reviews.c.blind))), "nor is a review by who sees results blinded"
    write(db, update(reviews).values(blind=True))  # as a reviewer's who sees no results
    found = measure_corrected(db, asked(db, batch_id))
    assert found.picked >= 5 and found.drawn + found.picked == len(chances) and found.due > 0
    app = open_page("evaluation")
    app.selectbox(key="evaluation_labels").set_value("adjudicated").run()
    assert not app.exception and len(app.dataframe[0].value) == len(found.rates["fnr"]) == 15
    app.number_input(key="sample_size").set_value(20).run()
    app.button(key="sample").click().run()
    entries = select(inbox_entries.c.case_id, inbox_entries.c.chance).where(inbox_entries.c.chance.is_not(None))
    sample = {row.case_id: row.chance for row in db.rows(entries) if row.case_id not in chances}
    assert len(sample) == 20 and min(sample.values()) > 0
    waits = measure_corrected(db, asked(db, batch_id))
    assert (waits.waiting, waits.drawn, waits.free) == (20, found.drawn, found.free - 20)
    unsafe = labeled(ids, items, Label.UNSAFE)
    for case_id in sample:
        rate(db, case_id, label="unsafe" if case_id in unsafe else "safe", sent=True)
    write(db, update(reviews).values(blind=True))
    after = measure_corrected(db, asked(db, batch_id))
    assert (after.waiting, after.drawn) == (0, found.drawn + 20)
    assert after.wrong.high - after.wrong.low < found.wrong.high - found.wrong.low


def test_what_is_taken_back_or_erased_changes_each_page(open_page: Opener, page_database: Database) -> None:
    db, (_, ids, items) = page_database, recorded(page_database, every=10)
    case_id = labeled(ids, items, Label.UNSAFE)[0]
    name = f"'{next(name for name, one in ids.items() if one == case_id)}'"
    rate(db, case_id)
    app = open_tab(open_page("label_noise"), "Corrected data set", "labels")
    assert "Label changed 1, by one reviewer alone 1" in app.button_group[-1].options
    given, now = db.value(select(reviews.c.id)), system_clock()
    again = take_back(db, REVIEWER.at(now), case_id, given)
    submit_review(db, REVIEWER.at(now), case_id, again.token, form("unsafe"), new_id(now))
    assert app.run().button_group[-1].options[:2] == ["Final label 1", "Label changed 0, by one reviewer alone 0"]
    by = LOCAL_USER.at(system_clock())
    last = max(db.values(select(adjudications.c.version)))
    adjudication.adjudicate(db, by, case_id, review_form.ReviewLabel.UNSAFE, "what she wrote of her sister", last)

    def shown(tab: str) -> str:
        return str(open_tab(open_page("label_noise"), tab, "labels").dataframe[-1].value.to_dict())

    assert name in shown("Label history") and "her sister" in shown("Label history")
    erasure.erase(db, by, erasure.Selection(by=erasure.By.CASE, value=case_id), "asked for")
    for tab in ("Possible label errors", "Label history"):
        assert name not in shown(tab) and "her sister" not in shown(tab)


RULES = ("Algorithm 1", "Pooled, Ville")


def test_the_numbers_are_the_specification_s_and_the_claims_carry_those_that_refute_them() -> None:
    paper, pooled = ([gaps[name] for gaps in theory.decidable_gaps(0.05).values()] for name in RULES)
    assert paper[:2] == [None, None] and pooled[1] == 0.48  # Algorithm 1 would need a gap of 1.17
    assert [round(gap or 0, 3) for gap in paper[2:]] == [0.976, 0.869, 0.794, 0.730, 0.542]
    assert [round(gap or 0, 3) for gap in pooled[2:]] == [0.413, 0.36, 0.323, 0.293, 0.213]
    found = theory.calls_needed((0.9, 0.05, 0.05), 0.05, budget=100)
    names = (theory.FEWEST, "Ville, mean calls", "Algorithm 1, mean calls")
    fewest, mean, mean_of_paper = (found[name][0] or 0 for name in names)
    assert round(mean, 2) == 10.28 and round(fewest, 1) == 5.7 and fewest < mean < mean_of_paper
    shown = " ".join(shown for _, shown in theory.claims())
    assert "needs 72 calls" in shown and "Pooling the responses needs 6" in shown
    assert "29.5 per arm" in shown and "by 50" in shown  # n* at a gap of 0.5; Σ δ over 1,000 cases at constant δ
