"""The fleet and the server itself: workers, shards, health, and what is going on in numbers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rota.access.authorization import PUBLIC
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.api.representations import show_shard, show_worker
from rota.contract.fleet import Health, ShardList, Stats, WorkerList
from rota.domain.rights import EVERYWHERE, Right
from rota.errors import BadInputError

_WINDOW_SECONDS = 60
_LEAST_SECONDS = 10
_MOST_SECONDS = 600
_Window = Annotated[int, msgspec.Meta(ge=_LEAST_SECONDS, le=_MOST_SECONDS)]


@Operation("GET", "/v1/workers", Right.READ, "The fleet's workers", answer=WorkerList)
async def list_workers(services: Backend, call: ApiRequest) -> WorkerList:
    """Workers that serve the namespace, also those gone within the last hour; who is at home everywhere sees all."""
    namespace = None if EVERYWHERE in call.access.identity.grants else call.caller.namespace
    rows = await services.fleet.workers(namespace)
    return WorkerList(items=[show_worker(row, namespace, whole=call.only is None) for row in rows])


@Operation("GET", "/v1/shards", Right.OPERATE, "Who owns which shard", answer=ShardList)
async def list_shards(services: Backend, call: ApiRequest) -> ShardList:  # noqa: ARG001 - the shape of a handler
    """Which scheduler looks after which shard."""
    return ShardList(items=[show_shard(row) for row in await services.fleet.shards()])


@Operation("GET", "/healthz", PUBLIC, "Alive?", answer=Health)
async def healthz(services: Backend, call: ApiRequest) -> Health:  # noqa: ARG001 - the shape of a handler
    """The process is there."""
    return Health(status="ok")


@Operation("GET", "/readyz", PUBLIC, "Ready?", answer=Health, errors=(503,))
async def readyz(services: Backend, call: ApiRequest) -> Health:  # noqa: ARG001 - the shape of a handler
    """The database answers."""
    await services.set_clock()
    return Health(status="ready")


@Operation(
    "GET",
    "/v1/stats",
    Right.READ,
    "What waits, what runs, how fast and how late, in numbers",
    answer=Stats,
    query={"windowSeconds": "rates and lags over so many seconds, 10 to 600 (60)"},
)
async def stats(services: Backend, call: ApiRequest) -> Stats:
    """Counts, rates and lags of the whole namespace: numbers of all, no one job."""
    return await services.statistics.of(call.caller.namespace, _window(call))


def _window(call: ApiRequest) -> int:
    given = call.query.get("windowSeconds", str(_WINDOW_SECONDS))
    try:
        return msgspec.convert(given, _Window, strict=False)
    except msgspec.ValidationError:
        words = f"must be whole seconds, {_LEAST_SECONDS} to {_MOST_SECONDS}"
        raise BadInputError(words, field="windowSeconds") from None


OPERATIONS = (list_workers, list_shards, healthz, readyz, stats)
