"""Operations on many runs: backfills, replays, bulk redrives and cancels.

A piece of work is read first. Then one transaction does it and moves the operation's position, if the operation is
still as it was read (its `revision`). So nothing is lost or done twice, whatever dies in between and however many
schedulers serve it; the lease of a shard only spreads the work.

Ends of runs are written to their rows in operation_runs by a trigger, in the transaction of the end, and counted here.
Only runs of operations have such rows, and only until they have ended, or for good if they did not succeed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from rota.domain.backfills import EarlierBackfill, Ending, FrozenCalendar, Known, ending_of
from rota.domain.ids import FIRST_ID, LAST_ID, backfill_id, day_of, fire_id, floor_id, new_id
from rota.domain.job import Timetable
from rota.store.cancel import cancel_runs
from rota.store.change import lock_job
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import transact_soon
from rota.store.schema.partitions import with_days

Kind = Literal["backfill", "replay", "redrive", "cancel"]
_COUNTED_AT_ONCE = 5000
_SWEPT_AT_ONCE = 500
_OPERATIONS_AT_ONCE = 50
_encoder = msgspec.json.Encoder()


class OperationFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which runs or dead letters an operation is about: ids in [first, before), and fields that match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    owner: str | None = None
    statuses: list[str] | None = None
    name: str | None = None
    tag: str | None = None
    task: str | None = None
    job_id: UUID | None = None
    error: str | None = None
    most: int | None = None


class NewOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation to be created: a backfill has a calendar, the others a filter."""

    id: UUID
    kind: Kind
    owner: str
    shard: int
    concurrency: int
    rate: float | None = None
    stop_share: float | None = None
    calendar: FrozenCalendar | None = None
    job_made_at: datetime | None = None
    workflow_id: UUID | None = None
    name: str | None = None
    existing: str | None = None
    unknown: str | None = None
    total: int | None = None
    filter: OperationFilter | None = None


class Piece(msgspec.Struct, kw_only=True):
    """A piece of work, and where the operation stands when it is done."""

    left_out: int
    is_made: bool
    paced_to: datetime | None


class Operations:
    """The statements of operations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, namespace: str, check: Callable[[Sequence[Any], Any | None], NewOperation], job_id: UUID | None = None
    ) -> Any:
        """Creates what `check` says, which sees the open operations of the namespace and the locked row of the job."""

        async def create_it(statements: Statements) -> Any:
            await statements.fetch("lock_operations", namespace=namespace)
            job = None if job_id is None else await lock_job(statements, namespace, job_id)
            new = check(await statements.fetch("open_operations", namespace=namespace), job)
            return await statements.fetch_row("create_operation", namespace=namespace, **_columns(new))

        row = await transact_soon(self._database, create_it)
        self._database.wake(flows=True)
        return row

    async def get(self, namespace: str, operation: UUID) -> Any | None:
        return await self._database.fetch_row("get_operation", namespace=namespace, operation=operation)

    async def find_all(
        self, namespace: str, *, kind: str | None, owner: str | None, state: str | None, before: UUID, limit: int
    ) -> list[Any]:
        """Operations, latest first."""
        return await self._database.fetch(
            "list_operations", namespace=namespace, kind=kind, owner=owner, state=state, before=before, limit=limit
        )

    async def failures(self, namespace: str, operation: UUID, limit: int) -> list[Any]:
        """Runs of it that did not succeed."""
        return await self._database.fetch(
            "failures_of_operation", namespace=namespace, operation=operation, limit=limit
        )

    async def change(
        self, namespace: str, operation: UUID, state: str, *, states: Sequence[str], reason: str | None = None
    ) -> Any | None:
        """Gives it another state; None if it is in none of these."""
        row = await self._database.fetch_row(
            "change_operation",
            namespace=namespace,
            operation=operation,
            state=state,
            states=list(states),
            reason=reason,
        )
        self._database.wake(flows=True)
        return row

    async def slots(self, namespace: str, pool: str | None) -> int:
        """How many runs of a pool, or of all of them, can run at a time."""
        slots: int = await self._database.fetch_value("slots_of_pool", namespace=namespace, pool=pool)
        return slots

    async def known(
        self,
        namespace: str,
        calendar: FrozenCalendar,
        times: Sequence[datetime],
        *,
        job_made_at: datetime,
        operation: UUID = FIRST_ID,
    ) -> Known:
        """What is known of these times of a calendar; `operation`: the backfill that asks."""
        if not times:
            return Known({}, frozenset(), (), {})
        own = {fire_id(calendar.job_id, moment): moment for moment in times}
        rows = await self._database.fetch(
            "statuses_of_runs", namespace=namespace, run_ids=list(own), first=min(own), last=max(own)
        )
        endings = {own[row["id"]]: ending_of(row["status"], has_run=row["has_run"]) for row in rows}
        unknown = await self.unknown_times(times, job_made_at)
        earlier = [
            _earlier(row)
            for row in await self._database.fetch(
                "backfills_of_job",
                namespace=namespace,
                job_id=calendar.job_id,
                operation=operation,
                first_at=min(times),
                last_at=max(times),
            )
        ]
        return Known(endings, unknown, earlier, await self._made_by(namespace, earlier, times))

    async def unknown_times(self, times: Iterable[datetime], job_made_at: datetime) -> set[datetime]:
        """Those of these times at which the job was there, and whose day is no longer in the history."""
        days = {row["day"] for row in await self._database.fetch("days_of_history")}
        return {moment for moment in times if moment >= job_made_at and not _is_kept(moment, days)}

    async def _made_by(
        self, namespace: str, earlier: Sequence[EarlierBackfill], times: Sequence[datetime]
    ) -> dict[tuple[UUID, datetime], Ending | Literal["left"]]:
        if not earlier:
            return {}
        rows = await self._database.fetch(
            "runs_of_backfills", namespace=namespace, operations=[it.id for it in earlier], times=list(times)
        )
        return {
            (row["operation"], row["nominal_at"]): "left"
            if row["outcome"] == "left"
            else ending_of(row["outcome"] or "open", has_run=bool(row["has_run"]))
            for row in rows
        }

    async def due(self, shards: Iterable[int], more: int) -> list[Any]:
        """Operations that have room for more runs; `more`: how many were passed over in the last round."""
        return await self._database.fetch("due_operations", shards=list(shards), limit=_OPERATIONS_AT_ONCE + more)

    async def count_open(self, shards: Iterable[int]) -> int:
        """How many there are that have not ended."""
        count: int = await self._database.fetch_value("open_operations_of_shards", shards=list(shards))
        return count

    async def count_ends(self, shards: Iterable[int]) -> list[Any]:
        """Counts runs that ended; gives the operations that changed."""
        return await self._database.fetch("count_ends", shards=list(shards), limit=_COUNTED_AT_ONCE)

    async def settle(self, shards: Iterable[int]) -> int:
        """Ends operations that are done; returns how many."""
        settled = await self._database.fetch("settle_operations", shards=list(shards))
        self._database.wake(events=bool(settled))
        return len(settled)

    async def aborting(self, shards: Iterable[int], more: int) -> list[Any]:
        """Operations that are being aborted and have runs left; `more`: as for `due`."""
        return await self._database.fetch("aborting_operations", shards=list(shards), limit=_OPERATIONS_AT_ONCE + more)

    async def sweep(self, namespace: str, operation: UUID) -> None:
        """Cancels runs of an operation that wait; those that run go on to their end."""
        rows = await self._database.fetch(
            "waiting_of_operation", namespace=namespace, operation=operation, limit=_SWEPT_AT_ONCE
        )
        ids = [row["run_id"] for row in rows]
        if ids:
            await self._cancel(ids, lambda it: cancel_runs(it, namespace, ids, "its operation was aborted"))

    async def make_backfill(
        self, row: Any, times: Sequence[datetime], left: Sequence[datetime], position: datetime | None, piece: Piece
    ) -> None:
        """Makes runs for these times; `left`: those whose runs have not ended. Nothing if it is not as it was read."""
        moment = row["database_time"].timestamp()

        async def make(statements: Statements) -> list[Any]:
            if not await _lock(statements, row):
                return []
            return await statements.fetch(
                "make_backfill",
                namespace=row["namespace"],
                operation=row["id"],
                job_id=row["job_id"],
                position=position,
                run_ids=[backfill_id(row["id"], it, moment) for it in times],
                nominal_times=list(times),
                left_ids=[backfill_id(row["id"], it, moment) for it in left],
                left_times=list(left),
                **msgspec.structs.asdict(piece),
            )

        self._wake(await self._database.transact(make))

    async def make_again(self, row: Any, run_ids: Sequence[UUID], position: UUID | None, piece: Piece) -> None:
        """Runs these again. Nothing if it is not as it was read."""
        moment = row["database_time"].timestamp()

        async def make(statements: Statements) -> list[Any]:
            if not await _lock(statements, row):
                return []
            return await statements.fetch(
                "make_again",
                namespace=row["namespace"],
                operation=row["id"],
                position=position,
                run_ids=list(run_ids),
                new_ids=[new_id(moment) for _ in run_ids],
                first=min(run_ids, default=FIRST_ID),
                last=max(run_ids, default=FIRST_ID),
                **msgspec.structs.asdict(piece),
            )

        self._wake(await self._database.transact(make, custom=True))

    async def cancel(self, row: Any, run_ids: Sequence[UUID], position: UUID | None, piece: Piece) -> None:
        """Cancels these. Nothing if it is not as it was read."""
        namespace = row["namespace"]

        async def cancel_them(statements: Statements) -> dict[UUID, UUID | None]:
            if not await _lock(statements, row):
                return {}
            hit = await cancel_runs(statements, namespace, run_ids, "cancelled with others on request")
            done = msgspec.structs.replace(piece, left_out=piece.left_out + len(run_ids) - len(hit))
            await statements.fetch(
                "advance_cancel",
                namespace=namespace,
                operation=row["id"],
                position=position,
                made=len(hit),
                **msgspec.structs.asdict(done),
            )
            return hit

        await self._cancel(run_ids, cancel_them)

    async def _cancel(
        self, run_ids: Sequence[UUID], act: Callable[[Statements], Awaitable[dict[UUID, UUID | None]]]
    ) -> None:
        hit = await with_days(self._database, run_ids, lambda: self._database.transact(act))
        self._database.wake(workers={worker for worker in hit.values() if worker}, gates=True, flows=True)

    def _wake(self, rows: Iterable[Any]) -> None:
        made = [(row["pool"], row["gated"]) for row in rows]
        self._database.wake(pools={pool for pool, gated in made if not gated}, gates=any(gated for _, gated in made))


async def _lock(statements: Statements, row: Any) -> bool:
    """Locks an operation; False if it is not as it was read."""
    found = await statements.fetch_row(
        "lock_operation", namespace=row["namespace"], operation=row["id"], revision=row["revision"]
    )
    return found is not None


def calendar_of(row: Any) -> FrozenCalendar:
    """The calendar in a row of a backfill."""
    timetable = msgspec.json.decode(row["timetable"], type=Timetable)
    return FrozenCalendar(row["job_id"], timetable, row["first_at"], row["last_at"], row["newest_first"])


def filter_of(row: Any) -> OperationFilter:
    """The filter in a row of an operation."""
    return msgspec.json.decode(row["filter"], type=OperationFilter)


def _earlier(row: Any) -> EarlierBackfill:
    return EarlierBackfill(
        row["id"], calendar_of(row), row["existing"], row["unknown"], row["position_at"], row["is_made"]
    )


def _is_kept(moment: datetime, days: set[str]) -> bool:
    day = day_of(floor_id(moment)).replace("-", "")
    return day in days or day[:6] in days


def _columns(new: NewOperation) -> dict[str, Any]:
    calendar = new.calendar
    return {
        "operation": new.id,
        "kind": new.kind,
        "owner": new.owner,
        "shard": new.shard,
        "job_id": calendar and calendar.job_id,
        "workflow_id": new.workflow_id,
        "name": new.name,
        "timetable": calendar and _encoder.encode(calendar.timetable).decode(),
        "job_made_at": new.job_made_at,
        "first_at": calendar and calendar.first,
        "last_at": calendar and calendar.last,
        "newest_first": calendar is not None and calendar.newest_first,
        "existing": new.existing,
        "unknown": new.unknown,
        "filter": new.filter and _encoder.encode(new.filter).decode(),
        "concurrency": new.concurrency,
        "rate": new.rate,
        "stop_share": new.stop_share,
        "total": new.total,
        "is_made": new.total == 0,
    }
