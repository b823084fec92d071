"""Schedules: a list of recurring jobs, and previews of schedules that are not jobs yet."""

from __future__ import annotations

from uuid import UUID

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import LIST_PARAMETERS, next_cursor, read_limit, schedule_filter
from rota.api.representations import show_schedule
from rota.contract.jobs import ScheduleList, ScheduleOut, SchedulePreview, SchedulePreviewIn
from rota.domain.business_days import decode_exclusion
from rota.domain.rights import Right
from rota.domain.schedule_preview import preview_schedule
from rota.errors import NotFoundError
from rota.gateway.job_builder import exclusion_of
from rota.service import Breather

_FILTERS = {name: words for name, words in LIST_PARAMETERS.items() if name not in ("startTime", "endTime")}


@Operation("GET", "/v1/schedules", Right.READ, query=_FILTERS)
async def list_schedules(services: Backend, call: ApiRequest) -> ScheduleList:
    """List recurring jobs with their next fire times and latest runs, latest made first."""
    limit, now, namespace = read_limit(call.query), services.now, call.namespace
    rows = await services.jobs.find(namespace, schedule_filter(call.query, only=call.only), limit)
    latest = await services.jobs.statuses([(namespace, row["id"]) for row in rows], now) if rows else {}
    items: list[ScheduleOut] = []
    breather = Breather()
    for row in rows:
        await breather.breathe()
        if (run := latest.get((namespace, row["id"]))) is not None:
            items.append(show_schedule(row, now, run))
    return ScheduleList(items=items, next_cursor=next_cursor([row["listed_as"] for row in rows], limit))


@Operation("POST", "/v1/schedules/preview", Right.READ, body=SchedulePreviewIn, errors=(404, 413))
async def preview(services: Backend, call: ApiRequest) -> SchedulePreview:
    """Preview when a schedule would fire."""
    wanted: SchedulePreviewIn = decode(call.body, SchedulePreviewIn)
    seed = None if wanted.job_id is None else await _find_job(services, call, wanted.job_id)
    text = exclusion_of(wanted)
    exclusion = (
        None if text is None else await services.gateway.calendars.resolve(call.namespace, decode_exclusion(text))
    )
    times, description = preview_schedule(
        cron_expression=wanted.cron_expression,
        every_seconds=wanted.every_seconds,
        timezone=wanted.timezone,
        dst=wanted.dst,
        start_time=wanted.start_time,
        end_time=wanted.end_time,
        seed=seed,
        after=services.now if wanted.after is None else wanted.after,
        count=wanted.count,
        exclusion=exclusion,
    )
    return SchedulePreview(fire_times=times, description=description)


async def _find_job(services: Backend, call: ApiRequest, text: str) -> UUID:
    """The job with this id; raises NotFoundError also for one that the caller may not see."""
    job_id = await services.jobs.find_id(call.namespace, text)
    if job_id is None or (call.only is not None and await services.jobs.owner(call.namespace, job_id) != call.only):
        raise NotFoundError("there is no such job")
    return job_id


OPERATIONS = (list_schedules, preview)
