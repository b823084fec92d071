"""Previews of schedules that are not jobs yet.

The cost of a preview is bounded: an expression has at most 200 characters and is parsed in one pass, a search for the
next time ends after 50 years, and at most 100 times are given.
"""

from __future__ import annotations

from datetime import UTC, datetime

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.contract.jobs import SchedulePreview, SchedulePreviewIn
from rota.domain.ids import parse_job
from rota.domain.rights import Right
from rota.domain.schedule import Schedule, fire_times, parse_bounds, parse_cron, parse_every
from rota.domain.schedule_description import describe
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

_YEARS = range(1900, 9000)
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)


@Operation("POST", "/v1/schedules/preview", Right.READ, body=SchedulePreviewIn, errors=(413,))
async def preview(services: Backend, call: ApiRequest) -> SchedulePreview:
    """Preview when a schedule would fire."""
    wanted: SchedulePreviewIn = decode(call.body, SchedulePreviewIn)
    after = services.now if wanted.after is None else wanted.after
    for field, moment in (("after", after), ("startTime", wanted.start_time), ("endTime", wanted.end_time)):
        if moment is not None and moment.year not in _YEARS:
            raise BadInputError(f"must be a time of the years {_YEARS[0]} to {_YEARS[-1]}", field=field)
    schedule = parse_bounds(_schedule(wanted, after), wanted.start_time, wanted.end_time)
    times = fire_times(schedule, after, _FOREVER, wanted.count)
    return SchedulePreview(fire_times=times, description=describe(schedule))


def _schedule(wanted: SchedulePreviewIn, after: datetime) -> Schedule:
    load_zone(wanted.timezone)
    if wanted.cron_expression is not None:
        if wanted.every_seconds is not None:
            raise BadInputError("can't be used with cronExpression", field="everySeconds")
        seed = None if wanted.job_id is None else parse_job(wanted.job_id)
        return parse_cron(wanted.cron_expression, wanted.timezone, after, dst=wanted.dst, seed=seed)
    if wanted.every_seconds is None:
        raise BadInputError("required, or give everySeconds", field="cronExpression")
    return parse_every(wanted.every_seconds, after)


OPERATIONS = (preview,)
