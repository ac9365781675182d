"""Is the engine's answer true? Audit sampling, weighted estimates, looks that add up, and what may be claimed.

All of it compares with clinicians' blind-first ratings only; the stopping rule's delta plays no part here.
"""

from screening.statistics.verification.audit import (
    AuditCase,
    Stratum,
    audit_coin,
    strata_of,
    tally_by_stratum,
)
from screening.statistics.verification.betting import Look, betting_sequence, upper_limits
from screening.statistics.verification.change import Drift, Revision, Rise, SwitchRate, drift, rises, switch_rate
from screening.statistics.verification.guarantee import (
    Binding,
    Guarantee,
    ReadingPlan,
    Standing,
    guarantee_of,
    in_sample,
    plan_readings,
    readings_required,
)
from screening.statistics.verification.readers import Recognized, corrected_bound, recognized_share
from screening.statistics.verification.weighted import (
    AuditEstimates,
    MissedUnsafe,
    WeightedRate,
    bound_after,
    estimate,
    rule_of_three,
    upper_bound,
    without_specificity,
)

__all__ = [
    "AuditCase",
    "AuditEstimates",
    "Binding",
    "Drift",
    "Guarantee",
    "Look",
    "MissedUnsafe",
    "ReadingPlan",
    "Recognized",
    "Revision",
    "Rise",
    "Standing",
    "Stratum",
    "SwitchRate",
    "WeightedRate",
    "audit_coin",
    "betting_sequence",
    "bound_after",
    "corrected_bound",
    "drift",
    "estimate",
    "guarantee_of",
    "in_sample",
    "plan_readings",
    "readings_required",
    "recognized_share",
    "rises",
    "rule_of_three",
    "strata_of",
    "switch_rate",
    "tally_by_stratum",
    "upper_bound",
    "upper_limits",
    "without_specificity",
]
