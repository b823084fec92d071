"""The fleet and the server itself: workers, shards, health."""

from __future__ import annotations

from rota.access.authorization import PUBLIC
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.api.representations import show_shard, show_worker
from rota.contract.fleet import Health, ShardList, WorkerList
from rota.domain.rights import EVERYWHERE, Right


async def list_workers(services: Backend, call: ApiRequest) -> WorkerList:
    """Workers that serve the namespace, also those gone within the last hour; who is at home everywhere sees all."""
    namespace = None if EVERYWHERE in call.access.identity.grants else call.caller.namespace
    rows = await services.fleet.workers(namespace)
    return WorkerList(items=[show_worker(row, namespace, whole=call.only is None) for row in rows])


async def list_shards(services: Backend, call: ApiRequest) -> ShardList:  # noqa: ARG001 - the shape of a handler
    """Which scheduler looks after which shard."""
    return ShardList(items=[show_shard(row) for row in await services.fleet.shards()])


async def healthz(services: Backend, call: ApiRequest) -> Health:  # noqa: ARG001 - the shape of a handler
    """The process is there."""
    return Health(status="ok")


async def readyz(services: Backend, call: ApiRequest) -> Health:  # noqa: ARG001 - the shape of a handler
    """The database answers."""
    await services.set_clock()
    return Health(status="ready")


OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/workers",
        needs=Right.READ,
        handler=list_workers,
        summary="The fleet's workers",
        answer=WorkerList,
    ),
    Operation(
        method="GET",
        path="/v1/shards",
        needs=Right.OPERATE,
        handler=list_shards,
        summary="Who owns which shard",
        answer=ShardList,
    ),
    Operation(method="GET", path="/healthz", needs=PUBLIC, handler=healthz, summary="Alive?", answer=Health),
    Operation(
        method="GET",
        path="/readyz",
        needs=PUBLIC,
        handler=readyz,
        summary="Ready?",
        answer=Health,
        errors=(503,),
    ),
)
