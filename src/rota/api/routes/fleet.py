"""The fleet and the server itself: workers, shards, health and statistics."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rota.access.authorization import PUBLIC
from rota.api.backend import Backend
from rota.api.figures import RANGES, HistoryQuestion
from rota.api.operations import ApiRequest, Operation
from rota.api.paging import read_text
from rota.api.representations import show_shard, show_worker
from rota.contract.figures import FigureHistory
from rota.contract.fleet import Health, ShardList, Stats, WorkerList
from rota.domain.rights import EVERYWHERE, Right
from rota.errors import BadInputError

_WINDOW_SECONDS = 60
_LEAST_SECONDS = 10
_MOST_SECONDS = 600
_Window = Annotated[int, msgspec.Meta(ge=_LEAST_SECONDS, le=_MOST_SECONDS)]


@Operation("GET", "/v1/workers", Right.READ)
async def list_workers(services: Backend, call: ApiRequest) -> WorkerList:
    """List workers that serve the namespace, including those gone within the last hour."""
    namespace = None if EVERYWHERE in call.access.identity.grants else call.namespace
    rows = await services.fleet.workers(namespace)
    return WorkerList(items=[show_worker(row, namespace, whole=call.only is None) for row in rows])


@Operation("GET", "/v1/shards", Right.OPERATE)
async def list_shards(services: Backend, call: ApiRequest) -> ShardList:  # noqa: ARG001 - the shape of a handler
    """List shards and the scheduler that owns each."""
    return ShardList(items=[show_shard(row) for row in await services.fleet.shards()])


@Operation("GET", "/healthz", PUBLIC)
async def healthz(services: Backend, call: ApiRequest) -> Health:  # noqa: ARG001 - the shape of a handler
    """Liveness: the process answers."""
    return Health(status="ok")


@Operation("GET", "/readyz", PUBLIC, errors=(503,))
async def readyz(services: Backend, call: ApiRequest) -> Health:  # noqa: ARG001 - the shape of a handler
    """Readiness: the database answers."""
    await services.set_clock()
    return Health(status="ready")


@Operation(
    "GET",
    "/v1/stats",
    Right.READ,
    query={"windowSeconds": "the window of rates and lags in seconds, 10 to 600 (60 if not given)"},
)
async def stats(services: Backend, call: ApiRequest) -> Stats:
    """Counts, rates and lags of the namespace."""
    return await services.statistics.of(call.namespace, _window(call))


@Operation(
    "GET",
    "/v1/stats/history",
    Right.READ,
    query={
        "range": "how far back: 10m (in steps of 5 seconds), 1h or 24h (of a minute), 7d or 30d (of an hour)",
        "pool": "only of this pool",
        "task": "only of this task",
    },
)
async def stats_history(services: Backend, call: ApiRequest) -> FigureHistory:
    """The six figures of the namespace over time."""
    back, pool, task = call.query.get("range", "1h"), read_text(call.query, "pool"), read_text(call.query, "task")
    if back not in RANGES:
        raise BadInputError(f"must be one of {', '.join(RANGES)}", field="range")
    if pool is not None and task is not None:
        raise BadInputError("can't be given with pool", field="task")
    return await services.histories.of(HistoryQuestion(call.namespace, back, pool, task))


def _window(call: ApiRequest) -> int:
    given = call.query.get("windowSeconds", str(_WINDOW_SECONDS))
    try:
        return msgspec.convert(given, _Window, strict=False)
    except msgspec.ValidationError:
        words = f"must be whole seconds, {_LEAST_SECONDS} to {_MOST_SECONDS}"
        raise BadInputError(words, field="windowSeconds") from None


OPERATIONS = (list_workers, list_shards, healthz, readyz, stats, stats_history)
