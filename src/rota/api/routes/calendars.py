"""Business calendars: named lists of days that schedules leave out."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import NAME_CURSOR, PAGE_PARAMETERS, read_limit, read_name_cursor
from rota.contract.calendars import CalendarIn, CalendarList, CalendarOut, CalendarSummary
from rota.contract.fields import CalendarName
from rota.domain.rights import Right
from rota.errors import BadInputError, NotFoundError
from rota.gateway.calendars import days_of
from rota.service import costly_step
from rota.store.exclude import decode_days


@Operation("GET", "/v1/calendars", Right.READ, query=PAGE_PARAMETERS)
async def list_calendars(services: Backend, call: ApiRequest) -> CalendarList:
    """List calendars by name, without their days."""
    limit = read_limit(call.query)
    rows = await services.calendars.find_page(call.namespace, read_name_cursor(call.query), limit)
    cursor = f"{NAME_CURSOR}{rows[-1]['name']}" if len(rows) == limit else None
    items = [
        CalendarSummary(
            name=row["name"],
            number_of_days=row["number_of_days"],
            changed_by=row["changed_by"],
            created_at=row["created_at"],
            changed_time=row["changed_at"],
        )
        for row in rows
    ]
    return CalendarList(items=items, next_cursor=cursor)


@Operation("GET", "/v1/calendars/{calendar}", Right.READ, errors=(404,))
async def get_calendar(services: Backend, call: ApiRequest) -> CalendarOut:
    """Get a calendar with its days."""
    name = _name(call)
    row = await services.calendars.find(call.namespace, name)
    if row is None:
        raise _no_such_calendar()
    return await _show(services, call, row)


@Operation("PUT", "/v1/calendars/{calendar}", Right.OPERATE, body=CalendarIn, errors=(409, 413))
async def put_calendar(services: Backend, call: ApiRequest) -> CalendarOut:
    """Create a calendar or replace its days. Schedules that name it get their next times from the new days; runs that
    were made before stay."""
    name = _name(call)
    wanted: CalendarIn = decode(call.body, CalendarIn)
    async with costly_step(len(call.body)):
        days = days_of(wanted, services.now.date())
    done = await services.calendars.put(call.namespace, name, days, call.caller.owner)
    return await _show(services, call, done.after)


@Operation("DELETE", "/v1/calendars/{calendar}", Right.OPERATE, errors=(404, 409))
async def delete_calendar(services: Backend, call: ApiRequest) -> CalendarOut:
    """Delete a calendar that no schedule names."""
    row = await services.calendars.delete(call.namespace, _name(call))
    if row is None:
        raise _no_such_calendar()
    return _shown(row, 0)


async def _show(services: Backend, call: ApiRequest, row: Any) -> CalendarOut:
    return _shown(row, len(await services.calendars.schedules_naming(call.namespace, row["name"])))


def _shown(row: Any, schedules: int) -> CalendarOut:
    return CalendarOut(
        name=row["name"],
        days=list(decode_days(row["days"])),
        changed_by=row["changed_by"],
        schedules=schedules,
        created_at=row["created_at"],
        changed_time=row["changed_at"],
    )


def _name(call: ApiRequest) -> str:
    try:
        return msgspec.convert(call.path["calendar"], CalendarName)
    except msgspec.ValidationError:
        words = "must have 1 to 100 letters, digits, dots, underscores or hyphens"
        raise BadInputError(words, field="calendar") from None


def _no_such_calendar() -> NotFoundError:
    return NotFoundError("there is no such calendar")


OPERATIONS = (list_calendars, get_calendar, put_calendar, delete_calendar)
