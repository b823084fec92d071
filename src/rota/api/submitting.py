"""Group commit: submissions that arrive together are written together, each answered after the commit.

While one batch is being written the next one gathers, so batches grow with the load and a lone request waits for
nobody. What may wait is bounded; when it is full, new work is refused at once and what was taken is kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from rota.domain.job import Recurring, Submission
from rota.errors import DatabaseUnavailableError, OverloadedError, RotaError
from rota.store.listening import READY, SCHEDULE
from rota.store.notifying import Notifier
from rota.store.submissions import LOOKAHEAD, KnownKey, Submissions
from rota.telemetry import get_logger

MOST_WAITING = 20_000
MOST_PER_BATCH = 1000
WRITERS = 2
_log = get_logger("submitting")

# What became of a submission: None (accepted), an error, or what was answered under its key before.
Fate = RotaError | KnownKey | None
Entry = tuple[Submission, asyncio.Future[Fate]]


class GroupCommitter:
    """Gathers submissions and commits them in batches."""

    def __init__(self, *, submissions: Submissions, notifier: Notifier, now: Callable[[], datetime]) -> None:
        self._submissions = submissions
        self._notifier = notifier
        self._now = now
        self._waiting: deque[Entry] = deque()
        self._keys: set[tuple[str, str]] = set()
        self._some = asyncio.Event()

    async def submit(self, items: Sequence[Submission]) -> list[Fate]:
        """Returns each item's fate once it is committed; raises OverloadedError when too much waits already."""
        if len(self._waiting) + len(items) > MOST_WAITING:
            raise OverloadedError("too many submissions are waiting to be written; try again in a moment")
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Fate]] = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        self._some.set()
        return list(await asyncio.gather(*futures)) if len(futures) > 1 else [await futures[0]]

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(self._write_loop(), name=f"submitting-{number}")

    async def _write_loop(self) -> None:
        while True:
            await self._some.wait()
            batch = self._next_batch()
            if batch:
                await self._write(batch)

    def _next_batch(self) -> list[Entry]:
        """Up to MOST_PER_BATCH; a key that is being written waits for its answer, so that who came first is first."""
        batch: list[Entry] = []
        repeats: list[Entry] = []
        while self._waiting and len(batch) < MOST_PER_BATCH:
            entry = self._waiting.popleft()
            key = _key_of(entry[0])
            if key in self._keys:
                repeats.append(entry)
                continue
            if key:
                self._keys.add(key)
            batch.append(entry)
        self._waiting.extendleft(reversed(repeats))
        if len(self._waiting) == len(repeats):
            self._some.clear()
        return batch

    async def _write(self, batch: list[Entry]) -> None:
        try:
            fates = await self._commit([item for item, _ in batch])
        except DatabaseUnavailableError as error:
            fates = {item.id: error for item, _ in batch}
        except Exception as error:  # noqa: BLE001 - the writer must live on; every caller gets the error
            _log.exception("a batch could not be written")
            fates = {item.id: RotaError(str(error)) for item, _ in batch}
        for item, future in batch:
            if not future.done():
                future.set_result(fates.get(item.id))
        self._keys.difference_update(key for item, _ in batch if (key := _key_of(item)))
        if self._waiting:
            self._some.set()

    async def _commit(self, items: list[Submission]) -> dict[UUID, Fate]:
        done = await self._submissions.submit(items)
        soon = self._now() + LOOKAHEAD
        for item in items:
            if item.id in done.accepted:
                if isinstance(item, Recurring):
                    self._notifier.hint(SCHEDULE)
                elif item.run_at is None or item.run_at <= soon:
                    self._notifier.hint(READY, item.definition.pool)
        fates: dict[UUID, Fate] = dict(done.rejected)
        repeated = [item for item in items if item.id in done.repeated and item.key]
        if repeated:
            pairs = [(item.namespace, item.key.key) for item in repeated if item.key]
            known = await self._submissions.find_keys(pairs)
            for item, pair in zip(repeated, pairs, strict=True):
                fates[item.id] = known.get(pair) or DatabaseUnavailableError("the key expired just now; try again")
        return fates


def _key_of(item: Submission) -> tuple[str, str] | None:
    return (item.namespace, item.key.key) if item.key else None
