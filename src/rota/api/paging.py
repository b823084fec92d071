"""Query parameters of lists: limit, cursor, time range, filters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import msgspec

from rota.contract.aliases import moment_of
from rota.contract.fields import JobStatusName, RunStatusName, StoredName
from rota.domain.ids import FIRST_ID, LAST_ID, floor_id
from rota.errors import BadInputError
from rota.store.read.runs import RunFilter

_DEFAULT_LIMIT = 50
_MOST = 500
DEFAULT_RANGE = timedelta(hours=24)
_LIMIT = re.compile("[0-9]{1,3}")
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,9})?")
_CURSOR = re.compile("[0-9a-f]{32}")
_LAST_NUMBER = (1 << 63) - 1
NAME_CURSOR = "/"  # before the last name, which may be empty

PAGE_PARAMETERS = {
    "limit": f"how many at most (1 to {_MOST}, {_DEFAULT_LIMIT} if not given)",
    "cursor": "nextCursor of the page before",
}
LIST_PARAMETERS = {
    "owner": "only of this owner",
    "status": "only in this status, in any case; several separated by commas",
    "name": "only with this name",
    "tag": "only with this tag",
    "task": "only of this task",
    "startTime": "planned at or after this time (RFC 3339, or seconds or milliseconds since 1970)",
    "endTime": "planned before this time (RFC 3339, or seconds or milliseconds since 1970)",
    **PAGE_PARAMETERS,
}


def read_limit(query: Mapping[str, str]) -> int:
    """The page's size."""
    text = query.get("limit", str(_DEFAULT_LIMIT))
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= _MOST:
        raise BadInputError(f"must be a whole number from 1 to {_MOST}", field="limit")
    return int(text)


def read_cursor(query: Mapping[str, str]) -> UUID:
    """The id below which the page begins."""
    text = query.get("cursor")
    if text is None:
        return LAST_ID
    if not _CURSOR.fullmatch(text):
        raise BadInputError("is not a valid cursor; use the nextCursor of a list", field="cursor")
    return UUID(hex=text)


def read_name_cursor(query: Mapping[str, str]) -> str | None:
    """The name after which the page begins, of lists by name; None: at the first."""
    text = query.get("cursor")
    if text is None:
        return None
    if not text.startswith(NAME_CURSOR) or not text.isprintable():
        raise BadInputError("is not a valid cursor; use the nextCursor of a list", field="cursor")
    return text.removeprefix(NAME_CURSOR)


def read_number_cursor(query: Mapping[str, str]) -> int:
    """The number below which the page begins, of lists by number."""
    text = query.get("cursor")
    if text is None:
        return _LAST_NUMBER
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LAST_NUMBER)) - 1:
        raise BadInputError("is not a valid cursor; use the nextCursor of this list", field="cursor")
    return int(text)


def read_filter(
    query: Mapping[str, str], *, statuses: Any, since: datetime | None, until: datetime | None, only: str | None
) -> RunFilter:
    """The filter of a list; `since` and `until` are the default range, `only` the owner the caller is limited to."""
    start = read_moment(query, "startTime") or since
    end = read_moment(query, "endTime") or until
    return RunFilter(
        first=floor_id(start) if start else FIRST_ID,
        before=min(floor_id(end) if end else LAST_ID, read_cursor(query)),
        owner=owner_within(read_text(query, "owner"), only),
        statuses=_read_statuses(query, get_args(statuses)),
        name=read_text(query, "name"),
        tag=read_text(query, "tag"),
        task=read_text(query, "task"),
    )


def owner_within(wanted: str | None, only: str | None) -> str | None:
    """The owner to list: the requested one, if the caller may see it. No owner is called ''."""
    if only is None or wanted == only:
        return wanted
    return only if wanted is None else ""


def run_filter(query: Mapping[str, str], now: datetime, only: str | None) -> RunFilter:
    """Runs of the last 24 hours up to now; with an endTime or a status, the future as well."""
    future = "endTime" in query or "status" in query
    until = None if future else now + timedelta(seconds=1)
    return read_filter(query, statuses=RunStatusName, since=now - DEFAULT_RANGE, until=until, only=only)


def schedule_filter(query: Mapping[str, str], *, only: str | None) -> RunFilter:
    """Recurring jobs, whenever they were made."""
    return read_filter(query, statuses=JobStatusName, since=None, until=None, only=only)


def one_shot_filter(query: Mapping[str, str], *, since: datetime | None, only: str | None) -> RunFilter:
    """One-shot jobs; those planned before `since` are listed only with a startTime. Completed ones are successful."""
    found = read_filter(query, statuses=JobStatusName, since=since, until=None, only=only)
    if found.statuses and "completed" in found.statuses:
        return msgspec.structs.replace(found, statuses=[*found.statuses, "success"])
    return found


def read_text(query: Mapping[str, str], name: str) -> str | None:
    """A parameter that is compared with a name."""
    text = query.get(name)
    try:
        return None if text is None else msgspec.convert(text, StoredName)
    except msgspec.ValidationError:
        raise BadInputError("must have 1 to 200 printable characters", field=name) from None


def read_moment(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        # An unencoded plus in a query string arrives as a blank.
        moment = (
            moment_of(float(text)) if _NUMBER.fullmatch(text) else msgspec.convert(text.replace(" ", "+"), datetime)
        )
    except msgspec.ValidationError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadInputError("must be a time with an offset, such as 2030-01-31T09:30:00Z", field=name)
    return moment


def _read_rfc3339(text: str) -> datetime | None:
    try:
        # An unencoded plus in a query string arrives as a blank.
        return msgspec.convert(text.replace(" ", "+"), datetime)
    except msgspec.ValidationError:
        return None


def next_cursor(ids: list[UUID], limit: int) -> str | None:
    """The cursor after a page, if it may have a successor."""
    return ids[-1].hex if len(ids) == limit else None


def _read_statuses(query: Mapping[str, str], known: tuple[str, ...]) -> list[str] | None:
    text = query.get("status")
    if text is None:
        return None
    wanted = text.lower().split(",")
    if not set(wanted) <= set(known):
        raise BadInputError(f"must be one of {', '.join(known)}", field="status")
    return wanted
