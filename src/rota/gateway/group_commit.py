"""Group commit: submissions that arrive together are written together, each answered after the commit.

While one batch is being written the next one gathers, so batches grow with the load and a lone request waits for
nobody. What may wait is bounded; when it is full, new work is refused at once and what was taken is kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rota.access.limits.backlog import Backlog
from rota.domain.ids import show_job
from rota.domain.job import Recurring, Submission
from rota.domain.policies import decode_policies
from rota.errors import DatabaseUnavailableError, DuplicateError, OverloadedError, RotaError
from rota.store.postgres.listener import GATE, READY, SCHEDULE
from rota.store.postgres.wakeups import Notifier
from rota.store.submit import LOOKAHEAD, Duplicate, KnownKey, Submissions
from rota.telemetry import get_logger

MOST_WAITING = 20_000
MOST_PER_BATCH = 1000
WRITERS = 2
_log = get_logger("submitting")

# What became of a submission: None (accepted), an error, what was answered under its key before, or the job that has
# its unique key and is kept instead.
Fate = RotaError | KnownKey | Duplicate | None


class _Chunk:
    """Items of one caller that are written together. No idempotency key is in it twice."""

    __slots__ = ("future", "items", "keys")

    def __init__(self, items: Sequence[Submission]) -> None:
        self.items = items
        self.keys = frozenset(key for item in items for key in _keys_of(item))
        # The fates of those that were not simply accepted.
        self.future: asyncio.Future[dict[UUID, Fate]] = asyncio.get_running_loop().create_future()


class _WriteQueue:
    """What waits for the same writers."""

    def __init__(self) -> None:
        self.waiting: deque[_Chunk] = deque()
        self.some = asyncio.Event()

    def add(self, chunks: Sequence[_Chunk]) -> None:
        if chunks:
            self.waiting.extend(chunks)
            self.some.set()


class GroupCommitter:
    """Gathers submissions and commits them in batches."""

    def __init__(
        self, *, submissions: Submissions, notifier: Notifier, now: Callable[[], datetime], pressure: Backlog
    ) -> None:
        self._pressure = pressure
        self._submissions = submissions
        self._notifier = notifier
        self._now = now
        # Those with keys may have to wait for whoever holds one: the others must not wait for them.
        self._lanes = (_WriteQueue(), _WriteQueue())
        self._count = 0
        self._keys: set[tuple[str, ...]] = set()

    async def submit(self, items: Sequence[Submission]) -> list[Fate]:
        """Returns each item's fate once it is committed; raises OverloadedError when too much waits already."""
        if self._count + len(items) > MOST_WAITING:
            raise OverloadedError("too many submissions are waiting to be written; try again in a moment")
        refused = self._pressure.refuse(items)
        firsts, repeats = _firsts([item for item in items if item.id not in refused] if refused else items)
        chunks: list[_Chunk] = []
        for lane, some in zip(self._lanes, _by_lane(firsts), strict=True):
            new = [_Chunk(some[n : n + MOST_PER_BATCH]) for n in range(0, len(some), MOST_PER_BATCH)]
            lane.add(new)
            chunks += new
        self._count += len(firsts)
        fates: dict[UUID, Fate] = dict(refused)
        try:
            for chunk in chunks:
                fates |= await chunk.future
        finally:
            self._pressure.settled(items)
        for item, first in repeats:
            # What a repeat gets that comes a moment later: the first answer, or the first error.
            fates[item.id] = fates.get(first.id) or KnownKey(first.key.request_hash, first.key.answer)
        return [fates.get(item.id) for item in items]

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                for lane in self._lanes:
                    group.create_task(self._write_loop(lane), name=f"submitting-{number}")

    async def _write_loop(self, lane: _WriteQueue) -> None:
        while True:
            await lane.some.wait()
            batch = self._next_batch(lane)
            if batch:
                await self._write(batch)

    def _next_batch(self, lane: _WriteQueue) -> list[_Chunk]:
        """About MOST_PER_BATCH items; what has a key, idempotency or ordering, that is being written waits for that, so
        that who came first is first."""
        batch: list[_Chunk] = []
        repeats: list[_Chunk] = []
        size = 0
        while lane.waiting and size < MOST_PER_BATCH:
            chunk = lane.waiting.popleft()
            if not chunk.keys.isdisjoint(self._keys):
                repeats.append(chunk)
                continue
            self._keys |= chunk.keys
            batch.append(chunk)
            size += len(chunk.items)
        lane.waiting.extendleft(reversed(repeats))
        self._count -= size
        if len(lane.waiting) == len(repeats):
            lane.some.clear()
        return batch

    async def _write(self, batch: list[_Chunk]) -> None:
        items = [item for chunk in batch for item in chunk.items]
        fates: dict[UUID, Fate]
        try:
            fates = await self._commit(items)
        except DatabaseUnavailableError as error:
            fates = {item.id: error for item in items}
        except Exception as error:  # noqa: BLE001 - the writer must live on; every caller gets the error
            _log.exception("a batch could not be written")
            fates = {item.id: RotaError(str(error)) for item in items}
        for chunk in batch:
            if not chunk.future.done():
                chunk.future.set_result(fates)
            self._keys -= chunk.keys
        for lane in self._lanes:
            if lane.waiting:
                lane.some.set()

    async def _commit(self, items: list[Submission]) -> dict[UUID, Fate]:
        done = await self._submissions.submit(items)
        self._tell(items)
        fates: dict[UUID, Fate] = dict(done.rejected)
        for item_id, duplicate in done.duplicates.items():
            fates[item_id] = duplicate if duplicate.kept else DuplicateError(_refusal(duplicate))
        repeated = [item for item in items if item.id in done.repeated and item.key] if done.repeated else []
        if repeated:
            pairs = [(item.namespace, item.key.key) for item in repeated if item.key]
            known = await self._submissions.find_keys(pairs)
            for item, pair in zip(repeated, pairs, strict=True):
                fates[item.id] = known.get(pair) or DatabaseUnavailableError("the key expired just now; try again")
        return fates

    def _tell(self, items: Sequence[Submission]) -> None:
        soon = self._now() + LOOKAHEAD
        pools: set[str] = set()
        for item in items:
            if isinstance(item, Recurring):
                self._notifier.hint(SCHEDULE)
            elif item.run_at is None or item.run_at <= soon:
                if item.definition.policies is None:
                    pools.add(item.definition.pool)
                else:
                    self._notifier.hint(GATE)
        for pool in pools:
            self._notifier.hint(READY, pool)


def _refusal(duplicate: Duplicate) -> str:
    return f"{show_job(duplicate.job_id)} has this uniqueKey already (it is {duplicate.status})"


def _key_of(item: Submission) -> tuple[str, str] | None:
    return (item.namespace, item.key.key) if item.key else None


def _keys_of(item: Submission) -> Iterator[tuple[str, ...]]:
    """What must not be written by two writers at once."""
    if item.key:
        yield (item.namespace, item.key.key)
    if item.definition.policies is not None and (order := decode_policies(item.definition.policies).order):
        yield (item.namespace, "order", order)


def _by_lane(items: Sequence[Submission]) -> tuple[Sequence[Submission], Sequence[Submission]]:
    """Those without a key that somebody may hold, and those with one."""
    keyed = [item for item in items if item.key or item.unique]
    if not keyed:
        return items, ()
    return [item for item in items if not (item.key or item.unique)], keyed


def _firsts(items: Sequence[Submission]) -> tuple[list[Submission], list[tuple[Submission, Any]]]:
    """Those that are the first with their key, or have none; and the others, each with the first of its key."""
    firsts: list[Submission] = []
    repeats: list[tuple[Submission, Any]] = []
    by_key: dict[tuple[str, str], Submission] = {}
    for item in items:
        key = _key_of(item)
        if key is None:
            firsts.append(item)
        elif key in by_key:
            repeats.append((item, by_key[key]))
        else:
            by_key[key] = item
            firsts.append(item)
    return firsts, repeats
