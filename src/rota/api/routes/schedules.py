"""Schedules: a list of recurring jobs, and previews of schedules that are not jobs yet.

The cost of a preview is bounded: an expression has at most 200 characters and is parsed in one pass, a search for the
next time ends after 50 years, and at most 100 times are given.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import LIST_PARAMETERS, next_cursor, read_limit, schedule_filter
from rota.api.representations import show_schedule
from rota.contract.jobs import ScheduleList, ScheduleOut, SchedulePreview, SchedulePreviewIn
from rota.domain.rights import Right
from rota.domain.schedule import Schedule, fire_times, parse_bounds, parse_cron, parse_every
from rota.domain.schedule_description import describe
from rota.domain.timezones import load_zone
from rota.errors import BadInputError, NotFoundError
from rota.service import Breather

_YEARS = range(1900, 9000)
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)


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
    after = services.now if wanted.after is None else wanted.after
    for field, moment in (("after", after), ("startTime", wanted.start_time), ("endTime", wanted.end_time)):
        if moment is not None and moment.year not in _YEARS:
            raise BadInputError(f"must be a time of the years {_YEARS[0]} to {_YEARS[-1]}", field=field)
    seed = None if wanted.job_id is None else await services.jobs.find_id(call.namespace, wanted.job_id)
    if wanted.job_id is not None and seed is None:
        raise NotFoundError("there is no such job")
    schedule = parse_bounds(_schedule(wanted, after, seed), wanted.start_time, wanted.end_time)
    times = fire_times(schedule, after, _FOREVER, wanted.count)
    return SchedulePreview(fire_times=times, description=describe(schedule))


def _schedule(wanted: SchedulePreviewIn, after: datetime, seed: UUID | None) -> Schedule:
    load_zone(wanted.timezone)
    if wanted.cron_expression is not None:
        if wanted.every_seconds is not None:
            raise BadInputError("can't be used with cronExpression", field="everySeconds")
        return parse_cron(wanted.cron_expression, wanted.timezone, after, dst=wanted.dst, seed=seed)
    if wanted.every_seconds is None:
        raise BadInputError("required, or give everySeconds", field="cronExpression")
    return parse_every(wanted.every_seconds, after)


OPERATIONS = (list_schedules, preview)
