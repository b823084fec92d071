"""Changing what a job does and when, and pools.

A recurring job has a row; a one-shot is its run. A change of a recurring job is one transaction: it locks the job's
row, so no schedule fires in between (firing compares versions), writes the new definition, and then binds every run
that no worker has claimed to it. Runs move while that happens, so binding repeats until one statement, in one
snapshot, finds no run left behind. Claimed runs are marked as recalled; the workers are told after the commit.

A pause, or another schedule, begins at the moment of the change. If every scheduler was down and
fire times before that moment have no run yet, these runs are made first: held or bound like the others, or recorded as
missed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.domain.business_days import Exclusion
from rota.domain.firing import begin_anew
from rota.domain.job import INLINE_PAYLOAD_BYTES, NODE_CAUSES, Definition, Timetable
from rota.domain.policies import decode_policies, keep_mark
from rota.domain.run import LOOKAHEAD
from rota.errors import ConflictError, NotFoundError, VersionMismatchError
from rota.store.depend import ChangedDependencies, forget
from rota.store.exclude import hold_calendars
from rota.store.fire import fire_due
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import transact_soon
from rota.store.postgres.settling import until_settled
from rota.store.read.fleet import find_pool
from rota.store.read.jobs import find_job, find_latest_run, find_one_shot
from rota.store.schema.partitions import with_days

_INSTANT = timedelta(microseconds=1)


class Changed(msgspec.Struct):
    """What to do after the commit of a change: workers to notify, pools that have new work."""

    version: int = 0
    workers: set[UUID] = msgspec.field(default_factory=set)
    pools: set[str] = msgspec.field(default_factory=set)


class JobChange(msgspec.Struct, frozen=True):
    """A recurring job as it shall be. `reschedule` drops the future runs the old schedule made.

    `payload_id` is for a payload too large to be inline: a new id, or the one of a stored payload to keep.
    """

    definition: Definition
    payload_id: UUID | None
    timetable: Timetable
    state: str
    reschedule: bool


class JobRows(NamedTuple):
    """A recurring job before and after a change."""

    before: Any
    after: Any


class OneShotRows(NamedTuple):
    """A one-shot: its own run, and the latest that was made of it."""

    first: Any
    latest: Any


class Changes:
    """Changes jobs and pools. It returns what its own transaction saw: what others change later does not show in it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(
        self,
        namespace: str,
        job_id: UUID,
        decide: Callable[[Any], JobChange | None],
        expected_version: int | None = None,
        dependencies: ChangedDependencies | None = None,
        exclusion: Exclusion | None = None,
    ) -> JobRows:
        """Changes a recurring job: `decide` sees the locked row, with its payload, and says what it shall be (None: as
        it is). `dependencies`: what it shall depend on, if that changes; `exclusion`: the calendars it shall name."""
        skipped: list[UUID] = []

        async def change_job(statements: Statements) -> tuple[JobRows, Changed]:
            if exclusion is not None:
                await hold_calendars(statements, namespace, exclusion)
            if dependencies is not None:
                await dependencies.lock(statements)
            locked = await lock_job(statements, namespace, job_id)
            if locked is None:
                raise NotFoundError("there is no such job")
            if expected_version is not None and locked["version"] != expected_version:
                raise VersionMismatchError(f"the job's version is {locked['version']}, not {expected_version}")
            before = await find_job(statements, namespace, job_id)
            change = decide(before)
            if change is None:
                return JobRows(before, before), Changed()
            changed = await apply_change(statements, locked, change, skipped)
            if dependencies is not None:
                await dependencies.replace(statements)
            return JobRows(before, await find_job(statements, namespace, job_id)), changed

        rows, changed = await with_days(self._database, skipped, lambda: transact_soon(self._database, change_job))
        self._database.wake(workers=changed.workers, pools=changed.pools, gates=True, schedules=True)
        return rows

    async def pause_one_shot(self, namespace: str, job_id: UUID) -> OneShotRows:
        """Holds a one-shot that no worker has claimed; raises ConflictError otherwise."""

        async def hold(statements: Statements) -> list[Any]:
            return await statements.fetch("pause_run", namespace=namespace, run_id=job_id)

        return await self._change_run(namespace, job_id, hold, already=lambda row: row["gate"] == "pause")

    async def resume_one_shot(self, namespace: str, job_id: UUID) -> OneShotRows:
        """Lets a held one-shot go; one that is not held stays as it is."""

        async def release(statements: Statements) -> list[Any]:
            return await statements.fetch("resume_run", namespace=namespace, run_id=job_id, lookahead=LOOKAHEAD)

        return await self._change_run(namespace, job_id, release, already=lambda row: row["gate"] != "pause")

    async def change_one_shot(
        self,
        namespace: str,
        job_id: UUID,
        definition: Definition,
        run_at: datetime | None,
        payload_id: UUID | None,
        version: int,
    ) -> OneShotRows:
        """Changes a one-shot that no worker has claimed and whose version is still this."""

        async def replace(statements: Statements) -> list[Any]:
            return await statements.fetch(
                "change_run",
                namespace=namespace,
                run_id=job_id,
                version=version,
                **_definition_columns(definition, payload_id),
                run_at=run_at,
                lookahead=LOOKAHEAD,
            )

        async def replace_and_forget(statements: Statements) -> list[Any]:
            rows = await replace(statements)
            if rows and not decode_policies(definition.policies).after:
                await forget(statements, namespace, job_id)
            return rows

        return await self._change_run(namespace, job_id, replace_and_forget, version=version)

    async def run_now(self, namespace: str, job_id: UUID, run_id: UUID) -> Any | None:
        """Runs a recurring job now, besides its schedule; returns the run's id, status and options. None: there is no
        such job, or it is cancelled."""
        row = await self._database.fetch_row("run_now", namespace=namespace, job_id=job_id, run_id=run_id)
        if row is not None:
            self._database.wake(pools=[row["pool"]], gates=True)
        return row

    async def pause_pool(self, namespace: str, pool: str, *, paused: bool) -> Any:
        """Nothing more is claimed from a paused pool. Returns the pool."""

        async def pause(statements: Statements) -> Any:
            await statements.fetch("pause_pool", namespace=namespace, pool=pool, paused=paused)
            return await find_pool(statements, namespace, pool)

        row = await self._database.transact(pause)
        self._database.wake(every_worker=True, events=True)
        return row

    async def limit_pool(self, namespace: str, pool: str, most_waiting: int | None) -> tuple[Any | None, Any]:
        """How many runs may wait in it; None: any number. Returns the pool as it was (None: unknown) and as it is."""

        async def limit(statements: Statements) -> tuple[Any | None, Any]:
            before = await find_pool(statements, namespace, pool)
            await statements.fetch("limit_pool", namespace=namespace, pool=pool, most_waiting=most_waiting)
            return before, await find_pool(statements, namespace, pool)

        return await self._database.transact(limit)

    async def _change_run(
        self,
        namespace: str,
        job_id: UUID,
        attempt: Callable[[Statements], Awaitable[list[Any]]],
        *,
        version: int | None = None,
        already: Callable[[Any], bool] = lambda _row: False,
    ) -> OneShotRows:
        """Changes a one-shot that no worker has claimed. `attempt` gives a row if it met the run, with its pool if work
        came to that; `already`: whether the run is as it shall be."""
        done: list[OneShotRows] = []

        async def change_run(statements: Statements) -> list[Any]:
            rows = await attempt(statements)
            first = await find_one_shot(statements, namespace, job_id)
            if first is None:
                raise NotFoundError("there is no such job")
            if first["cause"] in NODE_CAUSES or first["place"] == "workflow":
                raise ConflictError("it belongs to a workflow: change or pause that")
            if rows or already(first):
                done.append(OneShotRows(first, await find_latest_run(statements, namespace, job_id) or first))
            elif first["place"] == "finished" or first["claim"] is not None:
                raise ConflictError(f"the job has been started or has ended: {first['status']}")
            elif version is not None and first["job_version"] != version:
                raise VersionMismatchError(f"the job's version is {first['job_version']}, not {version}")
            return rows

        async def look() -> bool:
            done.clear()
            rows = await transact_soon(self._database, change_run)
            self._database.wake(pools=[row["pool"] for row in rows if "pool" in row], gates=bool(rows), soon=bool(rows))
            return bool(done)

        if not await until_settled(look):
            raise ConflictError("the job kept moving while it was being changed; try again")
        return done[0]


async def lock_job(statements: Statements, namespace: str, job_id: UUID) -> dict[str, Any] | None:
    """The job's row, ours until the transaction ends, and the time at which it became ours."""
    row = await statements.fetch_row("lock_job", namespace=namespace, job_id=job_id)
    # A statement of its own: after a wait for the lock, the time at which the wait began would be too early.
    return None if row is None else {**row, "database_time": await statements.time()}


async def apply_change(statements: Statements, row: Any, change: JobChange, skipped: list[UUID]) -> Changed:
    """Writes the job and binds its unclaimed runs to what it says now; `skipped` is as in fire_due."""
    namespace, job_id = row["namespace"], row["id"]
    changed = Changed()
    mark: datetime = row["fired_through"]
    if change.reschedule or change.state == "paused":
        mark = await fire_due(statements, row, skipped)
        mark = await _drop_future(statements, namespace, job_id, mark)
    if change.reschedule:
        mark = begin_anew(mark, row["database_time"])
    changed.version = await write_job(statements, row, change, mark)

    async def look() -> bool:
        # First bound, then held: what is bound is locked by us; what was missed keeps its version and is seen below.
        await statements.fetch("refresh_runs_of_job", namespace=namespace, job_id=job_id)
        if change.state == "paused":
            await statements.fetch("hold_runs_of_job", namespace=namespace, job_id=job_id, version=changed.version)
        recalled = await statements.fetch("recall_runs_of_job", namespace=namespace, job_id=job_id)
        changed.workers.update(row["worker_id"] for row in recalled)
        return not await statements.fetch_value(
            "unbound_runs", namespace=namespace, job_id=job_id, version=changed.version
        )

    if not await until_settled(look, pause_seconds=0):
        raise ConflictError("the job's runs kept moving while it was being changed; try again")
    if change.state == "scheduled":
        rows = await statements.fetch("release_runs_of_job", namespace=namespace, job_id=job_id, lookahead=LOOKAHEAD)
        changed.pools.update(r["pool"] for r in rows)
    return changed


async def _drop_future(statements: Statements, namespace: str, job_id: UUID, mark: datetime) -> datetime:
    """Drops the schedule's unclaimed future runs; the mark goes back only to just before the earliest of them."""
    while True:
        row = await statements.fetch_row("drop_future_runs", namespace=namespace, job_id=job_id)
        if row is None or not row["seen"]:
            return mark
        if row["earliest"] is not None:
            mark = min(mark, row["earliest"] - _INSTANT)


async def write_job(statements: Statements, row: Any, change: JobChange, mark: datetime) -> int:
    """Writes the job's row and returns its new version; runs are bound to it by apply_change."""
    next_fire_at = None
    if change.state == row["state"] == "scheduled" and not change.reschedule:
        next_fire_at = row["next_fire_at"]  # also when it is past: it is due, and will be fired
    elif change.state == "scheduled":
        next_fire_at = change.timetable.schedule(row["id"]).next_after(max(mark, row["database_time"]))
    timetable, definition = change.timetable, change.definition
    definition = msgspec.structs.replace(definition, policies=keep_mark(definition.policies, row["policies"]))
    is_over = change.state == "cancelled" or not decode_policies(definition.policies).after
    if is_over and decode_policies(row["policies"]).after:
        await forget(statements, row["namespace"], row["id"])
    version: int = await statements.fetch_value(
        "change_job",
        namespace=row["namespace"],
        job_id=row["id"],
        **_definition_columns(definition, change.payload_id),
        owner=definition.owner,
        **msgspec.structs.asdict(timetable),
        state="completed" if change.state == "scheduled" and next_fire_at is None else change.state,
        next_fire_at=next_fire_at,
        fired_through=mark,
    )
    return version


def _definition_columns(definition: Definition, payload_id: UUID | None) -> dict[str, Any]:
    """What change_job and change_run write of a definition; a large payload is stored under `payload_id`.

    Without a payload in the definition, `payload_id` names a stored one to keep.
    """
    payload = definition.payload
    large = payload is not None and len(payload.encode()) > INLINE_PAYLOAD_BYTES
    return {
        "name": definition.name,
        "task": definition.task,
        "pool": definition.pool,
        "priority": definition.priority,
        "tags": list(definition.tags),
        "payload": None if large else payload,
        "payload_id": payload_id if large or payload is None else None,
        "large_payload": payload if large else None,
        "options": definition.options,
        "blob": definition.blob,
        "policies": definition.policies,
    }
