"""The reliability page claims what the audit shows and no more, and says when the evidence is stale."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta
from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from pages.research import claims, claims_today
from pages.research.claims import (
    Verified,
    at_most_words,
    guarantee_words,
    has_moved,
    missed_sequence,
    missed_words,
    one_look_words,
    review_words,
    verify,
    verify_now,
)
from pages.research.reports import flow, measured_lines, missed_sentence, report_html
from screening.evaluation.audit import AuditCase, Standing, Stratum, binding_of, recognized_share
from screening.evaluation.metrics import Proportion
from screening.evaluation.monitoring import upper_limits
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.review_form import FORM_VERSION
from storage.database import Database
from storage.research.reliability import (
    REFERENCE,
    AuditSample,
    OutcomeMix,
    Review,
    audit_sample,
    measured_configurations,
    priorities_shown,
    severities,
)
from storage.schema import cases, inbox_entries, reviews, screenings
from storage.settings_store import AuditPlan, SiteSettings, change, current
from tests.pages.conftest import Opener, restart
from tests.pages.researched import review, sample_rows, screened
from tests.storage.batch_of import LATER
from tests.storage.inbox_cases import RESEARCHER
from tests.storage.research.test_reliability import settled

CALLED = {
    Outcome.SAFE: "Labeled safe by the AI",
    Outcome.UNSAFE: "Labeled unsafe by the AI",
    Outcome.HUMAN_REVIEW: "Escalated",
}
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
BODY = {
    "sampler": {"sampler": "anthropic", "model": "m-1", "prompts": "abc"},
    "pipeline": {"nodes": [{"rule": {"kind": "k"}}]},
}


def audited(
    outcome: Outcome, label: Label | None, *, coin: float = 0.0, probability: float = 0.05, minute: int = 0
) -> Review:
    case = AuditCase(
        stratum=f"texts with π {probability:g}", outcome=outcome, probability=probability, coin=coin, blind_first=label
    )
    return Review(case=case, settled_at=AT, read_at=AT + timedelta(minutes=minute) if label else None)


def sample(*reviews: Review, without_audit: int = 0) -> AuditSample:
    return AuditSample(
        configuration_version="v1", configuration=BODY, reviews=reviews, without_audit=without_audit, not_blind=0
    )


PLAN = AuditPlan(at_most=0.05, confidence=0.95, allowed_misses=0)
NO_MIX = OutcomeMix(reference={}, looks=(), until=None)


def report(found: Verified, **study: Any) -> str:
    """The report to print, with nothing stated by the site but these."""
    told = {"site": SiteSettings(), "severities": {}, "priorities": {}} | study
    return report_html(found, binding_of(BODY, FORM_VERSION), AT, **told)


@pytest.mark.parametrize("reach", [Reach.LIST, Reach.COUNT])
def test_nothing_is_claimed_of_specificity_where_not_all_that_is_called_unsafe_is_read(reach: Reach) -> None:
    reviews = [audited(Outcome.UNSAFE, Label.UNSAFE), *[audited(Outcome.SAFE, Label.SAFE)] * 30]
    read = replace(sample(*reviews), reaches=frozenset({Reach.READ}))
    every = verify(read, NO_MIX, PLAN)
    assert every.estimates.specificity.value == every.single_reviewer.specificity.value == 1.0
    some = verify(replace(read, reaches=frozenset({Reach.READ, reach})), NO_MIX, PLAN)
    for found in (some.estimates, some.single_reviewer):
        assert (found.specificity.value, found.specificity.low) == (None, None)
        assert "only list or count" in str(found.specificity.reason)
    assert some.estimates.sensitivity == every.estimates.sensitivity
    assert "not yet: some of these batches only list or count" in report(some)


@pytest.mark.parametrize(
    ("at_most", "confidence", "allowed", "needed"),
    [(0.05, 0.95, 0, 59), (0.05, 0.95, 1, 93), (0.1, 0.9, 0, 22)],  # 0.9 ** 22 = 0.098
)
def test_a_plan_guarantees_from_its_number_of_truly_unsafe_texts_on_and_not_one_earlier(
    at_most: float, confidence: float, allowed: int, needed: int
) -> None:
    plan = AuditPlan(at_most=at_most, confidence=confidence, allowed_misses=allowed)
    caught = [audited(Outcome.UNSAFE, Label.UNSAFE)] * needed
    short, enough = (verify(sample(*some), NO_MIX, plan).guarantee for some in (caught[1:], caught))
    assert guarantee_words(short) == f"cannot be guaranteed yet: {needed - 1} of {needed}"
    assert enough.standing is Standing.GUARANTEED and f"at most {at_most:.1%} of unsafe texts" in guarantee_words(
        enough
    )


def test_what_was_settled_before_the_plan_was_changed_is_no_evidence_for_it() -> None:
    """93 reviews with one miss would satisfy a plan of one allowed miss, had it been fixed before."""
    missed = audited(Outcome.SAFE, Label.UNSAFE)
    early = [missed, *[audited(Outcome.UNSAFE, Label.UNSAFE)] * 92]
    plan = replace(PLAN, allowed_misses=1)
    assert verify(sample(*early), NO_MIX, plan).guarantee.standing is Standing.GUARANTEED
    changed = replace(plan, since=AT, changes=3)
    found = verify(sample(*early), NO_MIX, changed)
    assert guarantee_words(found.guarantee) == "cannot be guaranteed yet: 0 of 93"
    assert found.left_out == "Left out, screened before the change: 93 reviews of unsafe texts, 1 missed."
    assert found.estimates.missed.missed == 1, "the estimates count all"
    late = [replace(one, settled_at=AT + timedelta(minutes=1)) for one in early]
    again = verify(sample(*early, *late), NO_MIX, changed)
    assert again.guarantee.standing is Standing.GUARANTEED and again.guarantee.read == 93
    html = report(again)
    assert "Last changed on 2026-11-20 12:00 UTC (3 times in all)" in html and "is no guarantee" in html
    assert "Left out, screened before the change: 93 reviews of unsafe texts, 1 missed." in html


def test_the_sequence_counts_reviews_of_safe_texts_in_the_order_they_were_given() -> None:
    late_miss = audited(Outcome.SAFE, Label.UNSAFE, minute=9)
    fine = [audited(Outcome.SAFE, Label.SAFE, minute=minute) for minute in range(4)]
    flagged = audited(Outcome.UNSAFE, Label.UNSAFE)
    looks = missed_sequence([late_miss, flagged, *fine], 0.05)
    assert [look.observations for look in looks] == [1, 2, 3, 4, 5]
    assert [look.estimate for look in looks] == [0, 0, 0, 0, 0.2]  # the miss was settled first but read last
    assert missed_sequence([flagged], 0.05) == ()


def test_the_sequence_counts_from_the_plan_s_probability_whatever_later_batches_have() -> None:
    half = [audited(Outcome.SAFE, Label.SAFE, probability=0.5) for _ in range(3)]
    beyond = audited(Outcome.SAFE, Label.UNSAFE, coin=0.3, probability=0.5)  # drawn at .5, not at the plan's .2
    below = audited(Outcome.SAFE, Label.SAFE, coin=0.01, probability=0.1)
    assert missed_sequence([*half, beyond, below], 0.2)[-1].observations == 3
    assert missed_sequence([*half, beyond, below], 0.5)[-1].observations == 4


def test_inconclusive_reviews_are_missed_above_and_safe_below() -> None:
    fine = [audited(Outcome.SAFE, Label.SAFE)] * 40
    unclear = replace(fine[0], case=replace(fine[0].case, blind_first=None, inconclusive=True), read_at=AT)
    one, other = missed_sequence(fine, 0.05)[-1], missed_sequence([*[unclear] * 10, *fine], 0.05)[-1]
    assert other.high > one.high and other.low == 0.0 and other.observations == 50


def test_the_report_leads_with_the_missed_and_escapes_what_it_shows() -> None:
    reviews = [audited(Outcome.SAFE, Label.SAFE)] * 30
    found = verify(
        AuditSample(
            configuration_version="<b>v1</b>",
            configuration=BODY,
            reviews=tuple(reviews),
            others=((audited(Outcome.SAFE, None, coin=0.5).case, 570),),
            without_audit=7,
            not_blind=0,
        ),
        NO_MIX,
        PLAN,
    )
    # one look would give 1 - 0.05 ** (1/30) = 0.0950
    assert missed_sentence(found) == (
        "estimated 0.0, at most 122.8 at 95% confidence, valid at any time (0 missed in 30 reviewed of 600)"
    )
    html = report_html(found, binding_of({}, FORM_VERSION), AT, SiteSettings(), {}, {})
    assert html.index("Missed unsafe per 1,000") < html.index("Sensitivity")
    assert "<b>v1</b>" not in html and "&lt;b&gt;v1" in html and "Stale" in html
    assert "http" not in html  # nothing is fetched
    assert dict(flow(found))["not in the sample (nothing can be said of them)"] == 7


def test_nothing_read_is_undefined_not_zero() -> None:
    found = verify(sample(audited(Outcome.SAFE, None)), NO_MIX, PLAN)
    assert found.estimates.missed.per_thousand is None
    assert "not yet" in missed_sentence(found) and "not yet: " in report(found)


@pytest.fixture
def read(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("SECOND_LOOK_PRESET", "recommended")  # what the batch is screened with
    restart()
    screened(page_database, sample_rows(every=4), audit_rate=0.5)
    return review(page_database, "safe")


def test_the_page_leads_with_what_is_missed(open_page: Opener, read: int) -> None:
    app = open_page("reliability")
    assert not app.exception, app.exception
    assert app.metric[0].label == "Missed cases per 1,000 labeled safe"
    assert app.metric[0].value.startswith("at most ")
    assert "cannot be guaranteed yet: 0 of 59" in app.warning[0].value
    assert "Outdated" not in app.warning[0].value
    assert read == next(
        row["n"]
        for row in app.dataframe[0].value.to_dict("records")
        if row["Cases"].startswith("reviewed blinded: safe")
    )


def test_the_page_marks_evidence_about_other_settings_as_stale(
    open_page: Opener, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pages.ui import context

    monkeypatch.setenv("SECOND_LOOK_BUDGET", "90")
    context.settings.forget()
    app = open_page("reliability")
    assert not app.exception, app.exception
    assert app.warning[0].value.startswith("Outdated.")
    app.session_state["reliability_tab"] = "Configuration measured"
    app.run()
    rows = {row["Part"]: row for row in app.table[-1].value.to_dict("records")}
    assert {name: row["Same"] for name, row in rows.items()} == {
        "Model": "✓ same", "Prompts": "✓ same", "Rule": "✗ differs: stale", "Label definition": "✓ same",
    }  # fmt: skip
    assert "budget 90" in rows["Rule"]["Runs now"] and "budget 90" not in rows["Rule"]["Measured"]


def _counts(page: AppTest, key: str) -> dict[str, int]:
    split = (option.rsplit(" ", 1) for option in page.pills(key=key).options)
    return {words: int(number) for words, number in split}


def test_the_counts_of_the_flow_open_their_cases_and_hide_what_waits(
    open_page: Opener, page_database: Database
) -> None:
    screened(page_database, sample_rows(every=4), audit_rate=0.5)
    page = open_page("reliability")
    table = {row["Cases"]: row["n"] for row in page.dataframe[0].value.to_dict("records")}
    counts = _counts(page, "audit_cases")
    assert counts["Screened"] == table["screened with this configuration"] == counts["In the sample"]
    assert {words: counts.get(words, 0) for words in CALLED.values()} == {
        words: table[words[0].lower() + words[1:]] for words in CALLED.values()
    }
    assert not any("due" in words for words in counts) and table["review pending"] > 0
    for words, count in counts.items():
        page.pills(key="audit_cases").set_value(f"{words} {count}").run()
        assert _listed(page) == count, words
    assert any("Cases whose review is pending are not listed" in caption.value for caption in page.caption)
    waits = set(page_database.values(select(cases.c.external_id).join(inbox_entries)))
    page.pills(key="audit_cases").set_value(f"Screened {counts['Screened']}").run()
    assert _listed(page) == counts["Screened"] > len(waits) > 0
    page.toggle(key="hide_in_review").set_value(True).run()
    assert _listed(page) == counts["Screened"] - len(waits)
    assert not waits & set(page.dataframe[-1].value["ID"])


def test_each_count_of_reviews_opens_its_cases(open_page: Opener, read: int) -> None:
    page = open_page("reliability")
    reviewed = {words: count for words, count in _counts(page, "audit_cases").items() if "eviewed" in words}
    assert 0 < reviewed["Reviewed"] <= read and len(reviewed) == 4
    for words, count in reviewed.items():
        page.pills(key="audit_cases").set_value(f"{words} {count}").run()
        assert _listed(page) == count, words


def _listed(page: AppTest) -> int:
    """How many cases the list says that it has."""
    said = next(caption.value for caption in page.caption if re.match(r"\d+ cases?\.", caption.value))
    return int(said.split()[0])


def test_everybody_is_told_the_same_figures(page_database: Database) -> None:
    screened(page_database, sample_rows(every=4), audit_rate=0.5)
    (one,) = measured_configurations(page_database, LOCAL_USER)
    reviewer, other = (verify_now(page_database, who, one.version, PLAN, AT.date()) for who in (LOCAL_USER, RESEARCHER))
    assert reviewer == other and any(each.waiting for each in other.strata)
    assert other.called_safe == other.estimates.missed.cases


def test_the_counts_of_drift_open_their_cases(open_page: Opener, page_database: Database) -> None:
    case_ids = settled(page_database, REFERENCE + 3, audit_rate=0.0)
    with page_database.write() as conn:
        since = screenings.c.case_id.in_(case_ids[-3:])
        conn.execute(update(screenings).where(since).values(completed_at=LATER + timedelta(days=1)))
    page = open_page("reliability")
    page.session_state["reliability_tab"] = "Drift"
    page.run()
    assert _counts(page, "drift_cases") == {"safe, reference": REFERENCE, "safe, since": 3}
    page.pills(key="drift_cases").set_value("safe, since 3").run()
    assert not page.exception and len(page.dataframe[-1].value) == 3
    page.button(key="send_cases").click().run()
    assert page.success[0].value.startswith("6 cases sent to review, controls included")


def test_what_was_read_beyond_the_plan_stands_beside_the_guarantee_and_not_in_it() -> None:
    counted = [audited(Outcome.UNSAFE, Label.UNSAFE, coin=0.01)] * 59
    further = replace(audited(Outcome.SAFE, Label.UNSAFE, coin=0.3).case, probability=0.4, tossed_at=0.05)
    found = verify(sample(*counted, Review(case=further, settled_at=AT, read_at=AT)), NO_MIX, PLAN)
    assert (found.guarantee.standing, found.guarantee.missed) == (Standing.GUARANTEED, 0)
    assert "1 text labeled safe was reviewed beyond the plan" in found.left_out and "1 of them" in found.left_out
    assert found.left_out in report(found).replace("&#39;", "'")
    assert verify(sample(*counted), NO_MIX, PLAN).left_out == ""
    unclear = Review(case=replace(further, blind_first=None, inconclusive=True), settled_at=AT, read_at=AT)
    said = verify(sample(*counted, unclear), NO_MIX, PLAN).left_out
    assert "1 text labeled safe was reviewed" in said and said.endswith("0 of them were unsafe, 1 inconclusive.")


def test_the_planner_says_what_so_many_reviews_buy_and_where_they_buy_nothing() -> None:
    def strata(cases: int, read: int) -> tuple[Stratum, ...]:
        return (
            Stratum(name="a", outcome=Outcome.SAFE, probability=0.3, cases=cases, selected=read, read=read, unsafe=0),
        )

    found = verify(sample(), NO_MIX, PLAN)
    said = review_words(replace(found, strata=strata(1000, 300)), 12)
    assert said.startswith("12 reviews more: the bound falls by about 4%, over")  # 312 in place of 300, no miss
    assert "after thirty such days by about 54%." in said  # 1 - (1 - 0.05 ** (1 / 660)) / (1 - 0.05 ** (1 / 300))
    assert "9.9" not in said, "the bound at one look, told every day, would be told at many looks"
    assert "the bound hardly falls, over" in review_words(replace(found, strata=strata(10**6, 5_400)), 12)
    assert "would leave the bound where it is" in review_words(replace(found, strata=strata(300, 300)), 12)
    assert "cannot be said" in review_words(found, 12)


def test_the_report_has_every_item_that_applies_and_says_what_the_site_left_open() -> None:
    read_late = replace(audited(Outcome.UNSAFE, Label.UNSAFE), read_at=AT + timedelta(hours=3))
    found = verify(sample(audited(Outcome.SAFE, Label.SAFE, minute=60), read_late), NO_MIX, PLAN)
    told = SiteSettings(study_funding="a <b>foundation</b>", study_registration="DRKS0")
    html = report(found, site=told, severities={4: 1, None: 2})
    listed = ("10b", "12b", "13a", 15, *range(17, 21), "21a", "21b", *range(22, 26), *range(28, 31))
    for item in listed:
        assert re.search(rf"STARD [^)]*\b{item}\b|STARD 28 to 30", html), item
    assert "median 2.0, from 1.0 to 3.0, over 2 reviews" in html and "59 blinded reviews" in html
    assert "a &lt;b&gt;foundation" in html and "DRKS0" in html and html.count("not stated by this site") == 3
    assert "<th>ideation not stated</th><td>2</td>" in html and "<th>ideation level 4 of 5</th><td>1</td>" in html


def test_severity_is_that_of_audited_texts_read_as_unsafe(page_database: Database) -> None:
    screened(page_database, sample_rows(every=4), audit_rate=0.5)
    review(page_database, "unsafe")
    (measured,) = measured_configurations(page_database, LOCAL_USER)
    shown = priorities_shown(page_database, LOCAL_USER, measured.version)
    first = select(reviews.c.priority, screenings.c.outcome).join(screenings, screenings.c.case_id == reviews.c.case_id)
    rows = page_database.rows(first.where(reviews.c.version == 1, reviews.c.blind.is_(True)))
    for urgent in (True, False):
        of_it = [row.outcome != "safe" for row in rows if (row.priority <= 1) is urgent]
        assert shown[urgent] == Proportion(sum(of_it), len(of_it))
    assert rows and "P0 or P1" in report(verify(sample(), NO_MIX, PLAN), priorities=shown)
    found = severities(page_database, LOCAL_USER, measured.version)
    audited = audit_sample(page_database, LOCAL_USER, measured.version).reviews
    assert sum(found.values()) == sum(each.read_at is not None for each in audited) > 0


def test_what_waits_for_a_second_review_counts_as_missed_in_the_bound_and_says_so() -> None:
    """Read as unsafe it always waits, read as safe seldom: left out, the bound would forget the misses."""
    fine = [audited(Outcome.SAFE, Label.SAFE)] * 54
    again = [replace(one, case=replace(one.case, disputed=True)) for one in [audited(Outcome.SAFE, Label.UNSAFE)] * 6]
    found = verify(sample(*fine, *again), NO_MIX, PLAN)
    assert found.at_most == missed_sequence([*fine, *[audited(Outcome.SAFE, Label.UNSAFE)] * 6], 0.05, from_above=True)
    assert found.looks[-1].low == 0.0 and found.looks[-1].observations == 60
    for said in (missed_words(found), missed_sentence(found)):
        assert "; in the bound 6 awaiting a second review count as missed" in said
    assert dict(flow(found))["reviewed blinded, second review due"] == 6
    assert "nor texts that were reviewed and wait for a further review" in report(found)


def test_the_bound_holds_at_every_daily_look_though_second_reviews_take_three_days(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3 % are unsafe, 100 are read a day: with the unsafe left out until settled, the limit is too low in every run."""
    monkeypatch.setattr(claims, "MOST_LOOKS", 1)
    safe, missed = audited(Outcome.SAFE, Label.SAFE), audited(Outcome.SAFE, Label.UNSAFE)
    again, too_low = replace(missed, case=replace(missed.case, disputed=True)), 0
    for run in range(20):
        unsafe = np.random.default_rng(run).random(1000) < 0.03
        for now in range(100, 1001, 100):
            known = [(missed if at < now - 300 else again) if hit else safe for at, hit in enumerate(unsafe[:now])]
            given = [replace(one, read_at=AT + timedelta(minutes=at)) for at, one in enumerate(known)]
            if missed_sequence(given, 0.05, from_above=True)[-1].high < 0.03:
                too_low += 1
                break
    assert too_low <= 1


def test_where_the_share_of_misses_has_moved_no_bound_is_told_anywhere() -> None:
    """0.2 % of 1,000, then 10 % of 300: the bound was 3.9 beside an estimate of 20."""
    missed = np.random.default_rng(1).random(1300) < np.repeat([0.002, 0.1], [1000, 300])
    labels = [Label.UNSAFE if hit else Label.SAFE for hit in missed]
    given = [audited(Outcome.SAFE, label, minute=minute) for minute, label in enumerate(labels)]
    before, now = (verify(sample(*some), NO_MIX, PLAN) for some in (given[:1000], given))
    assert not has_moved(before) and at_most_words(before).startswith("at most ")
    assert has_moved(now) and at_most_words(now) == claims_today.missed_words(now)[1] == "no bound"
    for said in (
        missed_words(now),
        missed_sentence(now),
        claims_today.missed_words(now)[2],
        " ".join(measured_lines(now)),
    ):
        assert claims.MOVED in said and "at most" not in said.split("cannot be guaranteed")[0], said
    assert "No bound can be told after 1,300 reviews" in missed_words(now) and "estimate 20.0" in missed_words(now)


def test_an_estimate_above_the_bound_refutes_it_wherever_its_reviews_came_from() -> None:
    """Texts audited below the plan's π count in the estimate alone."""
    fine = [audited(Outcome.SAFE, Label.SAFE, probability=0.5)] * 900
    below = [audited(Outcome.SAFE, Label.UNSAFE, probability=0.01)] * 30
    found = verify(sample(*fine, *below), NO_MIX, replace(PLAN, floor=0.5))
    assert not found.at_most[-1].contradictory and has_moved(found)


def test_what_was_audited_below_a_plan_that_is_raised_later_is_said_and_no_lost_text_is_called_read() -> None:
    early = [audited(Outcome.SAFE, Label.SAFE, probability=0.05)] * 30
    lost = audited(Outcome.SAFE, None, probability=0.5)
    later = [
        *[audited(Outcome.SAFE, Label.SAFE, probability=0.5)] * 5,
        replace(lost, case=replace(lost.case, unreadable=True)),
    ]
    under = [replace(one, settled_at=AT + timedelta(days=1)) for one in later]
    found = verify(sample(*early, *under), NO_MIX, replace(PLAN, floor=0.5, since=AT))
    said = missed_words(found)
    assert "after 6 texts reviewed or lost at the plan's π" in said and "0 missed in 35 reviewed" in said
    assert "30 texts were audited below the plan's π and count for the estimate alone." in said
    assert claims_today.missed_words(found)[2].endswith("6 reviewed or lost")


def test_a_bound_for_one_look_is_told_on_its_day_alone() -> None:
    reviews = [audited(Outcome.SAFE, Label.SAFE)] * 60
    assert one_look_words(verify(sample(*reviews), NO_MIX, PLAN), AT).startswith("No day was set")
    plan = replace(PLAN, report_on=AT.date(), since=AT - timedelta(days=1))
    dated = verify(sample(*reviews), NO_MIX, plan)
    assert one_look_words(dated, AT - timedelta(days=1)).startswith("The single planned analysis is due on 2026-11-20")
    assert one_look_words(dated, AT).endswith("at most 48.7 per 1,000 (exact, 95%).")  # 1 - 0.05 ** (1 / 60)
    assert dated.at_most[-1].high > 0.0487  # what looking at any time costs
    for days in (1, 120):
        assert one_look_words(dated, AT + timedelta(days=days)).startswith(
            "The single planned analysis was on 2026-11-20"
        )


def test_a_bound_for_one_look_is_called_exact_only_where_texts_are_one_random_sample() -> None:
    two = [audited(Outcome.SAFE, Label.SAFE, probability=p) for p in (0.05, 0.5) for _ in range(30)]
    found = verify(sample(*two), NO_MIX, replace(PLAN, report_on=AT.date()))
    assert not found.estimates.missed.exact and one_look_words(found, AT).endswith("per 1,000 (MOVER, 95%).")


def test_a_day_of_one_look_that_has_come_stays_shown(open_page: Opener, page_database: Database) -> None:
    fixed = datetime.now(UTC) - timedelta(days=3)
    change(page_database, LOCAL_USER.at(fixed), SiteSettings(audit_report_on=fixed.date() + timedelta(days=1)), 0)
    page = open_page("settings")
    assert not page.exception and page.date_input(key="audit_report_on_v1").value == fixed.date() + timedelta(days=1)
    assert page.button(key="plan_save").disabled and not page.error
    day = page.date_input(key="audit_report_on_v1")
    day.set_value(datetime.now(UTC).date()).run()
    assert page.button(key="plan_save").disabled and len(page.error) == 1
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    page.date_input(key="audit_report_on_v1").set_value(tomorrow).run()
    page.button(key="plan_save").click().run()
    assert not page.exception and current(page_database).settings.audit_report_on == tomorrow


def test_bounds_for_reviewers_who_miss_some_and_for_the_last_90_days() -> None:
    """600 long ago without a miss, 100 of now with 3 first called unsafe, of which second reviewers took 2 back."""
    long_ago = [
        replace(audited(Outcome.SAFE, Label.SAFE), settled_at=AT - timedelta(days=91), read_at=AT - timedelta(days=91))
    ]
    back = replace(
        audited(Outcome.SAFE, Label.UNSAFE),
        case=replace(audited(Outcome.SAFE, Label.UNSAFE).case, by_several=True, settled=Label.SAFE),
    )
    now = [audited(Outcome.SAFE, Label.SAFE)] * 97 + [back, back, audited(Outcome.SAFE, Label.UNSAFE)]
    double = [True] * 80 + [False] * 20  # 80 of 100: 2 · 0.8 / 1.8
    found = verify(sample(*long_ago * 600, *now), NO_MIX, PLAN, AT.date(), double)
    assert found.first_reviews == (700, 100)
    rows = {words: bounds for words, *bounds in found.ranges}
    whole, lately = rows["100%, assumed"]
    assert lately == pytest.approx(beta.ppf(0.95, 4, 97)), "Clopper-Pearson of 3 in 100"
    assert whole == upper_limits([0.0] * 697 + [1.0] * 3, looks=[700])[0].high > found.at_most[-1].high
    assert rows["80%, assumed"] == pytest.approx([whole / 0.8, lately / 0.8])
    measured = next(bounds for words, bounds in rows.items() if words.startswith("as measured: 88.9%"))  # 1.6 / 1.8
    assert measured[1] == pytest.approx(beta.ppf(0.975, 4, 97) / (recognized_share(double).at_least or 0))
    empty = verify(sample(), NO_MIX, PLAN)
    assert empty.first_reviews == (0, 0) and [bounds for _, *bounds in empty.ranges] == [[None, None]] * 5
