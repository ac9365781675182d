"""What is said of a case that is not in its reader's hands any more: the truth, and that the draft is kept."""

from screening.review.rating_form import RatingLabel
from storage.review.standing import Place, Standing

_LABELS = {
    RatingLabel.SAFE: "safe",
    RatingLabel.UNSAFE: "unsafe",
    RatingLabel.INSUFFICIENT_INFORMATION: "insufficient information",
}
_KEPT = "What you filled in is kept as a draft."


def standing_words(found: Standing) -> str:
    """One or two sentences.

    >>> standing_words(Standing(place=Place.TAKEN))
    'Somebody else has this case now. What you filled in is kept as a draft.'
    """
    if found.place is Place.READ and found.at is not None and found.label is not None:
        did = "closed" if found.closed else "read"
        waits = "" if found.closed else "; it waits for another reader"
        return f"You {did} this case at {found.at:%H:%M} UTC as {_LABELS[found.label]}{waits}."
    return {
        Place.TAKEN: f"Somebody else has this case now. {_KEPT}",
        Place.CLOSED: f"This case was closed by somebody else in the meantime. {_KEPT}",
        Place.FREE: f"Your lease on this case ran out, or you had none: it is free for others. {_KEPT}",
    }.get(found.place, "This case is in your hands.")
