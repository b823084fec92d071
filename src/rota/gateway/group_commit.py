"""Group commit: submissions that arrive together are written together, each answered after the commit.

While one batch is being written the next one gathers, so batches grow with the load. A lone request does not wait:
while nothing is being written, it is written at once, by its own task.

The backlog is bounded, and a namespace gets at most half of it; beyond that, new submissions are refused at once.
Batches take submissions of all namespaces in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rota.domain.job import JobSet, OneShot, PlainSet, Submission
from rota.domain.policies import decode_policies
from rota.domain.run import LOOKAHEAD
from rota.errors import DatabaseUnavailableError, DuplicateError, OverloadedError, RotaError
from rota.metrics.catalogue import Metrics
from rota.metrics.instruments import Labels
from rota.service import Service, is_cancelled
from rota.store.submit import KnownKey, Submissions
from rota.store.submit.unique_keys import Duplicate
from rota.telemetry import get_logger

_MOST_WAITING = 40_000
_MOST_OF_A_NAMESPACE = 20_000
_MOST_PER_BATCH = 1000
_WRITERS = 2
_log = get_logger("submitting")

# Why a submission was not simply accepted: an error, the first answer under its idempotency key, or the job that has
# its unique key and is kept instead.
Declined = RotaError | KnownKey | Duplicate


class _Chunk:
    """Items of one caller that are written together. Their idempotency keys are distinct."""

    __slots__ = ("future", "items", "keys", "namespace", "size")

    def __init__(self, items: Sequence[Submission]) -> None:
        self.items = items
        self.size = _size(items)
        self.namespace = items[0].namespace
        self.keys = frozenset(key for item in items for key in _keys_of(item))
        self.future: asyncio.Future[dict[UUID, Declined]] = asyncio.get_running_loop().create_future()


class _WriteQueue:
    """Chunks that wait for the same writers, in a line for each namespace; the next one is of the first line."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[_Chunk]] = {}
        self.writers: list[_Writer] = []
        self.being_written = 0  # batches

    def __bool__(self) -> bool:
        return bool(self._lines)

    def append(self, chunk: _Chunk) -> None:
        self._lines.setdefault(chunk.namespace, deque()).append(chunk)

    def put_back(self, chunk: _Chunk) -> None:
        """Before all others of its namespace."""
        self._lines.setdefault(chunk.namespace, deque()).appendleft(chunk)

    def pop(self) -> _Chunk:
        """The next chunk; its namespace has its next turn after all others."""
        namespace = next(iter(self._lines))
        line = self._lines.pop(namespace)
        chunk = line.popleft()
        if line:
            self._lines[namespace] = line
        return chunk

    def wake(self) -> None:
        if self:
            for writer in self.writers:
                writer.wake()


class _Writer(Service):
    """Writes the chunks of a queue, batch after batch."""

    name = "submission-writer"
    interval_seconds = None
    full_round = 1

    def __init__(self, queue: _WriteQueue, write: Callable[[_WriteQueue], Awaitable[int]]) -> None:
        super().__init__()
        self._queue = queue
        self._write = write

    async def tick(self) -> int:
        """Writes one batch."""
        return await self._write(self._queue)


class GroupCommitter:
    """Gathers submissions; its writers commit them in batches."""

    def __init__(
        self, *, submissions: Submissions, now: Callable[[], datetime], metrics: Metrics | None = None
    ) -> None:
        self._submissions = submissions
        self._metrics = metrics
        self._now = now
        # Submissions with keys, or that depend on others, may have to wait for a lock that another one holds; those
        # without must not wait for them.
        self._queues = (_WriteQueue(), _WriteQueue())
        for queue in self._queues:
            queue.writers = [_Writer(queue, self._write_batch) for _ in range(_WRITERS)]
        self._counts: Counter[str] = Counter()  # of items that wait, by namespace
        self._keys: set[tuple[str, ...]] = set()

    @property
    def writers(self) -> list[Service]:
        return [writer for queue in self._queues for writer in queue.writers]

    async def submit(self, items: Sequence[Submission]) -> list[Declined | None]:
        """The outcome of each item of one caller, once committed (None: accepted); raises OverloadedError when too many
        wait. Items are either all sets or none of them is."""
        if len(items) == 1 and (queue := self._idle_queue_of(items[0])) is not None:
            return [(await self._write_at_once(queue, _Chunk(items))).get(items[0].id)]
        self._check_room(items)
        firsts, repeats = _firsts(items)
        chunks: list[_Chunk] = []
        for queue, some in zip(self._queues, _by_queue(firsts), strict=True):
            new = [_Chunk(part) for part in _parts(some)]
            for chunk in new:
                queue.append(chunk)
                self._counts[chunk.namespace] += chunk.size
            queue.wake()
            chunks += new
        declined: dict[UUID, Declined] = {}
        for chunk in chunks:
            declined |= await chunk.future
        for item, first in repeats:
            # As for a repeat that comes a moment later: the first answer, or the first error.
            declined[item.id] = declined.get(first.id) or KnownKey(first.key.request_hash, first.key.answer)
        return [declined.get(item.id) for item in items]

    def _idle_queue_of(self, item: Submission) -> _WriteQueue | None:
        """The item's queue, if it is empty and nothing of it is being written."""
        queue = self._queues[1 if item.key or item.unique or item.chosen_id or item.needs else 0]
        if queue or queue.being_written:
            return None
        return queue if self._keys.isdisjoint(_keys_of(item)) else None

    async def _write_at_once(self, queue: _WriteQueue, chunk: _Chunk) -> dict[UUID, Declined]:
        self._keys |= chunk.keys
        queue.being_written += 1
        try:
            await self._write([chunk])
        except asyncio.CancelledError:
            if is_cancelled():
                raise
        finally:
            queue.being_written -= 1
        return chunk.future.result()

    def _check_room(self, items: Sequence[Submission]) -> None:
        namespace, size = items[0].namespace, _size(items)
        if self._counts[namespace] + size > _MOST_OF_A_NAMESPACE:
            raise OverloadedError(
                f"too many submissions of namespace {namespace!r} are waiting to be written; try again in a moment"
            )
        if self._counts.total() + size > _MOST_WAITING:
            raise OverloadedError("too many submissions are waiting to be written; try again in a moment")

    async def _write_batch(self, queue: _WriteQueue) -> int:
        if batch := self._next_batch(queue):
            queue.being_written += 1
            try:
                await self._write(batch)
            finally:
                queue.being_written -= 1
        return len(batch)

    def _next_batch(self, queue: _WriteQueue) -> list[_Chunk]:
        """Chunks for one batch. A chunk waits while its idempotency or ordering key is being written, or another chunk
        with it waits before it, to keep the order of arrival."""
        batch: list[_Chunk] = []
        repeats: list[_Chunk] = []
        waiting_keys: set[tuple[str, ...]] = set()
        size = 0
        while queue and size < _MOST_PER_BATCH:
            chunk = queue.pop()
            if not (chunk.keys.isdisjoint(self._keys) and chunk.keys.isdisjoint(waiting_keys)):
                repeats.append(chunk)
                waiting_keys |= chunk.keys
                continue
            self._keys |= chunk.keys
            batch.append(chunk)
            size += chunk.size
        for chunk in reversed(repeats):
            queue.put_back(chunk)
        for chunk in batch:
            self._counts[chunk.namespace] -= chunk.size
            if not self._counts[chunk.namespace]:
                del self._counts[chunk.namespace]
        return batch

    async def _write(self, batch: list[_Chunk]) -> None:
        items = [item for chunk in batch for item in chunk.items]
        # If the write is cancelled, every caller gets this error, so that none waits for ever.
        unknown = DatabaseUnavailableError(
            "the server stopped while writing; the job may exist: repeat the request with its key"
        )
        declined: dict[UUID, Declined] = dict.fromkeys((item.id for item in items), unknown)
        try:
            declined = await self._commit(items)
        except DatabaseUnavailableError as error:
            declined = {item.id: error for item in items}
        except Exception as error:  # noqa: BLE001 - every caller gets the error
            _log.exception("a batch could not be written")
            declined = {item.id: RotaError(str(error)) for item in items}
        finally:
            for chunk in batch:
                if not chunk.future.done():
                    chunk.future.set_result(declined)
                self._keys -= chunk.keys
            for queue in self._queues:
                queue.wake()

    async def _commit(self, items: list[Submission]) -> dict[UUID, Declined]:
        done = await self._submissions.submit(items, due_by=self._now() + LOOKAHEAD)
        declined: dict[UUID, Declined] = dict(done.rejected)
        for item_id, duplicate in done.duplicates.items():
            words = f"{duplicate.shown_id} has this uniqueKey already (it is {duplicate.status})"
            declined[item_id] = duplicate if duplicate.kept else DuplicateError(words)
        if self._metrics:
            left_out = declined.keys() | done.repeated
            _count(self._metrics, [item for item in items if item.id not in left_out] if left_out else items)
        if done.repeated:
            declined |= await self._first_answers([item for item in items if item.id in done.repeated])
        return declined

    async def _first_answers(self, repeated: list[Submission]) -> dict[UUID, Declined]:
        """The first answers under these keys. If they can't be read now, the rest of the batch stays committed."""
        pairs = {item.id: (item.namespace, item.key.key) for item in repeated if item.key}
        try:
            known = await self._submissions.find_keys(list(pairs.values()))
        except DatabaseUnavailableError as error:
            return dict.fromkeys(pairs, error)
        gone = DatabaseUnavailableError("the key expired just now; try again")
        return {item_id: known.get(pair) or gone for item_id, pair in pairs.items()}


def _count(metrics: Metrics, accepted: Iterable[Submission]) -> None:
    """Counts jobs that were accepted."""
    counts: dict[Labels, int] = {}
    by_task = metrics.task_label
    for item in accepted:
        it = item.definition
        labels = (item.namespace, it.pool, it.task) if by_task else (item.namespace, it.pool)
        counts[labels] = counts.get(labels, 0) + (1 if type(item) is OneShot else _jobs_of(item))
    for counted, many in counts.items():
        metrics.submitted.of(*counted).add(many)


def _size(items: Sequence[Submission]) -> int:
    """How many jobs these are."""
    return sum(_jobs_of(item) for item in items)


def _jobs_of(item: Submission) -> int:
    if isinstance(item, PlainSet):
        return len(item.ids)
    return len(item.items) if isinstance(item, JobSet) else 1


def _parts(items: Sequence[Submission]) -> Iterator[Sequence[Submission]]:
    """Items for a chunk each. A set is one by itself: it is of a chunk's size already."""
    if items and isinstance(items[0], JobSet | PlainSet):
        yield from ([item] for item in items)
    else:
        yield from (items[n : n + _MOST_PER_BATCH] for n in range(0, len(items), _MOST_PER_BATCH))


def _keys_of(item: Submission) -> Iterator[tuple[str, ...]]:
    """Keys that two writers must not write at once."""
    if item.key:
        yield (item.namespace, item.key.key)
    if item.chosen_id:
        yield (item.namespace, "id", item.chosen_id)
    if order := _order_of(item):
        yield order


def _order_of(item: Submission) -> tuple[str, ...] | None:
    policies = item.definition.policies
    order = None if policies is None else decode_policies(policies).order
    return None if order is None else (item.namespace, "order", order)


def _by_queue(items: Sequence[Submission]) -> tuple[Sequence[Submission], Sequence[Submission]]:
    """Items without an idempotency or unique key, a chosen id or dependencies, and items with one.

    Items of one ordering key stay together, in the queue of those with a key if one of them has one: two queues know
    no order between them.
    """
    keyed = {item.id for item in items if item.key or item.unique or item.chosen_id or item.needs}
    if not keyed:
        return items, ()
    orders = {_order_of(item) for item in items if item.id in keyed} - {None}
    behind = keyed | ({item.id for item in items if _order_of(item) in orders} if orders else set())
    return [item for item in items if item.id not in behind], [item for item in items if item.id in behind]


def _firsts(items: Sequence[Submission]) -> tuple[list[Submission], list[tuple[Submission, Any]]]:
    """Items that are the first with their key or have none; and the others, each with the first of its key."""
    firsts: list[Submission] = []
    repeats: list[tuple[Submission, Any]] = []
    by_key: dict[tuple[str, str], Submission] = {}
    for item in items:
        first = by_key.setdefault((item.namespace, item.key.key), item) if item.key else item
        if first is item:
            firsts.append(item)
        else:
            repeats.append((item, first))
    return firsts, repeats
