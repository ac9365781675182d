"""Whether the model works: tried before it is used, left alone while it gives no answers, and asked no further where
its first answers are none.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from jobs.agents import Agents
from jobs.intake import configuration, usual_pipeline
from jobs.process import Clock, retry_in_thread
from screening.models.canaries import other_names, probe
from screening.models.retries import pause_after
from screening.pipeline.draws import Draw, SamplerError
from screening.pipeline.engine import Reason, Screening, unusable_draws
from screening.pipeline.files import NO_LABEL, Whose, error_kind
from screening.settings import Settings
from storage.batches import configurations
from storage.batches.configurations import Configuration, Preflight
from storage.database import Database
from storage.settings_store import settings_now
from storage.site.health import Fault, find_lasting
from storage.site.outbox import keep_fault

OPENS_AFTER = 3
"""Failures in a row, of any cases, without an answer in between, after which calls are held back."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
MOST_FAILURES, LASTS_S = 8, 900.0
"""A case that fails this often and for this many seconds while others are answered is escalated."""
WATCHED_FAILURES = 4
"""The same for a text that somebody waits for: they learn after a few seconds that it failed, and may try again."""


@dataclass(slots=True)
class _Failing:
    """A case that keeps failing, since when, and the number of answers there had been by then."""

    since: float
    answers: int
    count: int = 0


class Breaker:
    """One for all cases of a process. ``patience_s`` ends the waiting for a service that answers nobody (None: never),
    where somebody sits at the terminal.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, patience_s: float | None = None) -> None:
        self._clock, self._patience_s = clock, patience_s
        self._failures, self._answers = 0, 0
        self._silent_since: float | None = None
        self._tries, self._until = 0, 0.0
        self._trying = False
        self._changed = asyncio.Event()
        self._cases: dict[str, _Failing] = {}

    @property
    def open(self) -> bool:
        return self._failures >= OPENS_AFTER

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait while calls are held back; then one case tries the service, and the others go on once it is answered."""
        trying = False
        while self.open:
            wait_s = LONGEST_PAUSE_S if self._trying else self._until - self._clock()
            if wait_s <= 0:
                trying = self._trying = True
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
        try:
            yield
        finally:
            if trying:
                self._trying = False
                self._wake()

    def record_answer(self, case_id: str) -> None:
        self._failures, self._silent_since, self._tries = 0, None, 0
        self._answers += 1
        self._cases.pop(case_id, None)
        self._wake()

    def record_failure(self, case_id: str, *, watched: bool = False) -> float | None:
        """A draw batch failed in a way that passes: seconds until the case is taken up again; None
        where it waits for somebody to ask for its retry.
        """
        now = self._clock()
        self._silent_since = now if self._silent_since is None else self._silent_since
        self._failures += 1
        if self._failures == OPENS_AFTER or self._trying:
            self._until = now + pause_after(self._tries, FIRST_PAUSE_S, LONGEST_PAUSE_S)
            self._tries += 1
        case = self._cases.setdefault(case_id, _Failing(since=now, answers=self._answers))
        case.count += 1
        alone = self._answers > case.answers
        blamed = alone and case.count >= MOST_FAILURES and now - case.since > LASTS_S
        impatient = self._patience_s is not None and now - self._silent_since > self._patience_s
        if impatient or (case.count >= WATCHED_FAILURES if watched else blamed):
            del self._cases[case_id]
            return None
        return pause_after(case.count - 1, FIRST_PAUSE_S, LONGEST_PAUSE_S)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


FIRST_CASES = 3
"""So many cases without a usable answer, and none with one, pause the batch."""
RECENT = timedelta(hours=1)
"""A worker that starts within this time of the last try does not try again: a crash loop would pay for each try."""
LOOK_AGAIN_S = 15.0
"""How long a pass counts before the tables are read again: another worker may have seen the model fail meanwhile."""
START_PAUSE_S = 5.0
TOLD_AFTER_S = 12.0
"""A fault that may pass by itself has so long to do so: most are over at the second try."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ModelHealth:
    """Each configuration is tried on the probes before it is used, once a process unless somebody did so a moment
    before its start, one at a time; never where ``probes`` is False.
    """

    db: Database
    agents: Agents
    clock: Clock
    probes: bool = True
    breaker: Breaker = field(default_factory=Breaker)
    _allowed: dict[str, float] = field(default_factory=dict)  # what may be used, and when the tables said so
    _settled: set[str] = field(default_factory=set)  # what needs no further try by this process
    _doubted: set[tuple[str, str]] = field(default_factory=set)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _without: Counter[str] = field(default_factory=Counter)  # first cases of a batch without a usable answer
    _usable: set[str] = field(default_factory=set)  # batches with one
    _said: set[str] = field(default_factory=set)

    async def require(self, configuration: Configuration, seed: int) -> None:
        """Returns when the configuration may be screened with. SamplerError that pauses the batch where it failed; the
        service's own error where it cannot be asked, which is no failure and comes again by itself.
        """
        version = configuration.preflight_key
        simulated = configuration.sampler.get("sampler") == "simulated"
        if simulated or not self.probes or await self._is_allowed(version):
            return
        async with self._one:
            if version in self._allowed:
                return
            found = await self._newest(configuration, seed, anew=version not in self._settled)
            if not found.allows:
                told = f"{found.message} An administrator can allow it in writing (Settings)."
                raise SamplerError("preflight_failed", told, stops_batch=True)
            self._allowed[version] = time.monotonic()

    async def _is_allowed(self, version: str) -> bool:
        """Whether it is known to be allowed, which one case in a while looks up again for all."""
        if time.monotonic() - self._allowed.get(version, float("inf")) > LOOK_AGAIN_S:
            self._allowed[version] = time.monotonic()
            found = await retry_in_thread(configurations.latest_preflight, self.db, version)
            if found is None or not found.allows:
                self._allowed.pop(version, None)
        return version in self._allowed

    async def doubt(self, configuration: Configuration, seed: int, draws: Iterable[Draw]) -> None:
        """Try the model again where draws came under another name than it is asked for, once for each: behind the
        address is another model than the one that was tried. SamplerError as `require` raises it.
        """
        version = configuration.preflight_key
        fresh = {(version, name) for name in other_names(draws)}
        if not self.probes or not fresh:
            return
        async with self._one:
            if fresh <= self._doubted:
                return
            log.warning("a model answered under another name than it is asked for: it is tried again")
            await self.try_configuration(configuration, seed)
            self._doubted |= fresh
        await self.require(configuration, seed)

    async def try_configuration(self, configuration: Configuration, seed: int) -> bool:
        """Try it now and keep what came of it; whether it passed. What was known of it before counts no more."""
        version = configuration.preflight_key
        self._allowed.pop(version, None)
        self._settled.discard(version)
        found = await probe(self.agents.sampler(configuration, seed), configuration.pipeline)
        await retry_in_thread(configurations.keep_preflight, self.db, version, found, self.clock())
        log.log(logging.INFO if found.passed else logging.ERROR, "preflight: %s", found.message)
        return found.passed

    async def try_at_start(self, configuration: Configuration, seed: int) -> bool:
        """Whether texts may be screened with it, tried also where it passed before: the server may have changed."""
        async with self._one:
            return bool((await self._newest(configuration, seed, anew=True)).allows)

    async def _newest(self, configuration: Configuration, seed: int, *, anew: bool) -> Preflight:
        """The latest try, made now where there was none and, with ``anew``, where the last one is too old to tell which
        model answers now. An administrator's permission does not age.
        """
        key = configuration.preflight_key
        while (found := await retry_in_thread(configurations.latest_preflight, self.db, key)) is None or (
            anew and found.overridden_by is None and abs(self.clock() - found.at) > RECENT
        ):
            await self.try_configuration(configuration, seed)
            anew = False
        self._settled.add(key)
        return found

    def look_at(self, batch_id: str, result: Screening) -> None:
        """SamplerError, which pauses the batch, at the last of its first cases where none of them brought a usable
        answer: a batch that goes on then has as many again.
        """
        draws = [draw for run in result.runs for draw in run.draws]
        if batch_id in self._usable or not draws:
            return
        if result.reason is not Reason.NO_ANSWER or unusable_draws(draws) < len(draws):
            self._usable.add(batch_id)
            return
        self._without[batch_id] += 1
        if self._without[batch_id] >= FIRST_CASES:
            del self._without[batch_id]
            told = f"None of the answers to the first {FIRST_CASES} texts was a label: the model does not do as asked."
            raise SamplerError(NO_LABEL, told, stops_batch=True)

    async def until_it_answers(self, settings: Settings) -> None:
        """A worker's start: returns when texts can be screened, because the models answer here or cases say so. Until
        then the site's fault is kept, which ended nodes end as well.
        """
        began, tries, told = time.monotonic(), 0, False
        while (problem := await self._problem(settings)) is not None:
            if told and await retry_in_thread(find_lasting, self.db, Fault.MODEL) is None:
                return
            known = error_kind(problem)
            soon = (known.passes or problem == NO_LABEL) and time.monotonic() - began < TOLD_AFTER_S
            if known.whose is Whose.MODEL and (told or not soon):
                await retry_in_thread(keep_fault, self.db, Fault.MODEL, self.clock(), down=True, cause=problem)
                told = True
            await asyncio.sleep(pause_after(tries, START_PAUSE_S, LONGEST_PAUSE_S))
            tries += 1
        await retry_in_thread(keep_fault, self.db, Fault.MODEL, self.clock(), down=False)

    async def _problem(self, settings: Settings) -> str | None:
        """What keeps texts from being screened now, as a kind of error; None where nothing does."""
        if settings.simulated:
            return None
        try:
            pipeline = await retry_in_thread(usual_pipeline, self.db, settings)
            known = await retry_in_thread(settings_now, self.db, settings)
            asked = configuration(known, pipeline)
            for found in await self.agents.preflight(asked):
                self._log(found.message, well=found.ok)
                if not found.ok:
                    return found.kind or NO_LABEL
            return None if await self.try_at_start(asked, settings.seed) else "preflight_failed"
        except SamplerError as error:
            self._log(str(error), well=False)
            return error.kind
        except Exception as error:  # what is not foreseen must not end this in silence
            self._log(f"{type(error).__name__}, which no code foresees", well=False)
            return "internal_error"

    def _log(self, message: str, *, well: bool) -> None:
        """Once for each message: while a service is away it is asked every half minute."""
        if message not in self._said:
            log.log(logging.INFO if well else logging.ERROR, "preflight: %s", message)
            self._said.add(message)
