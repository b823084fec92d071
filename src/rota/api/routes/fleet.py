"""The fleet and the server itself: workers, shards, health."""

from __future__ import annotations

from rota.api.operations import Call, Operation
from rota.api.services import Services
from rota.api.views import show_shard, show_worker
from rota.contract.fleet import Health, ShardList, WorkerList


async def list_workers(services: Services, call: Call) -> WorkerList:  # noqa: ARG001 - the shape of a handler
    """Live workers, and those gone within the last hour."""
    return WorkerList(items=[show_worker(row) for row in await services.workers.fleet()])


async def list_shards(services: Services, call: Call) -> ShardList:  # noqa: ARG001 - the shape of a handler
    """Which scheduler looks after which shard."""
    return ShardList(items=[show_shard(row) for row in await services.shards.owners()])


async def healthz(services: Services, call: Call) -> Health:  # noqa: ARG001 - the shape of a handler
    """The process is there."""
    return Health(status="ok")


async def readyz(services: Services, call: Call) -> Health:  # noqa: ARG001 - the shape of a handler
    """The database answers."""
    await services.set_clock()
    return Health(status="ready")


OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/workers",
        handler=list_workers,
        summary="The fleet's workers",
        answer=WorkerList,
    ),
    Operation(method="GET", path="/v1/shards", handler=list_shards, summary="Who owns which shard", answer=ShardList),
    Operation(method="GET", path="/healthz", handler=healthz, summary="Alive?", answer=Health, public=True),
    Operation(
        method="GET",
        path="/readyz",
        handler=readyz,
        summary="Ready?",
        answer=Health,
        public=True,
        errors=(503,),
    ),
)
