"""Retention policies, and the archive."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rota.access.audit import difference
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import PAGE_PARAMETERS, read_limit
from rota.contract.retention import (
    ArchiveList,
    ArchiveOut,
    ArchiveRound,
    ArchiveState,
    HistoryIn,
    HistoryOut,
    RestoreIn,
    RetentionIn,
    RetentionOut,
)
from rota.domain.retention import OUTCOMES, RetentionPolicy, days_of
from rota.domain.rights import Right
from rota.errors import BadInputError, ForbiddenError, NotFoundError
from rota.store.archive import decode_policy

_CURSOR = re.compile(r"[0-9]{6}([0-9]{2})?\.[0-9]{1,6}")
_LAST = ("99999999", 0)
_PERIOD = re.compile(r"[0-9]{6}([0-9]{2})?")


@Operation("GET", "/v1/retention", Right.READ)
async def get_retention(services: Backend, call: ApiRequest) -> RetentionOut:
    """Read how long things stay in this namespace."""
    return _show(await services.retention.get(call.namespace))


@Operation("PUT", "/v1/retention", Right.ADMINISTER, body=RetentionIn)
async def put_retention(services: Backend, call: ApiRequest) -> RetentionOut:
    """Set how long things stay in this namespace; what is not given stays for ever."""
    wanted: RetentionIn = decode(call.body, RetentionIn)
    before = _show(await services.retention.get(call.namespace))
    history = wanted.history or HistoryIn()
    others = {name: getattr(wanted, name) for name in RetentionIn.__struct_fields__ if name != "history"}
    policy = RetentionPolicy(**{outcome: getattr(history, outcome) for outcome in OUTCOMES}, **others)
    after = _show(await services.retention.put(call.namespace, policy, call.caller.owner))
    services.policies.forget()
    call.change = difference(before, after)
    return after


@Operation("GET", "/v1/archive", Right.ADMINISTER, query=PAGE_PARAMETERS, errors=(403,))
async def list_archives(services: Backend, call: ApiRequest) -> ArchiveList:
    """List the days that are archived or on their way, latest first. They are shared by all namespaces."""
    _check_everywhere(call)
    limit = read_limit(call.query)
    rows = await services.archives.find_page(*_read_cursor(call), limit)
    items = [
        ArchiveOut(
            day=row["period"],
            number=row["number"],
            state=row["state"],
            runs=row["runs"],
            left_out=row["left_out"],
            bytes=row["bytes"],
            error=row["error"],
            restored_until=row["restored_until"],
            created_at=row["created_at"],
            changed_time=row["changed_at"],
        )
        for row in rows
    ]
    return ArchiveList(items=items, next_cursor=_cursor(rows[-1]) if len(rows) == limit else None)


@Operation("POST", "/v1/archive/now", Right.ADMINISTER, status=202, errors=(403,))
async def archive_now(services: Backend, call: ApiRequest) -> ArchiveRound:
    """Have a scheduler look now for days whose retention is over; it does so every minute by itself."""
    _check_everywhere(call)
    services.database.wake(archive=True)
    waiting = await services.archives.open()
    oldest = min((days_of(task.period)[0] for task in waiting), default=None)
    return ArchiveRound(waiting=len(waiting), oldest=oldest)


@Operation("POST", "/v1/archive/{day}/restore", Right.ADMINISTER, body=RestoreIn, status=202, errors=(403, 404, 409))
async def restore_archive(services: Backend, call: ApiRequest) -> ArchiveState:
    """Bring an archived day back into the database, for a while."""
    _check_everywhere(call)
    wanted: RestoreIn = decode(call.body, RestoreIn)
    day = call.path["day"]
    if not _PERIOD.fullmatch(day):
        raise NotFoundError("there is no such archive")
    state = await services.archives.ask_restore(day, wanted.days)
    services.database.wake(archive=True)
    return ArchiveState(day=day, state=state)


def _check_everywhere(call: ApiRequest) -> None:
    if not call.access.identity.rules_everywhere:
        raise ForbiddenError("days are shared by all namespaces: only an admin of all namespaces may do this")


def _show(row: Any) -> RetentionOut:
    policy = decode_policy(row["policy"]) if row else RetentionPolicy()
    fields = msgspec.structs.asdict(policy)
    history = HistoryOut(**{outcome: fields.pop(outcome) for outcome in OUTCOMES})
    if row is None:
        return RetentionOut(history=history, **fields)
    return RetentionOut(history=history, **fields, changed_by=row["changed_by"], changed_time=row["changed_at"])


def _cursor(row: Any) -> str:
    return f"{row['period']}.{row['number']}"


def _read_cursor(call: ApiRequest) -> tuple[str, int]:
    """The archive below which the page begins."""
    text = call.query.get("cursor")
    if text is None:
        return _LAST
    if not _CURSOR.fullmatch(text):
        raise BadInputError("is not a valid cursor; use the nextCursor of a list", field="cursor")
    period, _, number = text.partition(".")
    return period, int(number)


OPERATIONS = (get_retention, put_retention, list_archives, archive_now, restore_archive)
