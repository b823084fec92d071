"""Submitting: many jobs in one transaction, each accepted or rejected by itself.

Keys are locked in one order, here and in rota.submit_v1: first all unique keys, then the idempotency keys of one-shots,
then those of schedules, then the ids that submitters chose, each sorted, then what jobs depend on (store/depend). So
two submissions of the same keys wait for each other, but never in a circle.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, JobSet, OneShot, Recurring, Submission
from rota.domain.run import LOOKAHEAD
from rota.errors import DatabaseUnavailableError, KeyHeldError, LockTimeoutError, RotaError
from rota.store.depend import NewDependencies
from rota.store.exclude import NewExclusions
from rota.store.postgres.batches import columns, or_nothing, write_each
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import LONGEST_WAIT, limit_lock_waits
from rota.store.postgres.wakeups import SOON_SECONDS
from rota.store.schema.partitions import with_days
from rota.store.submit.chosen_ids import ChosenIds
from rota.store.submit.plain_runs import PlainRuns, is_plain
from rota.store.submit.unique_keys import DecidedAnewError, Duplicate, UniqueKeys, find_repeated

# How long a submission waits for a key that a transaction somewhere holds, of a program or of another API server. Once
# a batch has waited as a whole its parts wait less, and after a while hardly at all: others wait for this writer.
_SHORT_WAIT, _SHORTEST_WAIT = "100ms", "1ms"
_WAITING_SECONDS = 4.0
SPLIT = "split"  # the answer under the key of a set whose members have keys of their own


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

        A part of the batch is committed or not by itself, but a set always as a whole. When the database is lost, the
        parts before keep their answers, and the others are not tried.
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

        plain: list[Submission] = []
        others: list[Submission] = []
        for item in items:
            (plain if is_plain(item) else others).append(item)
        for some in (plain, others):
            fates.repeated.update(await write_each(some, write, reject))
        self._wake(items, due_by)
        return fates

    def _wake(self, items: Sequence[Submission], due_by: datetime) -> None:
        pools: set[str] = set()
        gates = schedules = soon = False
        soon_by = due_by + timedelta(seconds=SOON_SECONDS)
        for item in items:
            it, run_at = item.definition, _run_at(item)
            if isinstance(item, Recurring):
                schedules = True
                continue
            soon = soon or (run_at is not None and run_at <= soon_by)
            if run_at is not None and run_at > due_by:
                continue
            gates = gates or it.policies is not None
            if it.policies is None:
                pools.add(it.pool)
        self._database.wake(pools=pools, gates=gates, schedules=schedules, soon=soon)

    async def _write(self, items: Sequence[Submission], fates: SubmitResult, lock_timeout: str) -> list[UUID]:
        """Writes in one transaction, mostly one statement; returns the ids whose idempotency key was taken."""
        plain = is_plain(items[0])  # then all are: the others are written apart
        insert = self._submit_plain if plain else self._submit_runs
        if plain or not any(map(_needs_more, items)):
            ordered = sorted(items, key=_by_key) if any(item.key for item in items) else items
            with _held_keys():
                return await insert(self._database, ordered, lock_timeout)
        unique = UniqueKeys([item for item in items if item.unique])
        chosen = ChosenIds([item for item in items if item.chosen_id])
        needs = NewDependencies(items)
        calendars = NewExclusions(items)
        others = [item for item in items if not item.unique]
        repeated: set[UUID] = set()

        async def submit_keyed(statements: Statements) -> list[UUID]:
            await limit_lock_waits(statements, lock_timeout)
            unmet = await needs.look(statements)
            repeated.update(await find_repeated(statements, [item for item in items if item.id in unmet]))
            unkept = await calendars.look(statements)
            repeated.update(await find_repeated(statements, [item for item in items if item.id in unkept]))
            refused = unmet | unkept | await chosen.look(statements)
            goes = await unique.take(statements, refused)
            goes += [item for item in others if item.id not in refused]
            left_out = await self._insert(statements, sorted(goes, key=_by_key), lock_timeout)
            await unique.settle(statements, left_out)
            gone = {*left_out}
            written = [item for item in goes if item.id not in gone]
            await chosen.take(statements, written)
            if not await needs.add(statements, written):
                raise DecidedAnewError("a job that others depend on changed at the same time")
            return left_out

        left_out: list[UUID] | None = None
        while left_out is None:
            with suppress(DecidedAnewError), _held_keys():
                left_out = await with_days(
                    self._database, unique.replaced, lambda: self._database.transact(submit_keyed)
                )
        fates.duplicates |= unique.duplicates
        fates.rejected |= chosen.conflicts
        declined = calendars.refused | needs.refused
        fates.rejected |= {item_id: error for item_id, error in declined.items() if item_id not in repeated}
        return [*{*unique.repeated, *chosen.repeated, *repeated}, *left_out]

    async def _insert(self, statements: Statements, items: Sequence[Submission], lock_timeout: str) -> list[UUID]:
        one_shots = [item for item in items if not isinstance(item, Recurring)]
        recurring = [item for item in items if isinstance(item, Recurring)]
        left_out = await self._submit_runs(statements, one_shots, lock_timeout) if one_shots else []
        return left_out + (await insert_jobs(statements, recurring) if recurring else [])

    async def split_sets(self, keys: Sequence[tuple[str, str]], request_hash: bytes) -> dict[tuple[str, str], KnownKey]:
        """Marks the sets with these (namespace, key) pairs as split, unless they were written; gives their answers.

        The members of a split set have keys of their own: none of them can come in with the set any more.
        """
        ordered = sorted(keys)
        with _held_keys():
            await self._database.fetch(
                "split_sets",
                namespaces=[namespace for namespace, _ in ordered],
                keys=[key for _, key in ordered],
                request_hash=request_hash,
                answer=SPLIT,
                lock_timeout=LONGEST_WAIT,
            )
        return await self.find_keys(keys)

    async def find_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KnownKey]:
        """The first answers under these (namespace, key) pairs."""
        rows = await self._database.fetch(
            "find_submission_keys", namespaces=[namespace for namespace, _ in keys], keys=[key for _, key in keys]
        )
        return {(row["namespace"], row["key"]): KnownKey(row["request_hash"], row["answer"]) for row in rows}

    async def _submit_plain(
        self, statements: Statements | Database, items: Sequence[Submission], lock_timeout: str
    ) -> list[UUID]:
        keys = _Keys(items)
        rows = await statements.fetch(
            "submit_plain",
            **PlainRuns(items, keys.number_of).columns,
            **keys.columns,
            lock_timeout=lock_timeout,
        )
        return keys.items_of(row[0] for row in rows)

    async def _submit_runs(
        self, statements: Statements | Database, items: Sequence[Submission], lock_timeout: str
    ) -> list[UUID]:
        keys = _Keys(items)
        runs: list[OneShot] = []
        key_numbers: list[int | None] = []
        for item in items:
            some = _runs_of(item)
            runs.extend(some)
            key_numbers.extend([keys.number_of(item)] * len(some))
        shapes: dict[tuple[Any, ...], int] = {}
        numbers = [shapes.setdefault(_shape(run), len(shapes) + 1) for run in runs]
        alike = columns(shapes, "namespaces owners tasks pools priorities tags options policies")
        alike["policies"] = or_nothing(alike["policies"])
        rows = await statements.fetch(
            "submit_runs",
            ids=[run.id for run in runs],
            shards=[run.shard for run in runs],
            names=[run.definition.name for run in runs],
            payloads=or_nothing([run.definition.payload for run in runs]),
            run_at=or_nothing([run.run_at for run in runs]),
            shapes=numbers,
            key_numbers=or_nothing(key_numbers),
            **alike,
            **keys.columns,
            lookahead=LOOKAHEAD,
            inline_bytes=INLINE_PAYLOAD_BYTES,
            lock_timeout=lock_timeout,
            **_blobs(runs),
        )
        return keys.items_of(row[0] for row in rows)


async def insert_jobs(statements: Statements | Database, items: Sequence[Recurring]) -> list[UUID]:
    """Inserts recurring jobs; returns the ids of those whose idempotency key was taken."""
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
        excluded=[timetable.excluded for timetable in timetables],
        next_fires=[item.next_fire_at for item in items],
        **_keys(items),
        inline_bytes=INLINE_PAYLOAD_BYTES,
        **_blobs(items),
    )
    return [row[0] for row in rows]


@contextmanager
def _held_keys() -> Iterator[None]:
    """Raises KeyHeldError when another transaction has held one of the keys for too long."""
    try:
        yield
    except LockTimeoutError as error:
        raise KeyHeldError("another transaction holds the same key; try again when it has ended") from error


class _Keys:
    """The idempotency keys of a batch, numbered in its order."""

    def __init__(self, items: Sequence[Submission]) -> None:
        self._keyed = [item for item in items if item.key]
        self._numbers = {item.id: number for number, item in enumerate(self._keyed, 1)}

    def number_of(self, item: Submission) -> int | None:
        return self._numbers.get(item.id) if item.key else None

    def items_of(self, numbers: Iterable[int]) -> list[UUID]:
        """The ids of the items with these keys."""
        return [self._keyed[number - 1].id for number in numbers]

    @property
    def columns(self) -> dict[str, Any]:
        rows = (
            (item.namespace, item.key.key, item.key.request_hash, item.key.answer) for item in self._keyed if item.key
        )
        return columns(rows, "key_namespaces keys request_hashes answers")


def _runs_of(item: Submission) -> Sequence[OneShot]:
    """The runs that are written with it; a recurring job has none yet."""
    if isinstance(item, JobSet):
        return item.items
    return (item,) if isinstance(item, OneShot) else ()


def _run_at(item: Submission) -> datetime | None:
    """The time of its runs; None: now, or a recurring job's."""
    if isinstance(item, JobSet):
        item = item.items[0]  # they are due at the same time
    return item.run_at if isinstance(item, OneShot) else None


def _shape(item: OneShot) -> tuple[Any, ...]:
    """What many jobs of a batch have alike, in the order of submit_runs."""
    it = item.definition
    return (item.namespace, it.owner, it.task, it.pool, it.priority, ",".join(it.tags), it.options, it.policies)


def _keys(items: Sequence[Recurring]) -> dict[str, Any]:
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


def _needs_more(item: Submission) -> bool:
    """Whether it takes more than one statement."""
    return bool(item.unique or item.chosen_id or item.needs) or isinstance(item, Recurring)


def _by_key(item: Submission) -> tuple[str, str]:
    return (item.namespace, item.key.key if item.key else "")
