"""What clinicians did: inbox entries with their leases, reviews, adjudications."""

from typing import Any

from sqlalchemy import JSON, Boolean, Column, Computed, Float, Integer, String, UniqueConstraint, and_, literal_column

from storage.schema.columns import ERASED_WHOLE, BigId, Id, Moment, StorableText, case_id, erased_as, index, table


def without_words(fields: dict[str, Any]) -> dict[str, Any]:
    """A review's fields without what its reviewer wrote, or took out of the text: what is coded stays."""
    return {name: value for name, value in fields.items() if name not in ("note", "marks")}


inbox_entries = table(
    "inbox_entries",
    case_id(primary_key=True),
    Column("priority", Integer, nullable=False),  # 0 .. 3
    Column("routine", Boolean, Computed("priority > 0", persisted=True)),  # by the database: P0 sorts before all others
    Column("why", String(40), nullable=False),
    Column("cause", String(40)),  # why it could not be screened; None once it was, or where that is not why it is here
    Column("entered_at", Moment, nullable=False),
    Column("due_at", Moment, nullable=False),
    Column("first_due_at", Moment),  # the target of its first review, once another one is due
    # which review is due; changed in the transaction that stores the review before it
    Column(
        "review_round", String(12), nullable=False, default="first", server_default="first"
    ),  # first | second | third
    # who has it, changed in place by one conditional UPDATE; all None, or the moment passed: free for everybody. With a
    # token it is open before its assignee, a lease; without one it is kept for them, by themselves or by a colleague
    Column("assignee", String(64)),
    Column("assigned_by", String(64)),
    Column("assigned_until", Moment),
    Column("lease_token", String(64)),
    # when whoever had it then first had its text before them, and when that last happened
    Column("first_opened_at", Moment),
    Column("last_opened_at", Moment),
    Column("closed_at", Moment),  # set in the transaction that adjudicates: keeps the claim query flat
    # a researcher asked for its review: picked it, drew it from all that were not picked (drawn), or had it mixed in
    # from the cells beside (control), with this probability; None where nobody asked
    Column("sent_as", String(8)),
    Column("chance", Float),
    Column("batch_id", Id),  # of the case
)
_OPEN = inbox_entries.c.closed_at.is_(None)
# P0 first, then the earliest deadline: the order of the claim query, over open cases only
index(inbox_entries, "ix_inbox_open", "routine", "due_at", "case_id", where=_OPEN)
# the same within one priority, for a filter
index(inbox_entries, "ix_inbox_priority", "priority", "due_at", "case_id", where=_OPEN)
# the same by when they came in, for a list that is sorted by that
index(inbox_entries, "ix_inbox_entered", "priority", "entered_at", "case_id", where=_OPEN)
LATER_REVIEW = inbox_entries.c.review_round != literal_column("'first'")
"""Somebody has read it, and another review is due: said in a query as well, so that its index serves."""
_LATER = and_(_OPEN, LATER_REVIEW)
index(inbox_entries, "ix_inbox_later", "review_round", "routine", "due_at", "case_id", where=_LATER)
# what is open of a batch
index(inbox_entries, "ix_inbox_of_batch", "batch_id", "case_id", where=_OPEN)
# what keeps a case from the next reviewer for a while: a few rows, found by the moment until which it does
_ASSIGNED = and_(_OPEN, inbox_entries.c.assigned_until.is_not(None))
index(inbox_entries, "ix_inbox_assigned", "assigned_until", where=_ASSIGNED)

ENTERED_OTHERWISE = inbox_entries.c.sent_as.is_not(None) | inbox_entries.c.cause.is_not(None)
"""What came in without an outcome that brought it: few."""
index(inbox_entries, "ix_inbox_otherwise", "case_id", where=ENTERED_OTHERWISE)
UNASSIGNED = dict.fromkeys(("assignee", "assigned_by", "assigned_until", "lease_token"))
"""What an entry says that nobody has."""

case_notes = table(
    "case_notes",
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("author", String(64), nullable=False),
    Column("kind", String(16), nullable=False),  # hold | hand_over | release | skip | second_opinion
    Column("handed_to", String(64)),
    Column("note", StorableText, nullable=False, info=erased_as("")),
    Column("at", Moment, nullable=False),
)

skips = table(
    "skips",
    case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("reason", String(24), nullable=False),  # skip | declined
    Column("at", Moment, nullable=False),
)
index(skips, "ix_skips_reviewer", "reviewer", "at")

drafts = table(
    "drafts",
    case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("body", JSON, nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=ERASED_WHOLE,
)

reviews = table(
    "reviews",
    Column("id", Id, primary_key=True),
    case_id(index=True),
    Column("reviewer", String(64), nullable=False),
    Column("version", Integer, nullable=False),  # 1 is the first review, later ones are revisions
    Column("blind", Boolean, nullable=False),  # read before the model's fields were served
    Column("review_round", String(12), nullable=False),  # first | second | third
    Column("priority", Integer),  # that was shown with it; None in reviews of earlier versions
    Column("label", String(24), nullable=False),  # safe | unsafe | insufficient_information
    Column("certainty", Integer, nullable=False),
    Column("fields", JSON, nullable=False, info=erased_as(without_words)),
    Column("reason", StorableText, info=erased_as()),  # of a revision
    Column("at", Moment, nullable=False),
    UniqueConstraint("case_id", "reviewer", "version"),
)
index(reviews, "ix_reviews_reviewer", "reviewer", "at")
index(reviews, "ix_reviews_at", "at")

undone_reviews = table(  # moved here from reviews within half a minute, before the AI's view was served
    "undone_reviews",
    Column("review_id", Id, primary_key=True),
    case_id(index=True),
    Column("reviewer", String(64), nullable=False),
    Column("review_round", String(12), nullable=False),
    Column("label", String(24), nullable=False),
    Column("certainty", Integer, nullable=False),
    Column("blind", Boolean, nullable=False),
    Column("fields", JSON, nullable=False, info=erased_as(without_words)),
    Column("at", Moment, nullable=False),
)

# Who saw which case's outcome, or other people's reviews of it, and when first
unblindings = table(
    "unblindings",
    case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("before_review", Boolean, nullable=False),  # their review then is not blinded
    Column("at", Moment, nullable=False),
)

second_review_requests = table(
    "second_review_requests",
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("why", String(24), nullable=False),  # asked | sampled | rule | disagreement
    Column("asked_by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

adjudications = table(
    "adjudications",
    case_id(primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("label", String(24), nullable=False),
    Column("method", String(24), nullable=False),  # single | agreement | senior | discussion | amendment
    Column("by", String(64), nullable=False),
    Column("reason", StorableText, info=erased_as()),
    Column("review_ids", JSON, nullable=False),
    Column("at", Moment, nullable=False),
)
index(adjudications, "ix_adjudications_at", "at")

# What must happen after a review, outside this program: somebody sees to it by then.
follow_ups = table(
    "follow_ups",
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(),
    Column("disposition", String(32), nullable=False),  # see `follow_ups.For`
    Column("opened_by", String(64), nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("who", String(64), nullable=False),  # whoever sees to it; changed in place when it is handed on
    Column("due_at", Moment, nullable=False),
    Column("closed_at", Moment),
    Column("closed_by", String(64)),
    Column("how", String(16)),  # done | handed_on, to somebody outside this program | not_needed
    Column("note", StorableText, info=erased_as("")),
)
_UNDONE = follow_ups.c.closed_at.is_(None)
index(follow_ups, "ix_follow_ups_open", "case_id", "disposition", unique=True, where=_UNDONE)
index(follow_ups, "ix_follow_ups_opened", "opened_at")

# What was labeled unsafe and put on a worklist, once somebody has seen it there
acknowledgements = table(
    "acknowledgements",
    case_id(primary_key=True),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

erasure_requests = table(
    "erasure_requests",
    Column("id", Id, primary_key=True),
    Column("kind", String(16), nullable=False),  # case | external_id | group
    Column("value", StorableText, nullable=False),  # a hash of it once it is done
    Column("reason", StorableText, nullable=False),
    Column("requested_by", String(64), nullable=False),
    Column("requested_at", Moment, nullable=False),
    Column("done_by", String(64)),
    Column("done_at", Moment),
    Column("withdrawn_at", Moment),
    Column("cases", Integer),  # how many were erased
)

case_tags = table(
    "case_tags",
    case_id(primary_key=True),
    Column("tag", String(40), primary_key=True),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
    info=ERASED_WHOLE,
)
index(case_tags, "ix_case_tags_tag", "tag", "case_id")

case_remarks = table(
    "case_remarks",
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("author", String(64), nullable=False),
    Column("remark", StorableText, nullable=False),
    Column("at", Moment, nullable=False),
    info=ERASED_WHOLE,
)
