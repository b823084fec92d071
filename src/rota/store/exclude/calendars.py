"""Changing calendars: a schedule that names one gets its next times from the new days, in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec

from rota.domain.business_days import check_reach, encode_exclusion, resolve
from rota.domain.job import show_job_of
from rota.errors import BadInputError, ConflictError
from rota.store.change import Changed, JobChange, apply_change, lock_job
from rota.store.exclude import find_calendars, lock_calendars, read_calendars
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import transact_soon
from rota.store.read.jobs import definition_of
from rota.store.read.timetables import timetable_of
from rota.store.schema.partitions import with_days

_NAMED = 5
_encoder = msgspec.json.Encoder()


class CalendarChange(NamedTuple):
    """A calendar as it was (None: it is new) and as it is, and how many schedules have new days."""

    before: Any
    after: Any
    schedules: int


class Calendars:
    """The calendars of namespaces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, namespace: str, name: str) -> Any | None:
        rows = await find_calendars(self._database, namespace, [name])
        return rows[0] if rows else None

    async def find_page(self, namespace: str, after: str | None, limit: int) -> list[Any]:
        """Calendars by name, without their days."""
        return await self._database.fetch("list_calendars", namespace=namespace, after=after, limit=limit)

    async def schedules_naming(self, namespace: str, name: str) -> list[Any]:
        """The schedules that name a calendar, with their ids and names."""
        return await _schedules_naming(self._database, namespace, name)

    async def put(self, namespace: str, name: str, days: Sequence[date], changed_by: str) -> CalendarChange:
        """Creates a calendar or gives it other days; raises ConflictError if they leave a schedule no time."""
        skipped: list[UUID] = []

        async def put_it(statements: Statements) -> tuple[CalendarChange, Changed]:
            await lock_calendars(statements, [namespace], changes=True)
            before = await find_calendars(statements, namespace, [name])
            text = _encoder.encode(days).decode()
            if before and before[0]["days"] == text:
                return CalendarChange(before[0], before[0], 0), Changed()
            await statements.fetch(
                "put_calendar",
                namespace=namespace,
                name=name,
                revision=uuid4(),
                days=text,
                number_of_days=len(days),
                changed_by=changed_by,
            )
            told = Changed()
            jobs = await _schedules_naming(statements, namespace, name) if before else []
            for job in jobs:
                changed = await _give_days(statements, namespace, job["id"], name, skipped)
                told.workers |= changed.workers
                told.pools |= changed.pools
            after = await find_calendars(statements, namespace, [name])
            return CalendarChange(before[0] if before else None, after[0], len(jobs)), told

        done, told = await with_days(self._database, skipped, lambda: transact_soon(self._database, put_it))
        if done.schedules:
            self._database.wake(workers=told.workers, pools=told.pools, gates=True, schedules=True)
        return done

    async def delete(self, namespace: str, name: str) -> Any | None:
        """The calendar as it was, None if there was none; raises ConflictError while a schedule names it."""

        async def delete_it(statements: Statements) -> Any | None:
            await lock_calendars(statements, [namespace], changes=True)
            jobs = await _schedules_naming(statements, namespace, name)
            if jobs:
                named = ", ".join(f"{job['name']} ({show_job_of(job['id'], job['options'])})" for job in jobs[:_NAMED])
                more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
                raise ConflictError(f"schedules name it: {named}{more}; change these first")
            return await statements.fetch_row("delete_calendar", namespace=namespace, name=name)

        return await transact_soon(self._database, delete_it)


async def _schedules_naming(statements: Statements | Database, namespace: str, name: str) -> list[Any]:
    return await statements.fetch("schedules_naming", namespace=namespace, name=name)


async def _give_days(
    statements: Statements, namespace: str, job_id: UUID, calendar: str, skipped: list[UUID]
) -> Changed:
    """Changes a schedule to the days that its calendars have now."""
    row = await lock_job(statements, namespace, job_id)
    timetable = None if row is None else timetable_of(row)
    if row is None or timetable is None or row["state"] not in ("scheduled", "paused"):
        return Changed()
    exclusion = timetable.exclusion
    if calendar not in exclusion.revisions:
        return Changed()
    exclusion = resolve(exclusion, await read_calendars(statements, namespace, exclusion.revisions))
    timetable = msgspec.structs.replace(timetable, excluded=encode_exclusion(exclusion))
    try:
        check_reach(timetable.schedule(job_id), row["database_time"])
    except BadInputError as error:
        shown = show_job_of(job_id, row["options"])
        raise ConflictError(f"these days {error.fields[0][1]} to {row['name']} ({shown})") from error
    change = JobChange(definition_of(row), row["payload_id"], timetable, row["state"], reschedule=True)
    return await apply_change(statements, row, change, skipped)
