"""Planted wrong labels come to the top, are sent blind and mixed, and the corrected data set corrects them."""

import csv
import json
from dataclasses import replace

import numpy as np
from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from jobs.label_noise import controls, count_corrected_labels, measure_corrected, order_labels
from jobs.process import system_clock
from pages.ui.downloads import CORRECTED_LABELS, as_data_card, export
from screening.evaluation.label_errors import Ranking
from screening.labels import Label
from screening.review.actors import LOCAL_USER, Role
from screening.review.review_form import ReviewLabel
from storage.clock import new_id
from storage.database import Database
from storage.research.corrected_labels import export_corrected_labels, ledger
from storage.research.recordings import RecordedBatch, recorded_batch
from storage.review.adjudication import amend
from storage.review.claims import claim
from storage.review.erasure import By, Selection, erase
from storage.review.reviews import submit_review, take_back
from storage.review.worklist import request_second_looks
from storage.schema import adjudications, inbox_entries, reviews, unblindings
from storage.visibility import choose_hiding
from tests.databases import write
from tests.pages.conftest import Opener
from tests.pages.researched import SAMPLE, asked, sample_rows, screened
from tests.storage.inbox_cases import form, person, register

PLANTED = SAMPLE.with_name("sample_planted_labels.csv")
REVIEWER = person("ann", Role.REVIEWER, Role.SENIOR)


def planted() -> dict[str, str]:
    with PLANTED.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["right_label"] for row in csv.DictReader(file)}


def recorded(db: Database, every: int = 1) -> RecordedBatch:
    register(db, REVIEWER)
    return recorded_batch(db, LOCAL_USER, screened(db, sample_rows(every), audit_rate=0.0))


def labeled(found: RecordedBatch, label: Label) -> list[str]:
    return [case_id for case_id, item in zip(found.case_ids, found.items, strict=True) if item.reference is label]


def rate(db: Database, case_id: str, label: str) -> None:
    now = system_clock()
    held = claim(db, REVIEWER.at(now), case_id)
    submit_review(db, REVIEWER.at(now), case_id, held.token, form(label), new_id(now))


def send_and_rate(db: Database, *case_ids: str) -> None:
    """A reviewer calls each of them safe."""
    request_second_looks(db, LOCAL_USER.at(system_clock()), case_ids)
    for case_id in case_ids:
        rate(db, case_id, "safe")


def open_tab(page: AppTest, tab: str) -> AppTest:
    page.session_state["labels_tab"] = tab
    page.run()
    assert not page.exception, page.exception
    return page


def test_controls_are_drawn_from_all_behind_the_first_and_with_a_known_probability() -> None:
    free = np.array([0, 1, 2, 4, 5, 6, 8, 9, 10, 11])
    mixed, chance = controls(free, 4, "seed")
    assert len(mixed) == len(set(mixed)) == 4 and set(mixed) <= {5, 6, 8, 9, 10, 11}, "neither picked nor waiting"
    assert chance == 4 / 6 and controls(free, 4, "seed") != controls(free, 4, "another seed")
    assert controls(free[:4], 4, "seed") == ((), 0.0)


def test_planted_labels_come_first_and_are_corrected_in_counts_estimate_file_data_card_and_history(
    open_page: Opener, page_database: Database
) -> None:
    """The top of each ranking holds what is planted. All planted as unsafe is read as safe, and one more that is."""
    db, batch = page_database, recorded(page_database)
    for ranking in Ranking:
        _, order = order_labels(db, asked(db, batch.batch_id), ranking)
        looks = [order.at(place) for place in range(len(order.cases))]
        places = {batch.items[look.case].id: place for place, look in enumerate(looks)}
        beyond = {identity for identity in planted() if places[identity] >= 12}
        assert beyond <= {"s097"}, places  # a quotation: the agents mostly escalate it, and that takes neither side
        assert all(looks[places[identity]].suggested == right for identity, right in planted().items())
    wrong = [identity for identity, right in planted().items() if right == "safe"]
    case_ids = {item.id: case_id for case_id, item in zip(batch.case_ids, batch.items, strict=True)}
    fixed = [case_ids[identity] for identity in wrong]
    send_and_rate(db, *fixed, next(case_id for case_id in labeled(batch, Label.SAFE) if case_id not in fixed))
    ask, many = asked(db, batch.batch_id), len(wrong)
    before, first, after = (count_corrected_labels(db, ask, version) for version in (0, 1, None))
    assert [kinds["changed"][0] for _, _, kinds in (before, first, after)] == [0, 1, many]
    assert (after[1], after[2]["reviewed"][0]) == (many, many + 1), "each by one reviewer alone"
    by = LOCAL_USER.at(system_clock())
    rows = export_corrected_labels(db, by, batch.batch_id, "key", with_text=False)
    lines = [json.loads(line) for line in export(CORRECTED_LABELS, rows, "jsonl")]
    assert len(lines) == 120 and all(line["text"] is None for line in lines)
    final = {line["id"]: (line["reference"], line["final_label"], line["final_source"]) for line in lines}
    assert all(final[identity] == ("unsafe", "safe", "one reviewer") for identity in wrong)
    assert "ann" not in json.dumps([line["reviews"] for line in lines])  # pseudonyms only
    none, one = (
        "".join(as_data_card(export_corrected_labels(db, by, batch.batch_id, "key", as_of=as_of))) for as_of in (0, 1)
    )
    assert "0 labels changed" in none and "1 label changed" in one and "120 texts" in one and "by 1 reviewer" in one
    app = open_tab(open_page("label_noise"), "Label history")
    history = app.dataframe[0].value
    assert history["From"].tolist() == [*["unsafe"] * many, "safe"] and set(history["To"]) == {"safe"}
    assert not history["Who"].isin(["ann"]).any() and history["Version"].tolist() == list(range(1, many + 2))
    app.session_state["ledger_kind"] = 1  # what changed a label
    assert len(app.run().dataframe[0].value) == many
    open_tab(app, "Corrected data set")
    app.session_state["corrected_kind"] = f"Label changed {many}, by one reviewer alone {many}"
    assert len(app.run().dataframe[-1].value) == many
    write(db, update(reviews).values(blind=True))  # as a reviewer's who sees no results
    estimated = measure_corrected(db, asked(db, batch.batch_id))
    assert (estimated.picked, estimated.drawn, estimated.texts) == (many + 1, 0, 120)
    assert estimated.wrong.value is None and estimated.wrong.low >= many / 120 - 1e-9, "nothing was drawn at random"


def test_what_is_sent_is_kept_as_picked_or_drawn_and_its_reviews_come_back_into_the_estimate_so(
    open_page: Opener, page_database: Database
) -> None:
    """From the page of label errors, and then a sample from that of the evaluation."""
    db, batch = page_database, recorded(page_database, every=2)
    app = open_page("label_noise")
    listed = len(app.dataframe[0].value)
    assert app.dataframe[0].value["Open"].str.startswith("/case?case=").all()
    app.number_input[0].set_value(5).run()
    app.button(key="send_labels").click().run()
    entries = select(inbox_entries.c.case_id, inbox_entries.c.chance).where(inbox_entries.c.sent_as.is_not(None))
    chances = {row.case_id: row.chance for row in db.rows(entries)}
    assert len(app.run().dataframe[0].value) == listed - len(chances), "what waits for a review is not listed"
    picked = {case_id for case_id, chance in chances.items() if chance is None}
    (drawn,) = {chance for chance in chances.values() if chance}
    assert len(picked) == 5 and 0.05 < drawn < 0.2
    told = select(unblindings.c.case_id).where(unblindings.c.reviewer == LOCAL_USER.id)
    assert picked <= set(db.values(told)), "the list told who sent them how they ended"
    for case_id in chances:
        rate(db, case_id, "safe")
    assert not any(db.values(select(reviews.c.blind))), "nor is a review by who sees results blinded"
    write(db, update(reviews).values(blind=True))  # as a reviewer's who sees no results
    found = measure_corrected(db, asked(db, batch.batch_id))
    assert found.picked >= 5 and found.drawn + found.picked == len(chances) and found.due > 0
    app = open_page("evaluation")
    app.selectbox(key="evaluation_labels").set_value("adjudicated").run()
    assert not app.exception and len(app.dataframe[0].value) == len(found.rates["fnr"]) == 15
    app.number_input(key="sample_size").set_value(20).run()
    app.button(key="sample").click().run()
    entries = select(inbox_entries.c.case_id, inbox_entries.c.chance).where(inbox_entries.c.chance.is_not(None))
    sample = {row.case_id: row.chance for row in db.rows(entries) if row.case_id not in chances}
    assert len(sample) == 20 and min(sample.values()) > 0
    waits = measure_corrected(db, asked(db, batch.batch_id))
    assert (waits.waiting, waits.drawn, waits.free) == (20, found.drawn, found.free - 20)
    unsafe = labeled(batch, Label.UNSAFE)
    for case_id in sample:
        rate(db, case_id, "unsafe" if case_id in unsafe else "safe")
    write(db, update(reviews).values(blind=True))
    after = measure_corrected(db, asked(db, batch.batch_id))
    assert (after.waiting, after.drawn) == (0, found.drawn + 20)
    assert after.wrong.width < found.wrong.width and after.wrong.low is not None


def test_a_review_taken_back_a_case_in_review_again_and_one_erased_change_the_pages_at_once(
    open_page: Opener, page_database: Database
) -> None:
    db, found = page_database, recorded(page_database, every=10)
    case_id = labeled(found, Label.UNSAFE)[0]
    name = f"'{found.items[found.case_ids.index(case_id)].id}'"
    send_and_rate(db, case_id)
    app = open_tab(open_page("label_noise"), "Corrected data set")
    assert "Label changed 1, by one reviewer alone 1" in app.button_group[-1].options
    given, now = db.value(select(reviews.c.id)), system_clock()
    again = take_back(db, REVIEWER.at(now), case_id, given)
    submit_review(db, REVIEWER.at(now), case_id, again.token, form("unsafe"), new_id(now))
    assert app.run().button_group[-1].options[:2] == ["Final label 1", "Label changed 0, by one reviewer alone 0"]
    by, other = LOCAL_USER.at(system_clock()), replace(LOCAL_USER, id="eve").at(system_clock())
    last = max(db.values(select(adjudications.c.version)))
    amend(db, by, case_id, ReviewLabel.UNSAFE, "what she wrote of her sister", last)

    def shown(tab: str) -> str:
        return str(open_tab(open_page("label_noise"), tab).dataframe[-1].value.to_dict())

    def listed() -> set[str]:
        return {entry.case_id for entry in ledger(db, other, found.batch_id, "key")[0]}

    assert name in shown("Label history") and "her sister" in shown("Label history") and listed() == {case_id}
    write(db, update(inbox_entries).values(closed_at=None))
    assert listed() == set(), "by who has not reviewed it"
    choose_hiding(db, other, hide=False)
    assert listed() == {case_id}
    assert db.value(select(unblindings.c.case_id).where(unblindings.c.reviewer == "eve")) == case_id
    write(db, update(inbox_entries).values(closed_at=system_clock()))
    erase(db, by, Selection(by=By.CASE, value=case_id), "asked for")
    for tab in ("Possible label errors", "Label history"):
        assert name not in shown(tab) and "her sister" not in shown(tab)
