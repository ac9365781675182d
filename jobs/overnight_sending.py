"""What an overnight batch hands in: sent once, found again after a crash, looked after, its answers counted once."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from jobs.model_health import PASSING
from jobs.patience import retry_in_thread
from jobs.port import Clock
from screening.models.batches import Asked, MessageBatches, ServiceBatch
from screening.models.wire import SeenIds
from screening.pipeline.draws import DrawRequest, SamplerError, ScreenedText
from storage.batches import overnight, screenings
from storage.batches.configurations import Configuration
from storage.batches.overnight import Answered, DrawWanted, HandedIn
from storage.database import Database

LINES_AT_ONCE = 200
CLOCKS_DIFFER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The message batches of one configuration, between the tables and the service."""

    db: Database
    clock: Clock
    service: MessageBatches
    made: Configuration

    async def match(self, opened: Sequence[HandedIn]) -> list[ServiceBatch]:
        """What the account has handed in. What of it may be one of ours that is open, or a copy of one, is looked into
        once, and matched by the ids recorded before sending; whatever else is there is nobody's concern.
        """
        known = await retry_in_thread(overnight.known_ids, self.db)
        sizes = await retry_in_thread(overnight.sizes_of, self.db, opened[0].batch_id)
        since = min(map(_since, opened))
        listed = await self.service.list_batches()
        for found in listed:
            if found.ended and found.id not in known and found.total in sizes and found.created_at >= since:
                first = await self._first_id(found)
                await retry_in_thread(overnight.record_match, self.db, found.id, first, found.total)
        return listed

    async def _first_id(self, found: ServiceBatch) -> str | None:
        """The first id among its results: all have the same beginning. None without any, or where they are gone."""
        try:
            async with aclosing(self.service.results(found.id)) as results:
                return await anext((custom_id async for custom_id, _ in results), None)
        except SamplerError as error:
            if error.kind in PASSING:
                raise
            return None

    async def settle(self, one: HandedIn, listed: Sequence[ServiceBatch]) -> bool:
        """Send it, look after it, count what came back; whether that is done. What nobody waits for any more is not
        sent, and cancelled at the service: what it has answered by then is paid, and counts.
        """
        needed = await retry_in_thread(overnight.is_needed, self.db, one.id)
        if one.service_id is None:
            return await self._settle_unsent(one, listed, needed=needed)
        found = await self.service.find(one.service_id)
        await retry_in_thread(overnight.record_progress, self.db, one.id, found.processed)
        if found.ended:
            await self._count(one)
        elif not needed and not found.canceling:
            await self.service.cancel(one.service_id)
        return found.ended

    async def _settle_unsent(self, one: HandedIn, listed: Sequence[ServiceBatch], *, needed: bool) -> bool:
        if await self._may_be_there(one, listed):
            return False
        if needed:
            await self.send(one)
            return False
        await retry_in_thread(overnight.end_message_batch, self.db, one.id, self.clock())
        return True

    async def _may_be_there(self, one: HandedIn, listed: Sequence[ServiceBatch]) -> bool:
        """Whether the service works at a batch that may be this one: it is known by its results alone. Those that had
        ended in the same list are matched already; a newer list could name as ended one that nobody has looked into.
        """
        known = await retry_in_thread(overnight.known_ids, self.db)
        since = _since(one)
        return any(
            not found.ended and found.id not in known and found.total == one.requests and found.created_at >= since
            for found in listed
        )

    async def send(self, one: HandedIn) -> None:
        """Hand it in, unless its batch may send nothing now."""
        if not await retry_in_thread(overnight.may_send, self.db, one.batch_id):
            return
        wanted = await retry_in_thread(overnight.wanted_draws, self.db, one.id)
        texts = await self._texts(wanted.values())
        asked = [self._request_for(one, custom_id, draw, texts) for custom_id, draw in wanted.items()]
        service_id = await self.service.create(asked)
        await retry_in_thread(overnight.record_sent, self.db, one.id, service_id)

    async def _texts(self, wanted: Iterable[DrawWanted]) -> dict[str, ScreenedText]:
        """The text of each case, which leaves by this way only where it has a reference label."""
        found: dict[str, ScreenedText] = {}
        for case_id in {draw.case_id for draw in wanted}:
            if not await retry_in_thread(overnight.has_reference, self.db, case_id):
                raise SamplerError("no_reference", "A text without a reference label is not sent by message batch.")
            found[case_id] = await retry_in_thread(screenings.text_for_agents, self.db, case_id)
        return found

    async def _count(self, one: HandedIn) -> None:
        """Every result of ours that has no answer yet, by the same checks as a live reply."""
        wanted = await retry_in_thread(overnight.wanted_draws, self.db, one.id)
        texts, seen = await self._texts(wanted.values()), SeenIds()
        for reply_id in await retry_in_thread(overnight.reply_ids, self.db, one.batch_id):
            seen.remember(reply_id)
        found: list[Answered] = []
        async for custom_id, result in self.service.results(str(one.service_id)):
            if (draw := wanted.pop(custom_id, None)) is None:
                continue
            line = self.service.read(self._request_for(one, custom_id, draw, texts), result, seen)
            found.append(Answered(custom_id=custom_id, draw=line.draw, reply_id=line.reply_id, error=line.error))
            if len(found) >= LINES_AT_ONCE:
                await retry_in_thread(overnight.keep_answers, self.db, found)
                found = []
        await retry_in_thread(overnight.keep_answers, self.db, found)
        await retry_in_thread(overnight.end_message_batch, self.db, one.id, self.clock())

    def _request_for(
        self, one: HandedIn, custom_id: str, wanted: DrawWanted, texts: Mapping[str, ScreenedText]
    ) -> Asked:
        request = DrawRequest(
            node=wanted.node,
            text=texts[wanted.case_id],
            first=wanted.number,
            count=1,
            variant=wanted.variant,
            agent=self.made.pipeline.node(wanted.node).agent,
        )
        return Asked(custom_id=custom_id, seed=one.seed, request=request)


def _since(one: HandedIn) -> str:
    """The earliest moment at which the service may say that it was handed in."""
    return (one.created_at - CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%S")
