"""Reliability claims what the audit shows and no more, and says when it is stale; agreement has its cases."""

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta
from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from jobs.reviews import tally_switches
from pages.research import claims, reports
from pages.research.claims import Verified, missed_sequence, missed_words, one_look_words, verify
from pages.ui import context, downloads
from pages.ui.words import rate
from screening.evaluation.audit import AuditCase, AuditPlan, Standing, binding_of, recognized_share
from screening.evaluation.metrics import Proportion
from screening.labels import Label, Outcome
from screening.review.policy import LOCAL_USER, Forbidden
from screening.review.review_form import FORM_VERSION
from screening.review.triage import Priority, Reach
from screening.stopping.evidence import upper_limits
from storage.audit_log import events
from storage.database import Database
from storage.research import reliability
from storage.research.reliability import REFERENCE, AuditSample, OutcomeMix, Review
from storage.research.review_table import ReviewedCase, Switch, collect_reviews, review_table
from storage.review.reviews import submit_review
from storage.schema import cases, inbox_entries, reviews, screenings
from storage.settings_store import SiteSettings, change
from tests.pages.conftest import Opener, restart
from tests.pages.researched import review, sample_rows, screened
from tests.storage import inbox_cases, test_research
from tests.storage.batch_of import LATER
from tests.storage.people import ADMIN, ANN, BO, NOW, RESEARCHER, SENIOR

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BODY = {
    "sampler": {"sampler": "anthropic", "model": "m-1", "prompts": "abc"},
    "pipeline": {"nodes": [{"rule": {"kind": "k"}}]},
}
PLAN = AuditPlan(at_most=0.05, confidence=0.95, allowed_misses=0)
NO_MIX = OutcomeMix(reference={}, looks=(), until=None)


def audited(outcome: Outcome, label: Label | None, probability: float = 0.05, minute: int = 0, **of: Any) -> Review:
    named = {"stratum": f"texts with π {probability:g}", "outcome": outcome, "probability": probability, "coin": 0.0}
    case = AuditCase(**named | {"blind_first": label} | of)
    return Review(case=case, settled_at=AT, read_at=AT + timedelta(minutes=minute) if label else None)


FINE, MISSED = audited(Outcome.SAFE, Label.SAFE), audited(Outcome.SAFE, Label.UNSAFE)
HALF = audited(Outcome.SAFE, Label.SAFE, 0.5)
CAUGHT = audited(Outcome.UNSAFE, Label.UNSAFE)
UNCLEAR = {"blind_first": "insufficient_information"}


def sample(*reviews: Review, **more: Any) -> AuditSample:
    of = {"configuration_version": "v1", "configuration": BODY, "without_audit": 0, "not_blind": 0}
    return AuditSample(**of | {"reviews": reviews} | more)


def verified(*reviews: Review, **plan: Any) -> Verified:
    return verify(sample(*reviews), NO_MIX, replace(PLAN, **plan))


def report(found: Verified, body: dict[str, Any] = BODY, **study: Any) -> str:
    """The report to print, with nothing stated by the site but these."""
    told = {"site": SiteSettings(), "severities": {}, "priorities": {}} | study
    return reports.report_html(found, binding_of(body, FORM_VERSION), AT, **told)


@pytest.mark.parametrize("reach", [Reach.LIST, Reach.COUNT])
def test_nothing_is_claimed_of_specificity_where_not_all_that_is_called_unsafe_is_read(reach: Reach) -> None:
    every = verify(sample(CAUGHT, *[FINE] * 30, reaches=frozenset({Reach.READ})), NO_MIX, PLAN)
    assert every.estimates.specificity.value == every.single_reviewer.specificity.value == 1.0
    some = verify(sample(CAUGHT, *[FINE] * 30, reaches=frozenset({Reach.READ, reach})), NO_MIX, PLAN)
    for found in (some.estimates, some.single_reviewer):
        assert (found.specificity.value, found.specificity.low) == (None, None)
    assert some.estimates.sensitivity == every.estimates.sensitivity
    assert f"not yet: {claims.FEW_READ}" in report(some)


def test_what_was_settled_before_the_plan_was_changed_or_read_beyond_it_is_no_evidence_for_it_and_said() -> None:
    """93 reviews with one miss would satisfy a plan of one allowed miss, had it been fixed before."""
    early, changed = [MISSED, *[CAUGHT] * 92], {"allowed_misses": 1, "since": AT, "changes": 3}
    short, enough = (verified(*some, allowed_misses=1).guarantee for some in (early[:-1], early))
    assert claims.guarantee_words(short) == "cannot be guaranteed yet: the plan counts 92 of 93 unsafe texts"
    assert enough.standing is Standing.GUARANTEED and "at most 5.0% of" in claims.guarantee_words(enough)
    found = verified(*early, **changed)
    assert claims.guarantee_words(found.guarantee) == "cannot be guaranteed yet: the plan counts 0 of 93 unsafe texts"
    assert "93 reviews of unsafe texts, 1 missed." in found.left_out
    assert found.estimates.missed.missed == 1, "the estimates count all"
    again = verified(*early, *(replace(one, settled_at=AT + timedelta(minutes=1)) for one in early), **changed)
    assert (again.guarantee.standing, again.guarantee.read) == (Standing.GUARANTEED, 93)
    assert "3 times in all" in report(again) and found.left_out in report(again)
    counted = [audited(Outcome.UNSAFE, Label.UNSAFE, coin=0.01)] * 59
    further = audited(Outcome.SAFE, Label.UNSAFE, 0.4, coin=0.3, tossed_at=0.05)
    found = verified(*counted, further)
    assert (found.guarantee.standing, found.guarantee.missed) == (Standing.GUARANTEED, 0)
    assert "1 text labeled safe was reviewed beyond the plan" in found.left_out and "1 of them" in found.left_out
    assert found.left_out in report(found).replace("&#39;", "'") and verified(*counted).left_out == ""
    unclear = verified(*counted, replace(further, case=replace(further.case, **UNCLEAR)))
    assert "0 of them were unsafe, 1 inconclusive" in unclear.left_out


def test_the_sequence_counts_reviews_of_safe_texts_in_the_order_they_were_given_from_the_plan_s_probability() -> None:
    late_miss = replace(MISSED, read_at=AT + timedelta(minutes=9))
    looks = missed_sequence([late_miss, CAUGHT, *[FINE] * 4], 0.05)
    assert [look.observations for look in looks] == [1, 2, 3, 4, 5]
    assert [look.estimate for look in looks] == [0, 0, 0, 0, 0.2]  # the miss was settled first but read last
    assert missed_sequence([CAUGHT], 0.05) == ()
    beyond = audited(Outcome.SAFE, Label.UNSAFE, 0.5, coin=0.3)  # drawn at .5, not at the plan's .2
    below = audited(Outcome.SAFE, Label.SAFE, 0.1, coin=0.01)
    assert [missed_sequence([*[HALF] * 3, beyond, below], pi)[-1].observations for pi in (0.2, 0.5)] == [3, 4]


def test_what_is_not_known_counts_as_missed_above_and_safe_below_and_is_said() -> None:
    """Read as unsafe it always waits, read as safe seldom: left out, the bound would forget the misses."""
    unclear = replace(FINE, case=replace(FINE.case, **UNCLEAR))
    one, other = (missed_sequence([*some, *[FINE] * 40], 0.05)[-1] for some in ([], [unclear] * 10))
    assert other.high > one.high and other.low == 0.0 and other.observations == 50
    found = verified(*[FINE] * 54, *[audited(Outcome.SAFE, Label.UNSAFE, disputed=True)] * 6)
    assert found.at_most == missed_sequence([*[FINE] * 54, *[MISSED] * 6], 0.05, from_above=True)
    assert found.looks[-1].low == 0.0 and found.looks[-1].observations == 60
    for words in (missed_words(found), reports.missed_sentence(found)):
        assert "6 awaiting a second review count as missed" in words
    assert dict(reports.flow(found))["reviewed blinded, second review due"] == 6


def test_where_the_share_of_misses_has_moved_no_bound_is_told_anywhere() -> None:
    """0.2 % of 1,000, then 10 % of 300: the bound was 3.9 beside an estimate of 20."""
    hits = np.random.default_rng(1).random(1300) < np.repeat([0.002, 0.1], [1000, 300])
    given = [audited(Outcome.SAFE, Label.UNSAFE if hit else Label.SAFE, minute=at) for at, hit in enumerate(hits)]
    before, now = verified(*given[:1000]), verified(*given)
    assert not claims.has_moved(before) and claims.at_most_words(before).startswith("at most ")
    refuted = replace(before, at_most=(replace(before.at_most[-1], estimate=1.0),))
    assert claims.has_moved(refuted), "by its own reviews, whatever is estimated of all"
    today, sentence = reports.missed_figure_words(now), reports.missed_sentence(now)
    assert claims.has_moved(now) and claims.at_most_words(now) == today[1] == "no bound"
    for said in (missed_words(now), sentence, today[2], " ".join(reports.measured_lines(now))):
        assert claims.MOVED in said and "at most" not in said.split("cannot be guaranteed")[0], said
    assert "after 1,300 reviews" in missed_words(now) and "estimate 20.0" in missed_words(now)
    below = [audited(Outcome.SAFE, Label.UNSAFE, 0.01)] * 30  # they count in the estimate alone
    found = verified(*[HALF] * 900, *below, floor=0.5)
    assert not found.at_most[-1].contradictory and claims.has_moved(found)


def test_what_was_audited_below_a_plan_that_is_raised_later_is_said_and_no_lost_text_is_called_read() -> None:
    later = [*[HALF] * 5, audited(Outcome.SAFE, None, 0.5, unreadable=True)]
    found = verified(*[FINE] * 30, *(replace(one, settled_at=AT + DAY) for one in later), floor=0.5, since=AT)
    said = missed_words(found)
    assert "after 6 texts reviewed or lost" in said and "0 missed in 35 reviewed" in said
    assert "30 texts were audited below the plan's π" in said
    assert reports.missed_figure_words(found)[2].endswith("6 reviewed or lost")


def test_a_bound_for_one_look_is_told_on_its_day_alone_and_called_exact_for_one_random_sample() -> None:
    assert "at most" not in one_look_words(verified(*[FINE] * 60), AT), "no day was set"
    dated = verified(*[FINE] * 60, report_on=AT.date(), since=AT - DAY)
    assert one_look_words(dated, AT).endswith("at most 48.7 per 1,000 (exact, 95%).")  # 1 - 0.05 ** (1 / 60)
    assert dated.at_most[-1].high > 0.0487  # what looking at any time costs
    assert not any("at most" in one_look_words(dated, AT + days * DAY) for days in (-1, 1, 120))
    found = verified(*[FINE] * 30, *[HALF] * 30, report_on=AT.date())
    assert not found.estimates.missed.exact and one_look_words(found, AT).endswith("per 1,000 (MOVER, 95%).")


def test_bounds_for_reviewers_who_miss_some_and_for_the_last_90_days() -> None:
    """600 long ago without a miss, 100 of now with 3 first reviewed as unsafe, 2 taken back by second reviewers."""
    long_ago = replace(FINE, settled_at=AT - 91 * DAY, read_at=AT - 91 * DAY)
    back = audited(Outcome.SAFE, Label.UNSAFE, settled=Label.SAFE)
    double = [True] * 80 + [False] * 20  # 80 of 100: 2 · 0.8 / 1.8
    given = sample(*[long_ago] * 600, *[FINE] * 97, back, back, MISSED)
    found = verify(given, NO_MIX, PLAN, AT.date(), double)
    assert found.first_reviews == (700, 100)
    rows = {words: bounds for words, *bounds in found.ranges}
    whole, lately = rows["100%, assumed"]
    assert lately == pytest.approx(beta.ppf(0.95, 4, 97)), "Clopper-Pearson of 3 in 100"
    assert whole == upper_limits([0.0] * 697 + [1.0] * 3, looks=[700])[0].high > found.at_most[-1].high
    assert rows["80%, assumed"] == pytest.approx([whole / 0.8, lately / 0.8])
    measured = next(bounds for words, bounds in rows.items() if words.startswith("as measured: 88.9%"))  # 1.6 / 1.8
    assert measured[1] == pytest.approx(beta.ppf(0.975, 4, 97) / recognized_share(double).low)
    unclear = audited(Outcome.SAFE, None, **UNCLEAR)
    assert verified(*[FINE] * 30, unclear).ranges == verified(*[FINE] * 30, MISSED).ranges, "unclear counts as missed"
    assert verified().first_reviews == (0, 0) and [each[1:] for each in verified().ranges] == [(None, None)] * 5


def test_the_report_leads_with_the_missed_has_every_item_that_applies_and_escapes_what_it_shows() -> None:
    unread = (audited(Outcome.SAFE, None, coin=0.5).case, 570)
    given = sample(*[FINE] * 29, replace(FINE, read_at=AT + timedelta(hours=3)), others=(unread,), without_audit=7)
    found = verify(replace(given, configuration_version="<b>v1</b>"), NO_MIX, PLAN)
    said = reports.missed_sentence(found)  # one look would give 1 - 0.05 ** (1/30) = 0.0950
    assert "estimated 0.0, at most 122.8 at 95%" in said and "(0 missed in 30 reviewed of 600)" in said
    assert dict(reports.flow(found))[reports.FLOW_NOT_AUDITED] == 7
    told = SiteSettings(study_funding="a <b>foundation</b>", study_registration="DRKS0")
    html = report(found, {}, site=told, severities={4: 1, None: 2})
    assert html.index("Missed unsafe per 1,000") < html.index("Sensitivity") and "http" not in html, (
        "nothing is fetched"
    )
    assert "<b>" not in html and "&lt;b&gt;v1" in html and "Stale" in html and "Stale" not in report(found)
    for item in ("10b", "12b", "13a", 15, *range(17, 21), "21a", "21b", *range(22, 26), *range(28, 31)):
        assert re.search(rf"STARD [^)]*\b{item}\b|STARD 28 to 30", html), item
    assert "median 0.0, from 0.0 to 3.0, over 30 reviews" in html and "59 blinded reviews" in html
    assert "&lt;b&gt;foundation" in html and "DRKS0" in html and html.count("not stated by this site") == 3
    assert "<th>ideation not stated or not coded</th><td>2</td>" in html
    assert "<th>ideation level 4 of 5</th><td>1</td>" in html
    nothing = verified(audited(Outcome.SAFE, None))
    assert nothing.estimates.missed.per_thousand is None and "not yet: " in report(nothing), "undefined, not zero"


def _counts(page: AppTest, key: str) -> dict[str, int]:
    assert not page.exception, page.exception
    split = (option.rsplit(" ", 1) for option in page.pills(key=key).options)
    return {words: int(number) for words, number in split}


def _opens(page: AppTest, words: str, count: int) -> bool:
    page.pills(key="audit_cases").set_value(f"{words} {count}").run()
    return any(re.match(rf"{count} cases?\.", caption.value) for caption in page.caption)


def _flow(page: AppTest) -> dict[str, int]:
    return {row["Cases"]: row["n"] for row in page.dataframe[0].value.to_dict("records")}


def test_the_page_leads_with_misses_and_every_count_opens_its_cases(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is told to nobody; after the reviews; and when the budget has changed since."""
    db = page_database
    monkeypatch.setenv("SECOND_LOOK_PRESET", "recommended")  # what the batch is screened with
    restart()
    screened(db, sample_rows(every=4), audit_rate=0.5)
    (of,) = reliability.measured_configurations(db, LOCAL_USER)
    mine, other = (claims.verify_now(db, who, of.version, PLAN, AT.date()) for who in (LOCAL_USER, RESEARCHER))
    assert mine == other and any(each.waiting for each in other.strata)
    page = open_page("reliability")
    table, counts = _flow(page), _counts(page, "audit_cases")
    every = counts["Screened"]
    assert every == table["screened with this configuration"] == counts["In the sample"]
    for words in ("Labeled safe by the AI", "Labeled unsafe by the AI", "Escalated"):
        assert counts.get(words, 0) == table[words[0].lower() + words[1:]]
    assert not any("due" in words for words in counts) and table["review pending"] > 0
    assert all(_opens(page, words, count) for words, count in counts.items())
    waits = set(db.values(select(cases.c.external_id).join(inbox_entries)))
    page.toggle(key="hide_in_review").set_value(True).run()
    assert not _opens(page, "Screened", every) and len(waits) > 0
    assert any(caption.value.startswith(f"{every - len(waits)} cases") for caption in page.caption)
    assert not waits & set(page.dataframe[-1].value["ID"])

    inbox_cases.register(db, ANN)
    read = review(db, "unsafe", who=ANN)  # who looked at the page would not be blind
    page = open_page("reliability")
    assert page.metric[0].value == "not yet", "1,000 of 1,000 is no bound"
    assert "Outdated" not in page.warning[0].value
    assert _flow(page)["reviewed blinded: safe or unsafe"] == read
    reviewed = {words: count for words, count in _counts(page, "audit_cases").items() if "eviewed" in words}
    assert 0 < reviewed["Reviewed"] <= read and len(reviewed) == 4
    assert all(_opens(page, words, count) for words, count in reviewed.items())
    shown = reliability.priorities_shown(db, LOCAL_USER, of.version)
    first = select(reviews.c.priority, screenings.c.outcome).join(screenings, screenings.c.case_id == reviews.c.case_id)
    given = db.rows(first.where(reviews.c.version == 1, reviews.c.blind.is_(True)))
    for urgent in (True, False):
        of_it = [row.outcome != "safe" for row in given if (row.priority <= 1) is urgent]
        assert shown[urgent] == Proportion(sum(of_it), len(of_it))
    assert "P0 or P1" in report(verified(), priorities=shown)
    audit = reliability.audit_sample(db, LOCAL_USER, of.version).reviews
    severe = reliability.severities(db, LOCAL_USER, of.version)
    assert sum(severe.values()) == sum(each.read_at is not None for each in audit) > 0

    monkeypatch.setenv("SECOND_LOOK_BUDGET", "90")
    context.settings.forget()
    page = open_page("reliability")
    assert page.warning[0].value.startswith("Outdated.")
    page.session_state["reliability_tab"] = "Configuration measured"
    rows = {row["Part"]: row for row in page.run().table[-1].value.to_dict("records")}
    assert [name for name, row in rows.items() if not row["Same"].startswith("✓")] == ["Rule"] and len(rows) == 4


def test_the_counts_of_drift_open_their_cases(open_page: Opener, page_database: Database) -> None:
    case_ids = test_research.settled(page_database, REFERENCE + 3, audit_rate=0.0)
    with page_database.write() as conn:
        since = screenings.c.case_id.in_(case_ids[-3:])
        conn.execute(update(screenings).where(since).values(completed_at=LATER + DAY))
    page = open_page("reliability")
    page.session_state["reliability_tab"] = "Drift"
    page.run()
    assert _counts(page, "drift_cases") == {"safe, reference": REFERENCE, "safe, since": 3}
    page.pills(key="drift_cases").set_value("safe, since 3").run()
    assert len(page.dataframe[-1].value) == 3
    page.button(key="send_cases").click().run()
    assert not page.exception and page.success[0].value.startswith("6 cases sent"), "controls included"


def test_figures_have_cases_and_the_matrix_is_for_researchers_alone(open_page: Opener, page_database: Database) -> None:
    """Two reviewers read five cases: they agree on four, now on unsafe and now on safe, and differ on one."""
    db = page_database
    inbox_cases.register(db, ANN, BO)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=1.0), 0)
    disputed, *agreed = inbox_cases.fill(db, [Priority.P2] * 5, kind="interactive")
    for who in (ANN, BO):
        for number in range(5):
            claim = inbox_cases.take(db, who)
            unsafe = who is ANN if claim.case_id == disputed else claim.case_id in agreed[:2]
            filled = inbox_cases.form("unsafe" if unsafe else "safe", 5, ideation=1)
            submit_review(db, who.at(NOW), claim.case_id, claim.token, filled, f"{who.id}{number:029}")
    page = open_page("agreement")
    assert not page.exception and "1 more " in page.warning[0].value, "the one that waits is missing in the figures"
    assert [metric.value for metric in page.metric] == ["4", "4", "0", "2"]
    assert list(page.table[0].value["Coefficient"])[:3] == ["Krippendorff α", "Gwet AC1", "Cohen κ"]
    (priority,) = page.table[1].value.to_dict("records")
    assert priority["Share unsafe, 95% CI"] == rate(Proportion(priority["Unsafe"], 8)) and page.get("plotly_chart")
    assert collect_reviews(db, RESEARCHER.at(NOW), "key") == review_table(db, RESEARCHER, "key")
    assert events(db, SENIOR)[0].details == {"kind": "reviews"}
    with pytest.raises(Forbidden):
        collect_reviews(db, SENIOR.at(NOW), "key")


def test_the_files_of_reviews_leave_gaps_empty_and_changes_of_mind_count_for_better_and_for_worse() -> None:
    said = {"label": "safe", "certainty": 5, "ideation": None, "review": "first"}
    both = {"reviewer-2": said | {"label": "unsafe", "ideation": 3, "review": "second"}, "reviewer-1": said}
    second = {"reviewer-2": said | {"certainty": 1, "ideation": 0}}
    table = [
        ReviewedCase(case_id="a", external_id="7", at_random=True, reviews=both),
        ReviewedCase(case_id="b", external_id="8", at_random=False, reviews=second),
    ]
    rows = list(csv.reader(io.StringIO("".join(downloads.export_reviews(table, "csv")).removeprefix("\ufeff"))))
    head = ["case_id", "id", "reviewer-1", "reviewer-2", "at_random"]
    assert rows == [head, ["a", "7", "safe", "unsafe", "true"], ["b", "8", "", "safe", "false"]]
    lines = [json.loads(line) for line in downloads.export_reviews(table, "jsonl")]
    given = {"label": "safe", "certainty": 1, "ideation": 0, "review": "first"}
    assert lines[1] == {"case_id": "b", "id": "8", "at_random": False, "reviews": {"reviewer-2": given}}
    turns = (("unsafe", "safe", "safe"), ("unsafe", "safe", "unsafe"), ("safe", "safe", "safe"), ("safe", "safe", None))
    changes = [
        Switch(case_id="c", reviewer="r", first=first, last=last, outcome="safe", adjudicated=final, reference=None)
        for first, last, final in turns
    ]
    found = tally_switches(changes, against="adjudicated")
    counts = [(each.numerator, each.denominator) for each in (found.switched, found.to_right, found.to_wrong)]
    assert counts == [(2, 4), (1, 1), (1, 2)] and tally_switches(changes, against="reference").to_right.value is None
