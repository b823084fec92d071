"""Submitting: many jobs in one transaction, each accepted or rejected by itself.

Keys are locked in one order, here and in rota.submit_v1: first all unique keys, then the idempotency keys of one-shots,
then those of schedules, each sorted. So two submissions of the same keys wait for each other, but never in a circle.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, OneShot, Recurring, Submission
from rota.domain.run import LOOKAHEAD
from rota.errors import DatabaseUnavailableError, KeyHeldError, LockTimeoutError, RotaError
from rota.store.postgres.batches import columns, or_nothing, write_each
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import LONGEST_WAIT, limit_lock_waits
from rota.store.schema.partitions import with_days
from rota.store.submit.unique_keys import DecidedAnewError, Duplicate, UniqueKeys

# How long a submission waits for a key that a transaction somewhere holds, of a program or of another API server. Once
# a batch has waited as a whole its parts wait less, and after a while hardly at all: others wait for this writer.
_SHORT_WAIT, _SHORTEST_WAIT = "100ms", "1ms"
_WAITING_SECONDS = 4.0


class KnownKey(msgspec.Struct, frozen=True):
    """The first answer under an idempotency key."""

    request_hash: bytes
    answer: str


class SubmitResult(msgspec.Struct):
    """The fates of a batch: ids whose key was taken, ids whose unique key another job has, ids that were refused or
    could not be written, and why. All others went in."""

    repeated: set[UUID] = msgspec.field(default_factory=set)
    duplicates: dict[UUID, Duplicate] = msgspec.field(default_factory=dict)
    rejected: dict[UUID, RotaError] = msgspec.field(default_factory=dict)


class Submissions:
    """Writes submissions and remembers their idempotency keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, items: Sequence[Submission], *, due_by: datetime) -> SubmitResult:
        """Commits what can be; keys must be distinct within the batch. Workers are woken for what is due by then.

        A part of the batch is committed or not by itself: when the database is lost, the parts before keep their
        answers, and the others are not tried.
        """
        fates = SubmitResult()
        lost: list[DatabaseUnavailableError] = []
        waits_until = time.monotonic() + _WAITING_SECONDS

        async def reject(item: Submission, error: RotaError) -> None:
            fates.rejected[item.id] = error

        async def write(part: Sequence[Submission]) -> list[UUID]:
            brief = _SHORT_WAIT if time.monotonic() < waits_until else _SHORTEST_WAIT
            try:
                if lost:
                    raise lost[0]
                return await self._write(part, fates, LONGEST_WAIT if len(part) == len(items) else brief)
            except DatabaseUnavailableError as error:
                lost.append(error)
                fates.rejected |= dict.fromkeys((item.id for item in part), error)
                return []

        fates.repeated.update(await write_each(items, write, reject))
        self._wake(items, due_by)
        return fates

    def _wake(self, items: Sequence[Submission], due_by: datetime) -> None:
        due = [item for item in items if isinstance(item, OneShot) and (item.run_at is None or item.run_at <= due_by)]
        self._database.wake(
            pools={item.definition.pool for item in due if item.definition.policies is None},
            gates=any(item.definition.policies is not None for item in due),
            schedules=any(isinstance(item, Recurring) for item in items),
        )

    async def _write(self, items: Sequence[Submission], fates: SubmitResult, lock_timeout: str) -> list[UUID]:
        """Writes in one transaction; returns the ids whose idempotency key was taken."""
        keyed = any(item.key or item.unique for item in items)
        if not keyed and all(isinstance(item, OneShot) for item in items):
            return await self._insert(self._database, items)
        unique = UniqueKeys([item for item in items if item.unique])
        others = [item for item in items if not item.unique]

        async def submit_keyed(statements: Statements) -> list[UUID]:
            if keyed:
                await limit_lock_waits(statements, lock_timeout)
            goes = await unique.take(statements)
            left_out = await self._insert(statements, sorted([*goes, *others], key=_by_key))
            await unique.settle(statements, left_out)
            return left_out

        left_out: list[UUID] | None = None
        while left_out is None:
            with suppress(DecidedAnewError):
                left_out = await with_days(
                    self._database, unique.replaced, lambda: _with_keys(self._database, submit_keyed)
                )
        fates.duplicates |= unique.duplicates
        return [*unique.repeated, *left_out]

    async def _insert(self, statements: Statements | Database, items: Sequence[Submission]) -> list[UUID]:
        one_shots = [item for item in items if isinstance(item, OneShot)]
        recurring = [item for item in items if isinstance(item, Recurring)]
        left_out = await self._submit_runs(statements, one_shots) if one_shots else []
        return left_out + (await self._submit_jobs(statements, recurring) if recurring else [])

    async def find_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KnownKey]:
        """The first answers under these (namespace, key) pairs."""
        rows = await self._database.fetch(
            "find_submission_keys", namespaces=[namespace for namespace, _ in keys], keys=[key for _, key in keys]
        )
        return {(row["namespace"], row["key"]): KnownKey(row["request_hash"], row["answer"]) for row in rows}

    async def _submit_runs(self, statements: Statements | Database, items: Sequence[OneShot]) -> list[UUID]:
        shapes: dict[tuple[Any, ...], int] = {}
        numbers = [shapes.setdefault(_shape(item), len(shapes) + 1) for item in items]
        alike = columns(shapes, "namespaces owners tasks pools priorities tags options policies")
        alike["policies"] = or_nothing(alike["policies"])
        rows = await statements.fetch(
            "submit_runs",
            ids=[item.id for item in items],
            shards=[item.shard for item in items],
            names=[item.definition.name for item in items],
            payloads=or_nothing([item.definition.payload for item in items]),
            run_at=or_nothing([item.run_at for item in items]),
            shapes=numbers,
            **alike,
            **_keys(items),
            lookahead=LOOKAHEAD,
            inline_bytes=INLINE_PAYLOAD_BYTES,
            **_blobs(items),
        )
        return [row[0] for row in rows]

    async def _submit_jobs(self, statements: Statements | Database, items: Sequence[Recurring]) -> list[UUID]:
        definitions = [item.definition for item in items]
        timetables = [item.timetable for item in items]
        rows = await statements.fetch(
            "submit_jobs",
            namespaces=[item.namespace for item in items],
            ids=[item.id for item in items],
            owners=[definition.owner for definition in definitions],
            names=[definition.name for definition in definitions],
            tasks=[definition.task for definition in definitions],
            pools=[definition.pool for definition in definitions],
            priorities=[definition.priority for definition in definitions],
            tags=[",".join(definition.tags) for definition in definitions],
            payloads=[definition.payload for definition in definitions],
            options=[definition.options for definition in definitions],
            policies=[definition.policies for definition in definitions],
            shards=[item.shard for item in items],
            schedule_types=[timetable.schedule_type for timetable in timetables],
            cron_expressions=[timetable.cron_expression for timetable in timetables],
            intervals=[timetable.every_seconds for timetable in timetables],
            timezones=[timetable.timezone for timetable in timetables],
            anchors=[timetable.anchor_at for timetable in timetables],
            starts=[timetable.start_at for timetable in timetables],
            ends=[timetable.end_at for timetable in timetables],
            jitters=[timetable.jitter_seconds for timetable in timetables],
            dst=[timetable.dst for timetable in timetables],
            misfires=[timetable.misfire for timetable in timetables],
            next_fires=[item.next_fire_at for item in items],
            **_keys(items),
            inline_bytes=INLINE_PAYLOAD_BYTES,
            **_blobs(items),
        )
        return [row[0] for row in rows]


async def _with_keys(database: Database, body: Callable[[Statements], Awaitable[list[UUID]]]) -> list[UUID]:
    """One transaction that takes keys; raises KeyHeldError when another has held one of them for too long."""
    try:
        return await database.transact(body)
    except LockTimeoutError as error:
        raise KeyHeldError("another transaction holds the same key; try again when it has ended") from error


def _shape(item: OneShot) -> tuple[Any, ...]:
    """What many jobs of a batch have alike, in the order of submit_runs."""
    it = item.definition
    return (item.namespace, it.owner, it.task, it.pool, it.priority, ",".join(it.tags), it.options, it.policies)


def _keys(items: Sequence[Submission]) -> dict[str, Any]:
    """The positions of items that have an idempotency key, with their keys, request hashes and answers."""
    keyed = [
        (position, item.key.key, item.key.request_hash, item.key.answer)
        for position, item in enumerate(items, 1)
        if item.key
    ]
    return columns(keyed, "key_positions keys request_hashes answers")


def _blobs(items: Sequence[Submission]) -> dict[str, Any]:
    """The positions of items whose payload is in object storage, with its keys there."""
    kept = [(position, item.definition.blob) for position, item in enumerate(items, 1) if item.definition.blob]
    return columns(kept, "blob_positions blobs")


def _by_key(item: Submission) -> tuple[str, str]:
    return (item.namespace, item.key.key if item.key else "")
