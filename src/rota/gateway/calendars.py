"""Business calendars between the API's fields and schedules: which days a name means, and calendars themselves.

The days are looked up before a schedule is written, and looked at again, under a lock, when it is (store/exclude)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime

from rota.contract.calendars import CalendarIn
from rota.domain.business_days import MOST_DAYS, Exclusion, resolve
from rota.domain.icalendar import days_of_icalendar
from rota.domain.job import Recurring
from rota.errors import BadInputError
from rota.gateway.job_builder import with_days
from rota.store.exclude import read_calendars
from rota.store.postgres.database import Database, Statements

_YEARS = range(1900, 9000)


class CalendarDays:
    """Finds the days of calendars."""

    def __init__(self, statements: Statements | Database, now: Callable[[], datetime]) -> None:
        self._statements = statements
        self._now = now

    async def resolve(self, namespace: str, exclusion: Exclusion) -> Exclusion:
        """The exclusion with the days that its calendars have; raises BadInputError for one that there is not."""
        return resolve(exclusion, await read_calendars(self._statements, namespace, exclusion.revisions))

    async def named(self, namespace: str, names: Sequence[str] | None) -> Exclusion:
        """The days of these calendars."""
        return await self.resolve(namespace, Exclusion(dict.fromkeys(names or (), "")))

    async def attach(self, item: Recurring) -> Recurring:
        """The schedule with the days of the calendars that it names."""
        exclusion = item.timetable.exclusion
        if not exclusion.revisions:
            return item
        return with_days(item, await self.resolve(item.namespace, exclusion), self._now())

    async def attach_workflow(self, item: Recurring | None) -> Recurring | None:
        """The same for the schedule of a workflow, if it has one."""
        try:
            return None if item is None else await self.attach(item)
        except BadInputError as error:
            in_schedule(error)
            raise


def in_schedule(error: BadInputError) -> None:
    """Names the fields of a job that fires a workflow as those of the workflow's schedule."""
    error.fields = [(f"schedule.{field}", message) for field, message in error.fields]


def days_of(wanted: CalendarIn, today: date) -> list[date]:
    """The days of a calendar, in order, each once; raises BadInputError naming the field."""
    if (wanted.days is None) == (wanted.icalendar is None):
        raise BadInputError("give this or icalendar, one of the two", field="days")
    if wanted.icalendar is not None:
        days = days_of_icalendar(wanted.icalendar, today, MOST_DAYS)
    else:
        days = sorted(set(wanted.days or ()))
    if any(day.year not in _YEARS for day in days):
        field = "days" if wanted.icalendar is None else "icalendar"
        raise BadInputError(f"must be of the years {_YEARS[0]} to {_YEARS[-1]}", field=field)
    return days
