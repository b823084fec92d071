"""Pools: list, limit, scale, pause, resume."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.access.audit import difference
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.pool_loads import SCALE_PARAMETERS, read_scale
from rota.contract.fields import PoolName
from rota.contract.figures import PoolScale
from rota.contract.fleet import PoolIn, PoolList, PoolOut
from rota.domain.rights import Right
from rota.errors import BadInputError


@Operation("GET", "/v1/pools", Right.READ)
async def list_pools(services: Backend, call: ApiRequest) -> PoolList:
    """List pools."""
    return PoolList(items=[_show(row) for row in await services.fleet.pools(call.namespace)])


@Operation("PUT", "/v1/pools/{pool}", Right.OPERATE, body=PoolIn)
async def change_pool(services: Backend, call: ApiRequest) -> PoolOut:
    """Limit how many runs may wait in a pool."""
    namespace, pool = call.namespace, _pool(call)
    wanted: PoolIn = decode(call.body, PoolIn)
    before, after = await services.changes.limit_pool(namespace, pool, wanted.most_waiting)
    services.gateway.backlog.wake()
    shown = _show(after)
    call.change = difference(before and _show(before), shown)
    return shown


@Operation("GET", "/v1/pools/{pool}/scale", Right.READ, query=SCALE_PARAMETERS)
async def scale_pool(services: Backend, call: ApiRequest) -> PoolScale:
    """How many workers a pool needs to start its runs within the target lag, for autoscalers."""
    return await services.pool_loads.scale(call.namespace, _pool(call), read_scale(call.query))


@Operation("POST", "/v1/pools/{pool}/pause", Right.OPERATE)
async def pause_pool(services: Backend, call: ApiRequest) -> PoolOut:
    """Pause a pool: no more runs start, running ones continue."""
    return await _set_paused(services, call, paused=True)


@Operation("POST", "/v1/pools/{pool}/resume", Right.OPERATE)
async def resume_pool(services: Backend, call: ApiRequest) -> PoolOut:
    """Resume a paused pool."""
    return await _set_paused(services, call, paused=False)


async def _set_paused(services: Backend, call: ApiRequest, *, paused: bool) -> PoolOut:
    return _show(await services.changes.pause_pool(call.namespace, _pool(call), paused=paused))


def _show(row: Any) -> PoolOut:
    return PoolOut(
        pool=row["pool"],
        status="paused" if row["paused_at"] else "open",
        paused_time=row["paused_at"],
        workers=row["workers"],
        slots=row["slots"],
        most_waiting=row["most_waiting"],
    )


def _pool(call: ApiRequest) -> str:
    try:
        return msgspec.convert(call.path["pool"], PoolName)
    except msgspec.ValidationError:
        raise BadInputError("is not the name of a pool", field="pool") from None


OPERATIONS = (list_pools, change_pool, scale_pool, pause_pool, resume_pool)
