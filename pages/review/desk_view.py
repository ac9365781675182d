"""What the review desk is given to show: plain values, every text of others as text and never as markup."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pages.review import evidence_view, inbox_words
from pages.review.desk import Desk, Here, place
from pages.ui import context, html, widgets
from pages.ui.words import WORDS, last_midnight
from screening.review.policy import Action, Actor, Role, is_allowed, pseudonym
from screening.review.review_form import ReviewForm, ReviewLabel, TextMark, contradictions, needs_disposition
from screening.review.triage import Priority
from screening.text.display import received_offset, shown_offset, visible
from storage.database import Database
from storage.review import queue, reports
from storage.review.adjudication import Next
from storage.review.evidence import CaseText, Evidence
from storage.review.follow_ups import For
from storage.review.inbox import NEEDS_NOTE, Place, what_follows
from storage.review.reviews import TIME_TO_TAKE_BACK, Review, load_draft
from storage.settings_store import SiteSettings
from storage.site.accounts import colleagues

_OF_THE_BROWSER = ("rev", "revision", "reason", "leaving", "marks")


def part_of(text: CaseText | None, part: str) -> str:
    return "" if text is None else (text.reply or "") if part == "reply" else text.text


def received_form(form: Mapping[str, Any], text: CaseText | None) -> dict[str, Any]:
    """The fields as storage takes them, marks in the text as received; none of a text not at hand."""
    fields = {name: value for name, value in form.items() if name not in _OF_THE_BROWSER and value is not None}
    marks = []
    for mark in () if text is None else form.get("marks") or ():
        part = "reply" if mark.get("part") == "reply" else "text"
        start, end = (received_offset(part_of(text, part), int(mark.get(name) or 0)) for name in ("start", "end"))
        if start < end:
            marks.append({"part": part, "start": start, "end": end})
    return fields | {"marks": marks}


def shown_mark(mark: TextMark, text: CaseText) -> dict[str, Any]:
    """A mark as the browser counts."""
    whole = part_of(text, mark.part)
    return {"part": mark.part, "start": shown_offset(whole, mark.start), "end": shown_offset(whole, mark.end)}


NOTE_WORDS = WORDS["note"]


MOST_NAMES = 3


def fixed(person: Actor, site: SiteSettings) -> dict[str, Any]:
    """What a desk is drawn with that no case changes: who is here, the form, the keys and the site's own words."""
    browse = is_allowed(person, Action.BROWSE_QUEUE)
    return {
        "me": _me(person),
        "offer": inbox_words.form_offer(site.dispositions, site.follow_up_minutes, browse=browse),
        "guideline": inbox_words.guideline(site),
        "help": {"words": site.help_text, "protocol": site.protocol_address},
        "nobody": f"No other reviewer is set up. {_how_to_add()}",
    }


def _me(person: Actor) -> dict[str, Any]:
    id_ = pseudonym(context.settings().pseudonym_secret, person.id)
    return {"id": id_, "name": visible(person.name), "roles": sorted(person.roles)}


def view(here: Here) -> dict[str, Any]:
    """The state of a desk: everything for one drawing of it."""
    stage = _stage(here)  # first: it may have something to say
    opened = reports.exposure(here.db, here.by, last_midnight(here.now))
    return {
        "now": _ms(here.now),
        "me": _me(here.person),
        "said": here.page.said,
        "last": _last(here.page.last),
        "exposure": _exposure_words(opened),
        "rest": _break_words(here, opened.since_break),
        **stage,
    }


def _exposure_words(opened: Any) -> str:
    """How many texts this person has opened: each sees their own alone."""
    hours = reports.STRETCH // timedelta(hours=1)
    since = f"since last break (last {hours} hours): {opened.since_break:,}"
    return f"Texts you opened today, here and in results: {opened.texts:,} · {since} (visible only to you)"


def _break_words(here: Here, since_break: int) -> str:
    """The site's own words where a break is due: it is offered, never forced, and never in the midst of a case."""
    if here.desk is not None and here.desk.mine is None:
        return ""
    if since_break < max(here.site.break_after_texts, here.page.break_put_off):
        return ""
    return visible(here.site.break_wording.replace("{texts}", str(since_break)))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _stage(here: Here) -> dict[str, Any]:
    desk = here.desk
    if desk is None:
        waiting = queue.counts(here.db, here.by, here.priorities, here.batch)
        return {"stage": "idle", "words": inbox_words.waiting_words(waiting)}
    may_take = is_allowed(here.person, Action.CLAIM_NAMED, here.person.id)
    if desk.only_named:
        kept = inbox_words.is_filled_in(load_draft(here.db, here.person, desk.case_id))
        words = "This case is not assigned to you, so nothing of it is shown."
        words += " What you had filled in is kept and comes back with it." if kept else ""
        return {"stage": "named", "words": words, "case": {"id": desk.case_id}, "may_take": may_take}
    if desk.mine is None:
        return _unread_stage(here, desk, may_take=may_take)
    shown = {"case": _case(here, desk), "read": _read_stage(here, desk, desk.mine)}
    return {"stage": "read", **shown, **_draft(here, desk)}


def _unread_stage(here: Here, desk: Desk, *, may_take: bool) -> dict[str, Any]:
    found = place(here, desk)
    if found.place is Place.HELD:
        desk = here.desk or desk  # its lease may be another one by now
        return {"stage": "reviewing", "case": _case(here, desk), **_draft(here, desk)}
    draft = inbox_words.is_filled_in(load_draft(here.db, here.person, desk.case_id))
    away = _case(here, desk) | {"text": None, "reply": None, "turns": [], "notes": [], "near": [], "evidence": ""}
    return {
        "stage": "over",
        "case": away,
        "words": inbox_words.standing_words(found, draft=draft),
        "may_take": may_take and found.place in (Place.FREE, Place.KEPT),
        "mine": found.place is Place.READ,
    }


def _draft(here: Here, desk: Desk) -> dict[str, Any]:
    """What is filled in so far, and what in it does not fit together; of a case that is read only a running change."""
    draft = dict(load_draft(here.db, here.person, desk.case_id) or {})
    if desk.text is not None and "rev" not in draft:  # a review taken back: its marks as storage counts them
        kept = [TextMark.model_validate(mark) for mark in draft.get("marks") or ()]
        draft["marks"] = [shown_mark(mark, desk.text) for mark in kept]
    running = desk.mine is None or draft.get("revision")
    return {"draft": draft, "points": list(_points(draft)) if running else []}


def _points(draft: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return contradictions(ReviewForm.model_validate(received_form(draft, None)))
    except ValueError:
        return ()


def _case(here: Here, desk: Desk) -> dict[str, Any]:
    claim, text = desk.claim, desk.text
    named = text or claim
    settled = desk.evidence is not None and evidence_view.engine_label(desk.evidence) is not None
    shown: dict[str, Any] = {
        "id": desk.case_id,
        "name": inbox_words.list_name(named.external_id if named else "", desk.case_id),
        "asked": desk.asked,
        "evidence": evidence_view.evidence_html(desk.evidence) if desk.evidence else "",
        "notes": [
            f"{'You' if each.author == here.person.id else visible(each.author_name)} "
            f"{NOTE_WORDS.get(each.kind, each.kind)}: {visible(each.note)}"
            for each in desk.left[-3:]
        ],
        "near": [
            {
                "where": "earlier" if each.before else "later",
                "name": inbox_words.list_name(each.external_id, ""),
                "text": visible(each.text),
            }
            for each in (text.near if text else ())
        ],
        **_texts(text),
    }
    if claim is not None:
        shown |= {"token": claim.token, "expires": _ms(claim.expires_at), "due": _ms(claim.due_at)}
        shown |= _priority(claim.priority, inbox_words.why_words(claim.why, settled=settled))
        shown |= {"at_once": claim.priority is Priority.P0, "colleagues": colleague_names(here.db, here.person)}
    return shown


def _priority(priority: Priority, why: str) -> dict[str, Any]:
    words = f"{inbox_words.PRIORITY_MARKS[priority]} {inbox_words.PRIORITY_WORDS[priority]}"
    needing = [label.value for label in ReviewLabel if needs_disposition(label, priority)]
    shown = {"priority": int(priority), "priority_words": words, "why": why}
    return shown | {"needs_note": priority in NEEDS_NOTE, "needing": needing}


def _texts(text: CaseText | None) -> dict[str, Any]:
    if text is None:
        return {"text": None, "reply": None, "turns": []}
    reply = None if text.reply is None else visible(text.reply)
    return {"text": visible(text.text), "reply": reply, "turns": html.shown_turns(text.text, text.thread)}


def colleague_names(db: Database, person: Actor) -> list[list[str]]:
    """Whom this person may give a case to: the account and the name of each."""
    names = widgets.unique_labels({each.id: visible(each.name) for each in colleagues(db, person)})
    return [[account, name] for account, name in names.items()]


def next_words(here: Here, following: Next, follow_ups: Sequence[Any]) -> str:
    """What is still to happen with the case and by whom; "closed" only where nothing is."""
    others = colleagues(here.db, here.person)
    if following is Next.SENIOR:
        seniors = [each for each in (here.person, *others) if Role.SENIOR in each.roles]
        return f"The two reviews differ. {_by_whom('A senior decides', 'no senior', seniors)}"
    if following is Next.SECOND_REVIEW:
        return second_review_words(others)
    again = any(one.disposition == For.SECOND_REVIEW for one in follow_ups)
    if again:
        return second_review_words(())
    return "Open until its follow-up is completed." if follow_ups else "Case closed."


def second_review_words(others: Sequence[Actor]) -> str:
    return _by_whom("Second review needed", "no other reviewer", others)


def _by_whom(what: str, nobody: str, people: Sequence[Actor]) -> str:
    if not people:
        return f"{what}, but {nobody} is set up. {_how_to_add()}"
    names = " or ".join(visible(each.name) for each in people)
    return f"{what}: {names}." if len(people) <= MOST_NAMES else f"{what}."


def _how_to_add() -> str:
    how = "Add one" if context.sign_in_configured() else "Set up sign-in (docs/operations.md) and add one"
    return f"{how} in Admin > Settings."


def _read_stage(here: Here, desk: Desk, mine: Review) -> dict[str, Any]:
    key = context.settings().pseudonym_secret
    following, follow_ups = what_follows(here.db, here.by, desk.case_id)
    text, shown = desk.text, desk.evidence
    where = shown.where_to_act if shown else None
    ours = {one.id: "you" if one.who == here.person.id else visible(one.who_name) for one in follow_ups}
    return {
        "words": inbox_words.review_words(mine.form),
        "version": mine.version,
        "blind": mine.blind,
        "becomes": next_words(here, following, follow_ups),
        "follow_ups": [
            {"words": f"Follow-up for {ours[one.id]}: {inbox_words.FOR_WORDS[one.disposition]}", "due": _ms(one.due_at)}
            for one in follow_ups
        ],
        "receipt": {"id": mine.id[-12:], "at": _ms(mine.at)},
        "form": mine.form.model_dump(mode="json") | {"marks": [shown_mark(each, text) for each in mine.form.marks]}
        if text
        else {},
        "revealed": shown is not None,
        "act": where and {"words": visible(where), "href": html.https_link(where)},
        "engine": evidence_view.outcome_words(shown) if shown else "",
        "compared": compared_words(mine, shown) if shown else "",
        "others": [
            {
                "who": pseudonym(key, each.reviewer),
                "words": inbox_words.review_words(each.form),
                "marks": [shown_mark(mark, text) for mark in each.form.marks],
            }
            for each in desk.others
            if text
        ],
        "rules": _rules(text) if shown and text else [],
    }


def _rules(text: CaseText) -> list[dict[str, Any]]:
    """What a rule went by, as the browser counts."""
    parts = (("text", text.text, text.thread), ("reply", text.reply or "", None))
    return [
        {"part": part, "start": shown_offset(words, one.start), "end": shown_offset(words, one.end), "words": one.words}
        for part, words, thread in parts
        for one in html.flagged_phrases(words, thread)
    ]


def compared_words(mine: Review, evidence: Evidence) -> str:
    label = evidence_view.engine_label(evidence)
    if label is None:
        return "The AI gave no label."
    if label.value == mine.form.label.value:
        return "✓ You and the AI agree."
    return f"You: {inbox_words.LABEL_WORDS[mine.form.label].lower()} · AI: {label}"


def _last(last: Desk | None) -> dict[str, Any] | None:
    if last is None or last.mine is None:
        return None
    return {
        "case": last.case_id,
        "review": last.mine.id,
        "name": inbox_words.list_name(last.text.external_id if last.text else "", last.case_id),
        "words": inbox_words.review_words(last.mine.form),
        "at": _ms(last.mine.at),
        "until": _ms(last.mine.at + TIME_TO_TAKE_BACK),
    }
