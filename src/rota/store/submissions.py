"""Submitting: many jobs in one statement, each with its own fate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, OneShot, Recurring, Submission
from rota.errors import DataRejectedError
from rota.store.batches import or_nothing, write_each
from rota.store.database import Database

# A run due within this long goes straight to the live runs; promotion looks this far ahead, too.
LOOKAHEAD = timedelta(seconds=1)


class KnownKey(msgspec.Struct, frozen=True):
    """What was answered under an idempotency key before."""

    request_hash: bytes
    answer: str


class Submitted(msgspec.Struct):
    """The fates of a batch: ids whose key was taken, ids that were refused and why. All others went in."""

    repeated: set[UUID] = msgspec.field(default_factory=set)
    rejected: dict[UUID, DataRejectedError] = msgspec.field(default_factory=dict)


class Submissions:
    """Writes submissions and remembers their idempotency keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, items: Sequence[Submission]) -> Submitted:
        """Commits what can be; keys must be distinct within the batch."""
        fates = Submitted()

        async def reject(item: Submission, error: DataRejectedError) -> None:
            fates.rejected[item.id] = error

        ordered = sorted(items, key=_by_key)
        one_shots = [item for item in ordered if isinstance(item, OneShot)]
        recurring = [item for item in ordered if isinstance(item, Recurring)]
        fates.repeated.update(await write_each(one_shots, self._submit_runs, reject))
        fates.repeated.update(await write_each(recurring, self._submit_jobs, reject))
        return fates

    async def find_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KnownKey]:
        """What is known under these (namespace, key) pairs."""
        rows = await self._database.fetch(
            "find_submission_keys", [namespace for namespace, _ in keys], [key for _, key in keys]
        )
        return {(row["namespace"], row["key"]): KnownKey(row["request_hash"], row["answer"]) for row in rows}

    async def _submit_runs(self, items: Sequence[OneShot]) -> list[UUID]:
        shapes: dict[tuple[Any, ...], int] = {}
        rows = await self._database.fetch(
            "submit_runs",
            [item.id for item in items],
            [item.shard for item in items],
            [item.definition.name for item in items],
            or_nothing([item.definition.payload for item in items]),
            or_nothing([item.run_at for item in items]),
            [shapes.setdefault(_shape(item), len(shapes) + 1) for item in items],
            *zip(*shapes, strict=True),
            *_keys(items),
            LOOKAHEAD,
            INLINE_PAYLOAD_BYTES,
            *_blobs(items),
        )
        return [row[0] for row in rows]

    async def _submit_jobs(self, items: Sequence[Recurring]) -> list[UUID]:
        definitions = [item.definition for item in items]
        timetables = [item.timetable for item in items]
        rows = await self._database.fetch(
            "submit_jobs",
            [item.namespace for item in items],
            [item.id for item in items],
            [definition.owner for definition in definitions],
            [definition.name for definition in definitions],
            [definition.task for definition in definitions],
            [definition.pool for definition in definitions],
            [definition.priority for definition in definitions],
            [",".join(definition.tags) for definition in definitions],
            [definition.payload for definition in definitions],
            [definition.options for definition in definitions],
            [item.shard for item in items],
            [timetable.schedule_type for timetable in timetables],
            [timetable.cron_expression for timetable in timetables],
            [timetable.every_seconds for timetable in timetables],
            [timetable.timezone for timetable in timetables],
            [timetable.anchor_at for timetable in timetables],
            [item.next_fire_at for item in items],
            *_keys(items),
            INLINE_PAYLOAD_BYTES,
            *_blobs(items),
        )
        return [row[0] for row in rows]


def _shape(item: OneShot) -> tuple[Any, ...]:
    """What many jobs of a batch have alike, in the order of submit_runs."""
    it = item.definition
    return (item.namespace, it.owner, it.task, it.pool, it.priority, ",".join(it.tags), it.options)


def _keys(items: Sequence[Submission]) -> tuple[list[int], list[str], list[bytes], list[str]]:
    """The positions of items that have an idempotency key, with their keys, request hashes and answers."""
    keyed = [(position, item.key) for position, item in enumerate(items, 1) if item.key]
    return (
        [position for position, _ in keyed],
        [key.key for _, key in keyed],
        [key.request_hash for _, key in keyed],
        [key.answer for _, key in keyed],
    )


def _blobs(items: Sequence[Submission]) -> tuple[list[int], list[str]]:
    """The positions of items whose payload is in object storage, with its keys there."""
    kept = [(position, item.definition.blob) for position, item in enumerate(items, 1) if item.definition.blob]
    return [position for position, _ in kept], [key for _, key in kept]


def _by_key(item: Submission) -> tuple[str, str]:
    return (item.namespace, item.key.key if item.key else "")
