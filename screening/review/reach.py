"""What happens to a text that the AI labels unsafe: a batch's choice when it begins, never its file's."""

from enum import StrEnum

WHO_SEES_WHAT = (
    "Texts the AI cannot decide are escalated to the review queue. Texts the AI labels unsafe are reviewed too, unless "
    "somebody chose otherwise for an upload."
)


class Reach(StrEnum):
    """Whether a text labeled unsafe reaches a person, and how. What is escalated always does."""

    READ = "read"
    """It enters the review queue like any other urgent case and is reviewed blinded: all of them are."""
    LIST = "list"
    """It is put on a list for sign-off by somebody who sees how it was labeled."""
    COUNT = "count"
    """It is counted; a person sees it only as a quality check, which is drawn at random."""
