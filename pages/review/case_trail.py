"""The facts of one case on its page: provenance, what was found in the text, place in the inbox, errors."""

from collections.abc import Iterator, Sequence
from html import escape

from pages.review.evidence_view import engine_label
from pages.review.inbox_words import TIER_WORDS, why_words
from pages.ui.format import local_time
from pages.ui.labels import FLAG_WORDS, error_words
from pages.ui.texts import FlaggedPhrase
from screening.text.display import visible
from screening.text.flags import REFUSES_SAFE, SECOND_LOOK, Flag
from screening.text.injection import injection_signs
from screening.words import count_of
from storage.review.evidence import CaseFile, Evidence


def facts_html(external_id: str, file: CaseFile, evidence: Evidence, phrases: Sequence[FlaggedPhrase] = ()) -> str:
    """Its own id, where it came from and what was found, as a list of names and values."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
        for name, value in _facts(external_id, file, evidence, phrases)
    )
    return f'<dl class="sl-facts">{rows}</dl>'


def _facts(
    external_id: str, file: CaseFile, evidence: Evidence, phrases: Sequence[FlaggedPhrase]
) -> Iterator[tuple[str, str]]:
    yield "Id", visible(external_id)
    yield "From", f"{file.batch_name}, row {file.row}"
    yield "Received", f"{local_time(file.received_at)} · SHA-256 {file.text_sha256[:16]}…"
    if file.not_screened is not None:
        yield "Not screened", visible(file.not_screened)
    if file.group is not None:
        yield "Group", file.group
    yield "Original label", _reference(evidence)
    for part, flags in file.flags.items():
        for flag in flags:
            yield f"Found in the {part}", flag_sentence(flag)
    for phrase in phrases:
        yield "Rule", phrase.words
    for name, received in file.parts.items():
        where = "" if name == "text" else f" (in the {name})"
        for sign in sorted({str(sign.kind) for sign in injection_signs(received.model_text, received.text)}):
            yield "Sign of injection", sign.replace("_", " ") + where
    if file.entry is not None:
        entry = file.entry
        state = f"closed {local_time(entry.closed_at)}" if entry.closed_at else f"open, {entry.reading} review"
        why = why_words(entry.why, settled=engine_label(evidence) is not None)
        yield "Queue", f"{TIER_WORDS[entry.tier]}: {why} · {state}"
    if evidence.configuration_version is not None:
        yield "Ran with", f"configuration {evidence.configuration_version[:16]}…"


def _reference(evidence: Evidence) -> str:
    if evidence.reference is None:
        return "none"
    return f"{evidence.reference} (“{evidence.reference_value}” in the file)"


def flag_sentence(flag: str) -> str:
    """A finding and what it forbids; one that this version does not know forbids safe as well.

    >>> flag_sentence("suspected_injection")
    'appears to address the AI or to answer in its place; safe is not accepted'
    """
    if flag not in set(Flag):
        return f"{flag.replace('_', ' ')}; safe is not accepted"
    known = Flag(flag)
    forbids = "; safe is not accepted" if known in REFUSES_SAFE else ""
    forbids = "; safe needs a second check" if not forbids and known in SECOND_LOOK else forbids
    return f"{FLAG_WORDS[known].partition(':')[0]}{forbids}"


def errors_html(file: CaseFile) -> str:
    """Failed attempts, the oldest first."""
    rows = "".join(
        f"<dt>{local_time(each.at)}</dt><dd>{escape(error_words(each.kind))}; "
        f"{count_of(each.calls, 'call')} without an answer. {escape(each.message)}</dd>"
        for each in file.errors
    )
    return f'<dl class="sl-facts">{rows}</dl>'
