"""How many cases of an audit came to each stage, as STARD asks for."""

from collections import Counter

from pages.research.claims import Verified
from screening.labels import Outcome

FLOW_SETTLED, FLOW_AUDITED = "settled with this configuration", "under audit"
FLOW_NOT_AUDITED = "not under audit (nothing can be said of them)"


def flow(found: Verified) -> tuple[tuple[str, int], ...]:
    """How many cases came to each stage, as STARD asks for."""
    strata, ended = found.strata, Counter[Outcome]()
    for stratum in found.strata:
        ended[stratum.outcome] += stratum.cases
    audited = sum(stratum.cases for stratum in strata)
    return (
        (FLOW_SETTLED, audited + found.sample.without_audit),
        (FLOW_NOT_AUDITED, found.sample.without_audit),
        (FLOW_AUDITED, audited),
        ("called safe", ended[Outcome.SAFE]),
        ("called unsafe", ended[Outcome.UNSAFE]),
        ("left to a person", ended[Outcome.HUMAN_REVIEW]),
        ("reading due (by the coin, or left to a person)", sum(stratum.selected for stratum in strata)),
        ("read blind, safe or unsafe", sum(stratum.read for stratum in strata)),
        ("read blind, insufficient information", sum(stratum.inconclusive for stratum in strata)),
        ("read blind, a further reading due", sum(stratum.read_again for stratum in strata)),
        ("reading still due", sum(stratum.waiting for stratum in strata)),
        ("can no longer be read blind", sum(stratum.lost for stratum in strata)),
        ("of them read, but not blind (left out)", found.sample.not_blind),
    )
