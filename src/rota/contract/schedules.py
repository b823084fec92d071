"""Schedules that are not jobs yet."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from rota.contract.fields import In, JobId, Moment, Out
from rota.domain.schedule import ClockChange

MOST_FIRE_TIMES = 100


class SchedulePreviewIn(In, kw_only=True):
    """A schedule to look at: a cron expression or an interval. `jobId` decides what `H` stands for."""

    cron_expression: str | None = None
    every_seconds: float | None = None
    timezone: str = "UTC"
    dst: ClockChange = "shift"
    start_time: Moment | None = None
    end_time: Moment | None = None
    job_id: JobId | None = None
    after: Moment | None = None
    count: Annotated[int, Meta(ge=1, le=MOST_FIRE_TIMES)] = 10


class SchedulePreview(Out, kw_only=True):
    """When the schedule fires next, and what it means in words."""

    fire_times: list[datetime]
    description: str
