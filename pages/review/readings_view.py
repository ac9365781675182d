"""Everybody's readings of a case and every version of its accepted label, readers under pseudonyms."""

from collections.abc import Sequence
from html import escape

from pages.review.inbox_words import CERTAINTY_WORDS, LABEL_WORDS, list_name
from pages.ui.format import local_time
from screening.review.pseudonyms import pseudonym
from screening.words import count_of
from storage.review.adjudication import Adjudication, Method
from storage.review.my_readings import MyReading
from storage.review.ratings import Rating

METHOD_WORDS = {
    Method.SINGLE: "one review",
    Method.AGREEMENT: "two reviews agree",
    Method.SENIOR: "a senior decided",
    Method.DISCUSSION: "consensus discussion",
    Method.AMENDMENT: "changed",
}
_LEFT_OUT = {"label", "certainty", "marks", "read_to_end"}
_NOTHING: tuple[object, ...] = ("", None, [], "not_stated", "undecided")


def who(account_id: str, key: str, me: str) -> str:
    """A reader as others may know them."""
    return "you" if account_id == me else "Second Look" if account_id == "system" else pseudonym(key, account_id)


def readings_html(ratings: Sequence[Rating], key: str, me: str) -> str:
    """Every version of every reading, in the order given."""
    return "".join(_reading(each, who(each.reviewer, key, me)) for each in ratings)


def _reading(rating: Rating, reader: str) -> str:
    blind = "blinded" if rating.blind else "not blinded"
    version = f", version {rating.version}" if rating.version > 1 else ""
    reason = f'<p class="s">Changed because: {escape(rating.reason)}</p>' if rating.reason else ""
    fields = fields_words(rating)
    return (
        f'<div class="sl-card"><p><b>{escape(LABEL_WORDS[rating.form.label])}</b>, '
        f"{escape(CERTAINTY_WORDS[rating.form.certainty].lower())} confidence</p>"
        f'<p class="s">{escape(reader)} · {escape(rating.reading)} review{version} · {blind} · '
        f"{local_time(rating.at)}</p>" + (f"<p>{escape(fields)}</p>" if fields else "") + f"{reason}</div>"
    )


def fields_words(rating: Rating) -> str:
    """The optional fields that were filled in."""
    body = rating.form.model_dump(mode="json", exclude=_LEFT_OUT)
    said = {name: value for name, value in body.items() if value not in _NOTHING}
    words = [f"{name.replace('_', ' ')}: {_value(value)}" for name, value in said.items()]
    if rating.form.read_to_end is False:
        words.append("submitted before scrolling to the end")
    return "; ".join(words)


def _value(value: object) -> str:
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return shown.replace("_", " ")


def versions_html(versions: Sequence[Adjudication], key: str, me: str) -> str:
    """Every version of the accepted label, each with what it changed."""
    before: Sequence[Adjudication | None] = [None, *versions]
    return "".join(_version(each, last, who(each.by, key, me)) for last, each in zip(before, versions, strict=False))


def _version(made: Adjudication, last: Adjudication | None, by: str) -> str:
    changed = last is not None and last.label is not made.label
    was = f"<del>{escape(LABEL_WORDS[last.label])}</del> → " if last is not None and changed else ""
    label = f"<ins>{escape(LABEL_WORDS[made.label])}</ins>" if changed else escape(LABEL_WORDS[made.label])
    reason = f"<p>{escape(made.reason)}</p>" if made.reason else ""
    return (
        f'<div class="sl-card"><p><b>Version {made.version}: {was}{label}</b></p>'
        f'<p class="s">{escape(METHOD_WORDS[made.method])} · {escape(by)} · on '
        f"{count_of(len(made.rating_ids), 'review')} · {local_time(made.at)}</p>{reason}</div>"
    )


def my_readings_html(given: Sequence[MyReading]) -> str:
    """One's own readings, the newest first, each with what became of it."""
    shown = "".join(map(_mine, given))
    return shown or '<p class="sl-small">You have reviewed no case yet.</p>'


def _mine(each: MyReading) -> str:
    name = escape(list_name(each.external_id, each.case_id))
    return (
        f'<p class="sl-small"><a href="case?case={escape(each.case_id, quote=True)}" target="_self">{name}</a> · '
        f"{local_time(each.at)} · {escape(LABEL_WORDS[each.label].lower())}, "
        f"{escape(CERTAINTY_WORDS[each.certainty].lower())} confidence · {escape(_became(each))}</p>"
    )


def _became(each: MyReading) -> str:
    if each.waits_for is not None:
        return "awaiting a senior" if each.waits_for == "third" else "awaiting second review"
    if each.accepted is None:
        return "deleted"
    return f"final label differs: {LABEL_WORDS[each.accepted].lower()}" if each.otherwise else "final"
