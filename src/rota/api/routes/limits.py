"""Limits: rates of requests and jobs, backlog, and sizes."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import NAME_CURSOR, PAGE_PARAMETERS, read_limit, read_name_cursor
from rota.contract.access import LimitsIn, LimitsList, LimitsOut
from rota.contract.fields import StoredName
from rota.domain.limits import WHOLE, Limits, Rate, rate_of
from rota.domain.rights import Right
from rota.errors import BadInputError, ForbiddenError

_FIELDS = Limits.__struct_fields__


@Operation("GET", "/v1/limits", Right.OPERATE, query=PAGE_PARAMETERS)
async def list_limits(services: Backend, call: ApiRequest) -> LimitsList:
    """List the limits of the namespace, its owners and keys, with what is left of them."""
    limit = read_limit(call.query)
    rows = await services.limit_table.find(
        call.namespace, read_name_cursor(call.query), limit, with_unlimited=services.gateway.limits.has_defaults
    )
    cursor = f"{NAME_CURSOR}{rows[-1]['subject']}" if len(rows) == limit else None
    return LimitsList(items=[_show(services, row, with_use=True) for row in rows], next_cursor=cursor)


@Operation("PUT", "/v1/limits", Right.ADMINISTER, body=LimitsIn)
async def change_limits(services: Backend, call: ApiRequest) -> LimitsOut:
    """Change the limits of the whole namespace."""
    if not call.access.identity.rules_everywhere:
        raise ForbiddenError("only an admin of all namespaces may set the limits of a whole namespace")
    return await _change(services, call, WHOLE)


@Operation("PUT", "/v1/limits/{subject}", Right.ADMINISTER, body=LimitsIn)
async def change_limits_of(services: Backend, call: ApiRequest) -> LimitsOut:
    """Change the limits of a key or an owner."""
    try:
        subject = msgspec.convert(call.path["subject"], StoredName)
    except msgspec.ValidationError:
        raise BadInputError("must have 1 to 200 printable characters", field="subject") from None
    return await _change(services, call, subject)


async def _change(services: Backend, call: ApiRequest, subject: str) -> LimitsOut:
    wanted: LimitsIn = decode(call.body, LimitsIn)
    given = {name: getattr(wanted, name) for name in _FIELDS}
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    if not changes:
        raise BadInputError("give at least one limit to change")
    row = await services.gateway.limits.change(call.namespace, subject, changes)
    services.gateway.backlog.wake()
    return _show(services, row, with_use=False)


def _show(services: Backend, row: Any, *, with_use: bool) -> LimitsOut:
    shown = LimitsOut(
        subject=row["subject"] or None, changed_time=row["changed_at"], **{name: row[name] for name in _FIELDS}
    )
    requests = rate_of(shown.requests_per_second, shown.request_burst)
    jobs = rate_of(shown.jobs_per_second, shown.job_burst)
    shown.request_burst = requests.burst if requests else shown.request_burst
    shown.job_burst = jobs.burst if jobs else shown.job_burst
    if with_use:
        shown.requests_left = _left(requests, row["request_tokens"], row["requests_counted_ago"])
        shown.jobs_left = _left(jobs, row["job_tokens"], row["jobs_counted_ago"])
        shown.waiting = services.gateway.backlog.waiting(row["namespace"], row["subject"])
    return shown


def _left(rate: Rate | None, tokens: float | None, counted_ago: float | None) -> int | None:
    """The tokens in a bucket now; an unused one is full."""
    if rate is None:
        return None
    if tokens is None or counted_ago is None:
        return rate.burst
    return int(min(rate.burst, tokens + rate.per_second * max(0.0, counted_ago)))


OPERATIONS = (list_limits, change_limits, change_limits_of)
