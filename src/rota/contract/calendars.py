"""Business calendars: what is stored and shown."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

from msgspec import Meta

from rota.contract.fields import In, Out
from rota.domain.business_days import MOST_DAYS


class CalendarIn(In, kw_only=True):
    """The days of a calendar: a list of dates, or an iCalendar text."""

    days: Annotated[list[date], Meta(max_length=MOST_DAYS)] | None = None
    """the days, such as `2027-01-01`"""
    icalendar: Annotated[str, Meta(max_length=1_000_000)] | None = None
    """an iCalendar text with all-day events, once or every year"""


class CalendarOut(Out, kw_only=True):
    """A calendar."""

    name: str
    """its name"""
    days: list[date]
    """its days, in order"""
    changed_by: str
    """who changed it last"""
    schedules: int
    """how many schedules name it"""
    created_at: datetime
    """when it was created"""
    changed_time: datetime
    """when it was changed last"""


class CalendarSummary(Out, kw_only=True):
    """A calendar without its days."""

    name: str
    """its name"""
    number_of_days: int
    """how many days it has"""
    changed_by: str
    """who changed it last"""
    created_at: datetime
    """when it was created"""
    changed_time: datetime
    """when it was changed last"""


class CalendarList(Out, kw_only=True):
    """A page of calendars."""

    items: list[CalendarSummary]
    """calendars by name"""
    next_cursor: str | None
