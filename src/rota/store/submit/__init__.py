"""Submitting: many jobs in one statement, each with its own fate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import show_job
from rota.domain.job import INLINE_PAYLOAD_BYTES, OneShot, Recurring, Submission, Unique
from rota.domain.run import LOOKAHEAD
from rota.errors import DataRejectedError
from rota.store.postgres.batches import columns, or_nothing, write_each
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.settling import until_settled
from rota.store.schema.partitions import with_days

# How long a submission waits for a key that a transaction somewhere holds, of a program or of another API server.
LONGEST_WAIT, _SHORT_WAIT = "2s", "100ms"


class KnownKey(msgspec.Struct, frozen=True):
    """What was answered under an idempotency key before."""

    request_hash: bytes
    answer: str


class Duplicate(msgspec.Struct, frozen=True):
    """The job that has a unique key already, and what is to be done with another."""

    job_id: UUID
    status: str
    recurring: bool
    kept: bool


class SubmitResult(msgspec.Struct):
    """The fates of a batch: ids whose key was taken, ids whose unique key another job has, ids that were refused and
    why. All others went in."""

    repeated: set[UUID] = msgspec.field(default_factory=set)
    duplicates: dict[UUID, Duplicate] = msgspec.field(default_factory=dict)
    rejected: dict[UUID, DataRejectedError] = msgspec.field(default_factory=dict)


class Submissions:
    """Writes submissions and remembers their idempotency keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, items: Sequence[Submission], *, due_by: datetime) -> SubmitResult:
        """Commits what can be; keys must be distinct within the batch. Workers are woken for what is due by then."""
        fates = SubmitResult()

        async def reject(item: Submission, error: DataRejectedError) -> None:
            fates.rejected[item.id] = error

        unique = [item for item in items if item.unique]
        for each in _each_key_once(unique):
            fates.repeated.update(await write_each(each, lambda part: self._submit_unique(part, fates), reject))
        ordered = sorted(items if not unique else [item for item in items if not item.unique], key=_by_key)
        one_shots = [item for item in ordered if isinstance(item, OneShot)]
        recurring = [item for item in ordered if isinstance(item, Recurring)]
        fates.repeated.update(await write_each(one_shots, self._writer(self._submit_runs, len(one_shots)), reject))
        fates.repeated.update(await write_each(recurring, self._writer(self._submit_jobs, len(recurring)), reject))
        self._wake(items, due_by)
        return fates

    def _wake(self, items: Sequence[Submission], due_by: datetime) -> None:
        due = [item for item in items if isinstance(item, OneShot) and (item.run_at is None or item.run_at <= due_by)]
        self._database.wake(
            pools={item.definition.pool for item in due if item.definition.policies is None},
            gates=any(item.definition.policies is not None for item in due),
            schedules=any(isinstance(item, Recurring) for item in items),
        )

    def _writer(
        self, submit: Callable[[Statements | Database, Sequence[Any]], Awaitable[list[UUID]]], whole: int
    ) -> Callable[[Sequence[Submission]], Awaitable[list[UUID]]]:
        """Writes in one statement; items with keys may have to wait for a transaction that holds one, but not for long,
        and when they have waited together, hardly again by themselves."""

        async def write(items: Sequence[Submission]) -> list[UUID]:
            if not any(item.key for item in items):
                return await submit(self._database, items)

            async def submit_keyed(statements: Statements) -> list[UUID]:
                await statements.fetch("set_lock_timeout", longest=LONGEST_WAIT if len(items) == whole else _SHORT_WAIT)
                return await submit(statements, items)

            return await self._database.transact(submit_keyed)

        return write

    async def _submit_unique(self, items: Sequence[Submission], fates: SubmitResult) -> list[UUID]:
        """One transaction: who has the keys, what becomes of each item, and the writing of those that go in."""
        found: dict[UUID, Duplicate] = {}
        replaced: list[UUID] = []

        async def submit_unique(statements: Statements) -> list[UUID]:
            found.clear()
            await statements.fetch("set_lock_timeout", longest=LONGEST_WAIT)
            holders = await _holders(statements, items)
            # The same request, sent at the same time, has been written by now: we waited for its unique key.
            repeated = await _repeated(statements, items)
            first = [item for item in items if item.id not in repeated]
            found.update({item.id: holder for item in first if (holder := _duplicate_of(item, holders))})
            goes = [item for item in first if item.id not in found]
            taken_over = [item for item in goes if (item.namespace, _unique(item).key) in holders]
            replaced.extend(holders[item.namespace, _unique(item).key].job_id for item in taken_over)
            await _take_over(statements, taken_over, holders)
            one_shots = sorted((item for item in goes if isinstance(item, OneShot)), key=_by_key)
            recurring = sorted((item for item in goes if isinstance(item, Recurring)), key=_by_key)
            left_out = await self._submit_runs(statements, one_shots) if one_shots else []
            left_out += await self._submit_jobs(statements, recurring) if recurring else []
            return [*repeated, *left_out]

        repeated = await with_days(self._database, replaced, lambda: self._database.transact(submit_unique))
        fates.duplicates |= found
        return repeated

    async def find_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KnownKey]:
        """What is known under these (namespace, key) pairs."""
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


class _KeyHolder(msgspec.Struct, frozen=True):
    """Who has a unique key."""

    job_id: UUID
    status: str
    recurring: bool
    waits: bool
    unseen: bool
    in_window: bool


async def _repeated(statements: Statements, items: Sequence[Submission]) -> set[UUID]:
    """Those whose idempotency key is taken: their first answer stands, and they are no duplicates."""
    keyed = [(item, item.key) for item in items if item.key]
    if not keyed:
        return set()
    rows = await statements.fetch(
        "find_submission_keys", namespaces=[item.namespace for item, _ in keyed], keys=[key.key for _, key in keyed]
    )
    known = {(row["namespace"], row["key"]) for row in rows}
    return {item.id for item, key in keyed if (item.namespace, key.key) in known}


async def _holders(statements: Statements, items: Sequence[Submission]) -> dict[tuple[str, str], _KeyHolder]:
    """Takes the keys; those that others have, with how these stand."""
    ordered = sorted(items, key=lambda item: (item.namespace, _unique(item).key))
    rows = await statements.fetch("take_unique_keys", **_unique_columns(ordered))
    mine = {item.id for item in items}
    others = [row for row in rows if row["job_id"] not in mine]
    if not others:
        return {}
    found = await statements.fetch(
        "unique_holders", namespaces=[row["namespace"] for row in others], job_ids=[row["job_id"] for row in others]
    )
    how = {(row["namespace"], row["id"]): row for row in found}
    holders = {}
    for row in others:
        it = how[row["namespace"], row["job_id"]]
        status = it["status"] or ("queued" if it["waits"] else "gone")
        holders[row["namespace"], row["key"]] = _KeyHolder(
            row["job_id"], status, it["recurring"], it["waits"], it["unseen"], row["in_window"]
        )
    return holders


def _duplicate_of(item: Submission, holders: Mapping[tuple[str, str], _KeyHolder]) -> Duplicate | None:
    """The job that stands in its way, if one does."""
    unique = _unique(item)
    holder = holders.get((item.namespace, unique.key))
    if holder is None or not (holder.waits or holder.in_window):
        return None
    if unique.on_duplicate == "replace" and not ((holder.recurring or holder.unseen) and holder.waits):
        return None  # what waits is replaced, unless it is a schedule, or out of our role's reach
    return Duplicate(holder.job_id, holder.status, holder.recurring, kept=unique.on_duplicate == "keep")


async def _take_over(
    statements: Statements, items: Sequence[Submission], holders: Mapping[tuple[str, str], _KeyHolder]
) -> None:
    """Gives these items the keys; a job that had one and still waits is cancelled."""
    if not items:
        return
    await statements.fetch("reassign_unique_keys", **_unique_columns(items))
    replaced = [(item, holders[item.namespace, _unique(item).key]) for item in items]
    waiting = {
        (item.namespace, holder.job_id): f"replaced by {show_job(item.id)}, which has the same unique key"
        for item, holder in replaced
        if holder.waits
    }

    async def look() -> bool:
        if waiting:
            namespaces, ids = [key[0] for key in waiting], [key[1] for key in waiting]
            await statements.fetch(
                "replace_waiting", namespaces=namespaces, run_ids=ids, reasons=list(waiting.values())
            )
            # One that moved at that moment is looked for again, until it was hit or does not wait any more.
            for row in await statements.fetch("unique_holders", namespaces=namespaces, job_ids=ids):
                if not row["waits"]:
                    del waiting[row["namespace"], row["id"]]
        return not waiting

    await until_settled(look)


def _unique_columns(items: Sequence[Submission]) -> dict[str, Any]:
    rows = ((item.namespace, _unique(item).key, item.id, _unique(item).seconds) for item in items)
    return columns(rows, "namespaces keys job_ids seconds")


def _each_key_once(items: Sequence[Submission]) -> Iterator[list[Submission]]:
    """In rounds: of items with the same unique key, the first goes first and the next ones meet it."""
    while items:
        firsts: dict[tuple[str, str], Submission] = {}
        for item in items:
            firsts.setdefault((item.namespace, _unique(item).key), item)
        yield list(firsts.values())
        gone = {item.id for item in firsts.values()}
        items = [item for item in items if item.id not in gone]


def _unique(item: Submission) -> Unique:
    assert item.unique is not None  # noqa: S101 - callers chose those that have one
    return item.unique


def _by_key(item: Submission) -> tuple[str, str]:
    return (item.namespace, item.key.key if item.key else "")
