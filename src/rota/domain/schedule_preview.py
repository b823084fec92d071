"""When a schedule that is no job yet would fire, and what it means.

The cost is bounded: an expression has at most 200 characters and is parsed in one pass, a search for the next time ends
after 50 years, and callers ask for at most 100 times.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from rota.domain.business_days import Exclusion, check_reach, exclude_days
from rota.domain.cron import ClockChange
from rota.domain.schedule import Schedule, fire_times, parse_bounds, parse_cron, parse_every
from rota.domain.schedule_description import describe
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

_YEARS = range(1900, 9000)
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)


def preview_schedule(
    *,
    cron_expression: str | None,
    every_seconds: float | None,
    timezone: str,
    dst: ClockChange,
    start_time: datetime | None,
    end_time: datetime | None,
    seed: UUID | None,
    after: datetime,
    count: int,
    exclusion: Exclusion | None = None,
) -> tuple[list[datetime], str]:
    """The next times after a moment, and the schedule in words; raises BadInputError naming the field.

    `seed`: the job whose id decides what H means.
    """
    for field, moment in (("after", after), ("startTime", start_time), ("endTime", end_time)):
        if moment is not None and moment.year not in _YEARS:
            raise BadInputError(f"must be a time of the years {_YEARS[0]} to {_YEARS[-1]}", field=field)
    load_zone(timezone)
    schedule = parse_bounds(_parse(cron_expression, every_seconds, timezone, dst, seed, after), start_time, end_time)
    if exclusion is not None and (exclusion.revisions or exclusion.weekends):
        schedule = exclude_days(schedule, exclusion, timezone)
        check_reach(schedule, after)
    return fire_times(schedule, after, _FOREVER, count), describe(schedule)


def _parse(
    cron_expression: str | None,
    every_seconds: float | None,
    timezone: str,
    dst: ClockChange,
    seed: UUID | None,
    after: datetime,
) -> Schedule:
    if cron_expression is not None:
        if every_seconds is not None:
            raise BadInputError("can't be used with cronExpression", field="everySeconds")
        return parse_cron(cron_expression, timezone, after, dst=dst, seed=seed)
    if every_seconds is None:
        raise BadInputError("required, or give everySeconds", field="cronExpression")
    return parse_every(every_seconds, after)
