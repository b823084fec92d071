"""Rezoning: updates stored fire times when the time zone data changes.

A schedule's next fire time is stored, computed with the zone data of that day. When the data changes (a government
moved its clocks), the scheduler that notices computes the stored times of all zoned schedules again. A time is written
only if the job has not changed since it was read, so a second scheduler or a firing in between does no harm. The zone
data version is stored too, so that an update while all schedulers were down is noticed.
"""

from __future__ import annotations

from datetime import datetime

from rota.domain.firing import ScheduledJob
from rota.domain.timezones import refresh_zones, zone_data_version
from rota.service import Service, in_turns
from rota.store.fire import Schedules
from rota.telemetry import get_logger

JOBS_PER_STEP = 200
_log = get_logger("rezoning")


class Rezoner(Service):
    """Checks regularly whether the zone data changed."""

    interval_seconds = 60.0

    def __init__(self, *, schedules: Schedules) -> None:
        super().__init__()
        self._schedules = schedules
        self._compared = False

    async def tick(self) -> int:
        """Returns how many jobs got a new next fire time."""
        changed = refresh_zones()
        if self._compared and not changed:
            return 0
        version = zone_data_version()
        moved = 0
        before = await self._schedules.zone_data()
        if before != version:
            moved = await self._rezone()
            await self._schedules.note_zone_data(version)
            if before is not None:
                _log.info("time zone data changed", version=version, jobs_moved=moved)
        self._compared = True
        return moved

    async def _rezone(self) -> int:
        moved = 0
        after = None
        while jobs := await self._schedules.zoned_jobs(after, JOBS_PER_STEP):
            moves = [(job, moment) async for job in in_turns(jobs) if (moment := _moved(job))]
            moved += await self._schedules.move_next_fires(moves)
            after = jobs[-1]
        return moved


def _moved(job: ScheduledJob) -> datetime | None:
    """The job's next fire time, if it changed; a job that is already due is left to the firer."""
    begin = max(job.fired_through, job.database_time)
    try:
        wanted = job.timetable.schedule(job.id).next_after(begin)
    except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
        _log.error("a schedule can't be read and keeps its next fire time", job_id=str(job.id), error=repr(error))
        return None
    return wanted if wanted != job.next_fire_at and job.next_fire_at > job.database_time else None
