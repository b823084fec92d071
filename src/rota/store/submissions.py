"""Submitting: many jobs in one statement, each with its own fate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, OneShot, Recurring, Submission
from rota.errors import DataRejectedError
from rota.store.batches import write_each
from rota.store.database import Database

# A run due within this long goes straight to the live runs; promotion looks this far ahead, too.
LOOKAHEAD = timedelta(seconds=1)


class KnownKey(msgspec.Struct, frozen=True):
    """What was answered under an idempotency key before."""

    request_hash: bytes
    answer: str


class Submitted(msgspec.Struct):
    """The fates of a batch: ids that went in, ids whose key was taken, ids that were refused and why."""

    accepted: set[UUID] = msgspec.field(default_factory=set)
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
        fates.accepted.update(await write_each(one_shots, self._submit_runs, reject))
        fates.accepted.update(await write_each(recurring, self._submit_jobs, reject))
        fates.repeated.update(
            item.id for item in items if item.id not in fates.accepted and item.id not in fates.rejected
        )
        return fates

    async def find_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KnownKey]:
        """What is known under these (namespace, key) pairs."""
        rows = await self._database.fetch(
            "find_submission_keys", [namespace for namespace, _ in keys], [key for _, key in keys]
        )
        return {(row["namespace"], row["key"]): KnownKey(row["request_hash"], row["answer"]) for row in rows}

    async def _submit_runs(self, items: Sequence[OneShot]) -> list[UUID]:
        rows = await self._database.fetch(
            "submit_runs",
            *_definition_columns(items),
            [item.run_at for item in items],
            *_key_columns(items),
            LOOKAHEAD,
            INLINE_PAYLOAD_BYTES,
        )
        return [row[0] for row in rows]

    async def _submit_jobs(self, items: Sequence[Recurring]) -> list[UUID]:
        rows = await self._database.fetch(
            "submit_jobs",
            *_definition_columns(items),
            [item.timetable.schedule_type for item in items],
            [item.timetable.cron_expression for item in items],
            [item.timetable.every_seconds for item in items],
            [item.timetable.timezone for item in items],
            [item.timetable.anchor_at for item in items],
            [item.next_fire_at for item in items],
            *_key_columns(items),
            INLINE_PAYLOAD_BYTES,
        )
        return [row[0] for row in rows]


def _definition_columns(items: Sequence[Submission]) -> tuple[list[Any], ...]:
    definitions = [item.definition for item in items]
    return (
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
    )


def _key_columns(items: Sequence[Submission]) -> tuple[list[Any], list[Any], list[Any]]:
    keys = [item.key for item in items]
    return (
        [key and key.key for key in keys],
        [key and key.request_hash for key in keys],
        [key and key.answer for key in keys],
    )


def _by_key(item: Submission) -> tuple[str, str]:
    return (item.namespace, item.key.key if item.key else "")
