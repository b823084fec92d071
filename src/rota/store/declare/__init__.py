"""Reconciling the schedules that are declared in code.

Who rules. Workers say which application they run, in which version. Versions that are numbers are ordered as such,
others by when they were first seen; the newest that has a worker is in force. So during a rolling deployment the new
version rules from its first worker on, and an old worker that starts late changes nothing; when a deployment is
rolled back the old version rules again as soon as the last worker of the new one has left. A version whose workers
were lost, not stopped, stays in force for a while: a crash is not a decision. Nor does it come into force again by
having been lost, when the version that replaced it stops.

What is done. One transaction, under the lock of the application's row, makes the jobs what the version in force
declares. Jobs are known by application and name: their ids are made of these. What the code said last is kept with
each job, so that a change made by hand stays until the code says something new. A job that is no longer
declared is paused with a note, never deleted; one that is declared again goes on. What a person paused stays paused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from rota.domain.application import DeclaredSchedule, decode_schedules, judge_declared
from rota.domain.business_days import encode_exclusion, resolve
from rota.domain.ids import declared_id, new_id, shard_of, show_job
from rota.domain.job import Timetable
from rota.store.change import Changed, JobChange, apply_change, lock_job
from rota.store.events import Event, record_events
from rota.store.exclude import KnownCalendars, lock_calendars, read_calendars
from rota.store.lease import count_shards
from rota.store.postgres.database import Database, Statements
from rota.store.read.jobs import definition_of
from rota.store.read.timetables import timetable_of
from rota.store.schema.partitions import with_days

_encoder = msgspec.json.Encoder()
GONE = "paused: no worker declares it any more (it was last declared by version {version} of {app})"


class PendingApp(msgspec.Struct, frozen=True):
    """An application whose version in force is not applied yet, with what that declares (JSON)."""

    namespace: str
    app: str
    version: str | None
    schedules: str | None
    workflows: str | None = None


class Reconciled(msgspec.Struct):
    """What became of an application's schedules, and whom to wake."""

    app: str
    version: str | None
    made: dict[UUID, str] = msgspec.field(default_factory=dict)
    changed: dict[UUID, str] = msgspec.field(default_factory=dict)
    paused: dict[UUID, str] = msgspec.field(default_factory=dict)
    unreadable: dict[str, str] = msgspec.field(default_factory=dict)  # by name, with the error; left as they were
    told: Changed = msgspec.field(default_factory=Changed)


# Is given the namespace, the declared workflows (JSON; None: none), what became of the application so far, and a list
# for the ids of runs whose days may be missing.
ApplyWorkflows = Callable[[Statements, str, str | None, Reconciled, list[UUID]], Awaitable[None]]


class DeclaredJobs:
    """The jobs and workflows of applications."""

    def __init__(self, database: Database, *, patience: timedelta, apply_workflows: ApplyWorkflows) -> None:
        """`apply_workflows` makes the workflows match, in the same transaction."""
        self._database = database
        self._patience = patience
        self._apply_workflows = apply_workflows

    async def pending(self) -> list[PendingApp]:
        """Applications whose version in force is not applied yet."""
        rows = await self._database.fetch("versions_in_force", patience=self._patience, namespace=None, app=None)
        return [PendingApp(**row) for row in rows]

    async def reconcile(self, namespace: str, app: str) -> Reconciled | None:
        """Makes the jobs match the declarations; None if another scheduler has just done it."""
        skipped: list[UUID] = []

        async def reconcile_app(statements: Statements) -> Reconciled | None:
            await statements.fetch("lock_app", namespace=namespace, app=app)
            ruling = await statements.fetch_row(
                "versions_in_force", patience=self._patience, namespace=namespace, app=app
            )
            if ruling is None:
                return None
            done = Reconciled(app, ruling["version"])
            schedules = decode_schedules(ruling["schedules"]) if ruling["schedules"] else ()
            await _Work(statements, namespace, done, skipped).apply(schedules)
            await self._apply_workflows(statements, namespace, ruling["workflows"], done, skipped)
            if not done.unreadable:  # else it stays pending
                await statements.fetch(
                    "note_app",
                    namespace=namespace,
                    app=app,
                    version=ruling["version"],
                    schedules=ruling["schedules"],
                    workflows=ruling["workflows"],
                )
            return done

        done = await with_days(self._database, skipped, lambda: self._database.transact(reconcile_app))
        if done:
            self._database.wake(workers=done.told.workers, pools=done.told.pools, schedules=True, events=True)
        return done


class _Work:
    """One reconciliation."""

    def __init__(self, statements: Statements, namespace: str, done: Reconciled, skipped: list[UUID]) -> None:
        self._statements = statements
        self._namespace = namespace
        self._done = done
        self._skipped = skipped

    async def apply(self, schedules: Sequence[DeclaredSchedule]) -> None:
        # Before the rows of jobs: whoever changes a calendar holds it when they change its schedules.
        calendars = await self._calendars(schedules)
        rows = {
            row["id"]: row
            for row in await self._statements.fetch("declared_jobs", namespace=self._namespace, app=self._done.app)
        }
        for announced in schedules:
            job_id = declared_id(self._namespace, self._done.app, announced.name)
            row = rows.pop(job_id, None)
            try:
                timetable = _with_days(announced.timetable, job_id, calendars)
            except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
                self._done.unreadable[announced.name] = f"{type(error).__name__}: {error}"
                continue
            if row is None:
                await self._make(job_id, announced, timetable)
            else:
                await self._change(job_id, announced, timetable)
        for row in rows.values():
            if not row["paused_by_app"]:
                await self._pause(row["id"])
        await self._record()

    async def _calendars(self, schedules: Sequence[DeclaredSchedule]) -> KnownCalendars:
        """The calendars that schedules name; all are kept as they are, for those of workflows too."""
        names = {name for declared in schedules for name in _calendars_of(declared.timetable)}
        await lock_calendars(self._statements, [self._namespace])
        return await read_calendars(self._statements, self._namespace, names)

    async def _make(self, job_id: UUID, declared: DeclaredSchedule, timetable: Timetable) -> None:
        """Makes a job; `timetable` has the days that the declared one leaves out."""
        definition = declared.definition
        moment = await self._statements.time()
        shards = await count_shards(self._statements)
        await self._statements.fetch(
            "declare_job",
            namespace=self._namespace,
            job_id=job_id,
            owner=definition.owner,
            name=definition.name,
            task=definition.task,
            pool=definition.pool,
            priority=definition.priority,
            tags=list(definition.tags),
            payload=definition.payload,
            options=definition.options,
            shard=shard_of(job_id, shards),
            **msgspec.structs.asdict(timetable),
            next_fire_at=timetable.schedule(job_id).next_after(moment),
            policies=definition.policies,
            app=self._done.app,
        )
        await self._note(job_id, declared, None)
        self._done.made[job_id] = declared.name

    async def _change(self, job_id: UUID, declared: DeclaredSchedule, timetable: Timetable) -> None:
        row = await lock_job(self._statements, self._namespace, job_id)
        if row is None:
            return
        before = msgspec.json.decode(row["declared"], type=DeclaredSchedule) if row["declared"] else None
        judged = judge_declared(declared, before, state=row["state"], paused_by_app=row["paused_by_app"])
        if judged is None:
            return
        if judged.is_new:
            definition = declared.definition
            payload_id = new_id(row["database_time"].timestamp()) if definition.payload else None
        else:  # it goes on as it was left, with what was changed by hand
            definition, timetable, payload_id = definition_of(row), timetable_of(row), row["payload_id"]
        change = JobChange(definition, payload_id, timetable, judged.state, timetable != timetable_of(row))
        self._tell(await apply_change(self._statements, row, change, self._skipped))
        await self._note(job_id, declared, None)
        self._done.changed[job_id] = declared.name

    async def _pause(self, job_id: UUID) -> None:
        row = await lock_job(self._statements, self._namespace, job_id)
        if row is None or row["state"] != "scheduled":
            return
        change = JobChange(definition_of(row), row["payload_id"], timetable_of(row), "paused", reschedule=False)
        self._tell(await apply_change(self._statements, row, change, self._skipped))
        await self._note(job_id, None, GONE.format(version=row["app_version"], app=self._done.app), row["app_version"])
        self._done.paused[job_id] = row["name"]

    async def _note(
        self, job_id: UUID, declared: DeclaredSchedule | None, note: str | None, version: str | None = None
    ) -> None:
        text = None if declared is None else _encoder.encode(declared).decode()
        await self._statements.fetch(
            "note_declared",
            namespace=self._namespace,
            job_id=job_id,
            declared=text,
            version=version or self._done.version,
            note=note,
        )

    async def _record(self) -> None:
        """What happened, for people."""
        done = self._done
        what = {"declared": done.made, "changed": done.changed, "undeclared": done.paused}
        events = [(kind, job_id, name) for kind, jobs in what.items() for job_id, name in jobs.items()]
        await record_events(
            self._statements,
            [
                Event(
                    self._namespace,
                    f"schedule.{kind}",
                    show_job(job_id),
                    f"{name} of {done.app}, version {done.version}",
                    job_id,
                )
                for kind, job_id, name in events
            ],
        )

    def _tell(self, changed: Changed) -> None:
        self._done.told.workers |= changed.workers
        self._done.told.pools |= changed.pools


def _with_days(timetable: Timetable, job_id: UUID, calendars: KnownCalendars) -> Timetable:
    """The timetable with the days of its calendars; raises if it can't be read here (a newer version of Rota wrote it,
    its time zone or a calendar is unknown)."""
    if timetable.exclusion.revisions:
        exclusion = resolve(timetable.exclusion, calendars)
        timetable = msgspec.structs.replace(timetable, excluded=encode_exclusion(exclusion))
    timetable.schedule(job_id).next_after(timetable.anchor_at)
    _ = timetable.misfire_rule
    return timetable


def _calendars_of(timetable: Timetable) -> list[str]:
    """The calendars that it names; none if it can't be read: that is told where it is used."""
    try:
        return timetable.exclusion.calendars
    except msgspec.MsgspecError:
        return []
