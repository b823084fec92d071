"""Pools: what is paused, how much may wait."""

from __future__ import annotations

import msgspec

from rota.access.audit import difference
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.contract.fields import PoolName
from rota.contract.fleet import PoolIn, PoolList, PoolOut
from rota.domain.rights import Right
from rota.errors import BadInputError, NotFoundError


@Operation("GET", "/v1/pools", Right.READ, "The pools", answer=PoolList)
async def list_pools(services: Backend, call: ApiRequest) -> PoolList:
    """The pools of the namespace."""
    return PoolList(items=await _pools(services, call.caller.namespace))


@Operation("PUT", "/v1/pools/{pool}", Right.OPERATE, "Limit how much may wait in a pool", body=PoolIn, answer=PoolOut)
async def change_pool(services: Backend, call: ApiRequest) -> PoolOut:
    """Says how much may wait in a pool."""
    namespace, pool = call.caller.namespace, _pool(call)
    wanted: PoolIn = decode(call.body, PoolIn)
    before = [found for found in await _pools(services, namespace) if found.pool == pool]
    await services.changes.limit_pool(namespace, pool, wanted.most_waiting)
    services.gateway.backlog.wake()
    after = await _pool_of(services, namespace, pool)
    call.change = difference(before[0] if before else None, after)
    return after


@Operation(
    "POST", "/v1/pools/{pool}/pause", Right.OPERATE, "Pause a pool: nothing more is started from it", answer=PoolOut
)
async def pause_pool(services: Backend, call: ApiRequest) -> PoolOut:
    """Nothing more is started from a paused pool; what runs goes on."""
    return await _set_paused(services, call, paused=True)


@Operation("POST", "/v1/pools/{pool}/resume", Right.OPERATE, "Resume a paused pool", answer=PoolOut)
async def resume_pool(services: Backend, call: ApiRequest) -> PoolOut:
    """Lets a paused pool go on."""
    return await _set_paused(services, call, paused=False)


async def _set_paused(services: Backend, call: ApiRequest, *, paused: bool) -> PoolOut:
    namespace, pool = call.caller.namespace, _pool(call)
    await services.changes.pause_pool(namespace, pool, paused=paused)
    return await _pool_of(services, namespace, pool)


async def _pools(services: Backend, namespace: str) -> list[PoolOut]:
    rows = await services.fleet.pools(namespace)
    return [
        PoolOut(
            pool=row["pool"],
            status="paused" if row["paused_at"] else "open",
            paused_time=row["paused_at"],
            workers=row["workers"],
            slots=row["slots"],
            most_waiting=row["most_waiting"],
        )
        for row in rows
    ]


async def _pool_of(services: Backend, namespace: str, pool: str) -> PoolOut:
    for found in await _pools(services, namespace):
        if found.pool == pool:
            return found
    raise NotFoundError("there is no such pool")


def _pool(call: ApiRequest) -> str:
    try:
        return msgspec.convert(call.path["pool"], PoolName)
    except msgspec.ValidationError:
        raise BadInputError("is not the name of a pool", field="pool") from None


OPERATIONS = (list_pools, change_pool, pause_pool, resume_pool)
