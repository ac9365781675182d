"""The pooled-draw rule with calibrated evidence levels: a configuration that carries its certificate."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from screening.labels import Label
from screening.statistics.certification.certificates import CERTIFICATES, DEFAULT_CONTRACT, Certificate, find
from screening.statistics.certification.worst_case import worst_errors
from screening.statistics.rules.contract import Contract, Pair
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture
from screening.statistics.rules.protocol import StoppingRule

LARGEST_PROOF = 300
"""Most calls of a certificate that does not come with the program: it is proven when it is read, in seconds."""

Probability = Annotated[float, Field(gt=0, lt=1)]
Pairs = Mapping[str, Probability]
NamedPairs = tuple[tuple[str, float], ...]


class CertificateConfig(BaseModel):
    """A certificate as a record: the contract (``any_wrong``, ``pairs``), the budget, the evidence levels, and the
    proven worst errors. One that does not hold is refused: those of the program are known, any other is proven anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    any_wrong: Probability
    pairs: Pairs = {}
    budget: Annotated[int, Field(ge=1)]
    level: Probability
    levels: Pairs = {}
    worst: Annotated[float, Field(ge=0, lt=1)]
    worst_safe: Annotated[float, Field(ge=0, lt=1)]

    @classmethod
    def of(cls, certificate: Certificate) -> Self:
        """The record of a certificate."""
        return cls(
            any_wrong=certificate.contract.any_wrong,
            pairs=_pair_names(certificate.contract.pairs),
            budget=certificate.budget,
            level=certificate.levels.default,
            levels=_pair_names(certificate.levels.overrides),
            worst=certificate.worst,
            worst_safe=certificate.worst_safe,
        )

    @field_validator("pairs", "levels")
    @classmethod
    def _two_labels(cls, given: Pairs) -> Pairs:
        _read(tuple(given.items()))
        return given

    @model_validator(mode="after")
    def _require_proof(self) -> Self:
        certificate = self.certificate()
        if certificate in CERTIFICATES:
            return self
        if self.budget > LARGEST_PROOF:
            raise ValueError(f"a certificate for more than {LARGEST_PROOF} calls must come with the program")
        if not _holds(certificate):
            raise ValueError("the certificate does not hold: its levels do not keep its contract up to its budget")
        return self

    def certificate(self) -> Certificate:
        """The certificate of this record."""
        contract = _contract(self.any_wrong, tuple(self.pairs.items()))
        levels = _levels(self.level, tuple(self.levels.items()))
        return Certificate(
            contract=contract, budget=self.budget, levels=levels, worst=self.worst, worst_safe=self.worst_safe
        )


class CertifiedMixtureConfig(BaseModel):
    """Pooled draws: a label once its evidence reaches the certificate's level. The budget is one it covers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["certified-mixture"] = "certified-mixture"
    budget: Annotated[int, Field(ge=1)]
    certificate: CertificateConfig
    curtail: bool = True

    @classmethod
    def for_contract(cls, contract: Contract, budget: int) -> Self | None:
        """With the program's certificate for this contract; None where it has none for so large a budget."""
        found = find(contract, budget)
        return None if found is None else cls(budget=budget, certificate=CertificateConfig.of(found))

    @model_validator(mode="before")
    @classmethod
    def _default_certificate(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("certificate", "default") == "default":
            try:
                found = find(DEFAULT_CONTRACT, int(given.get("budget", 100)))
            except (TypeError, ValueError, OverflowError):
                return given  # the field's own check refuses what is no number of calls
            if found is None:
                raise ValueError("no certificate of the default contract covers so large a budget")
            return {"budget": 100, **given, "certificate": CertificateConfig.of(found)}
        return given

    @model_validator(mode="after")
    def _require_coverage(self) -> Self:
        if self.budget > self.certificate.budget:
            raise ValueError(f"the certificate covers budgets up to {self.certificate.budget} calls, not {self.budget}")
        return self

    def rule(self) -> StoppingRule:
        """The rule with these settings."""
        return _rule(self.budget, self.certificate.certificate(), curtail=self.curtail)


@lru_cache(maxsize=64)
def _rule(budget: int, proven: Certificate, *, curtail: bool) -> StoppingRule:
    """Cached: every case and every watching page asks for it, and it never changes."""
    return PairwiseMixture(budget=budget, errors=proven.levels, curtail=curtail, contract=proven.contract)


@lru_cache(maxsize=64)
def _holds(certificate: Certificate) -> bool:
    errors = worst_errors(certificate.levels, certificate.budget)
    safe = max(found.bound for (said, _), found in errors.pairs if said is Label.SAFE)
    said_truly = certificate.worst >= errors.any_wrong.reached and certificate.worst_safe >= safe * (1 - 1e-6)
    return said_truly and errors.keep(certificate.contract)


def _pair_names(pairs: tuple[tuple[Pair, float], ...]) -> dict[str, float]:
    return {f"{said}|{mode}": value for (said, mode), value in pairs}


@lru_cache(maxsize=64)
def _contract(any_wrong: float, pairs: NamedPairs) -> Contract:
    """Cached, and the levels too: every rule is made from them, and a page asks for many."""
    return Contract(any_wrong=any_wrong, pairs=_read(pairs))


@lru_cache(maxsize=64)
def _levels(default: float, overrides: NamedPairs) -> ErrorLevels:
    return ErrorLevels(default=default, overrides=_read(overrides))


@lru_cache(maxsize=256)
def _read(pairs: NamedPairs) -> tuple[tuple[Pair, float], ...]:
    read = []
    for pair, value in pairs:
        said, mode = (Label(part) for part in pair.split("|"))
        if said is mode:
            raise ValueError(f"{pair}: a label cannot be mistaken for itself")
        read.append(((said, mode), value))
    return tuple(read)
