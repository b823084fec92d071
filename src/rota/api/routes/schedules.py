"""Previews of schedules that are not jobs yet."""

from __future__ import annotations

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.contract.jobs import SchedulePreview, SchedulePreviewIn
from rota.domain.rights import Right
from rota.domain.schedule_preview import preview_schedule


@Operation("POST", "/v1/schedules/preview", Right.READ, body=SchedulePreviewIn, errors=(413,))
async def preview(services: Backend, call: ApiRequest) -> SchedulePreview:
    """Preview when a schedule would fire."""
    wanted: SchedulePreviewIn = decode(call.body, SchedulePreviewIn)
    times, description = preview_schedule(
        cron_expression=wanted.cron_expression,
        every_seconds=wanted.every_seconds,
        timezone=wanted.timezone,
        dst=wanted.dst,
        start_time=wanted.start_time,
        end_time=wanted.end_time,
        job_id=wanted.job_id,
        after=services.now if wanted.after is None else wanted.after,
        count=wanted.count,
    )
    return SchedulePreview(fire_times=times, description=description)


OPERATIONS = (preview,)
