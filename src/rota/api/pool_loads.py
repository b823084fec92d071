"""What pools need, for autoscalers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

import msgspec

from rota.api.fresh_looks import FreshLooks
from rota.contract.figures import PoolScale
from rota.domain.scaling import MOST_WORKERS, PoolLoad, wanted_slots, wanted_workers
from rota.errors import BadInputError
from rota.store.measure import FigureReader

_FRESH_SECONDS = 1.0
_USUAL_SLOTS = 100  # of a worker, if none is there to ask
SCALE_PARAMETERS = {
    "targetLagSeconds": "within how many seconds runs should start, 0.1 to 3600 (5 if not given)",
    "slotsPerWorker": "slots of a worker, 1 to 10000 (if not given, of those that serve the pool, else 100)",
    "min": "the fewest workers, 0 to 10000",
    "max": "the most workers, 0 to 10000",
    "holdSeconds": "how long a need is remembered before fewer workers are wanted, 0 to 600 (120 if not given)",
}


class ScaleQuestion(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The parameters of the query."""

    target_lag_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=3600)] = 5.0
    slots_per_worker: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    min: Annotated[int, msgspec.Meta(ge=0, le=MOST_WORKERS)] = 0
    max: Annotated[int, msgspec.Meta(ge=0, le=MOST_WORKERS)] = MOST_WORKERS
    hold_seconds: Annotated[float, msgspec.Meta(ge=0, le=600)] = 120.0


def read_scale(query: Mapping[str, str]) -> ScaleQuestion:
    """The parameters; raises BadInputError naming the one that is wrong."""
    for name, text in query.items():
        try:
            msgspec.convert({name: text}, ScaleQuestion, strict=False)
        except msgspec.ValidationError:
            raise BadInputError(f"must be {SCALE_PARAMETERS[name]}", field=name) from None
    wanted = msgspec.convert(query, ScaleQuestion, strict=False)
    if wanted.min > wanted.max:
        raise BadInputError("is more than max", field="min")
    return wanted


class PoolLoads:
    """Measures pools, and keeps each result for a second."""

    def __init__(self, figures: FigureReader) -> None:
        self._figures = figures
        self._looks = FreshLooks(self._look, seconds=_FRESH_SECONDS)

    async def scale(self, namespace: str, pool: str, wanted: ScaleQuestion) -> PoolScale:
        """How many workers the pool needs."""
        return show_scale(await self._looks.of((namespace, pool, wanted.hold_seconds)), wanted)

    async def _look(self, question: tuple[str, str, float]) -> PoolLoad:
        namespace, pool, hold_seconds = question
        return await self._figures.pool_load(namespace, pool, timedelta(seconds=hold_seconds))


def show_scale(load: PoolLoad, wanted: ScaleQuestion) -> PoolScale:
    sizes: dict[str, Any] = {"target_seconds": wanted.target_lag_seconds}
    slots = wanted.slots_per_worker or (math.ceil(load.slots / load.workers) if load.workers else _USUAL_SLOTS)
    return PoolScale(
        wanted_workers=wanted_workers(load, **sizes, slots_per_worker=slots, least=wanted.min, most=wanted.max),
        wanted_slots=round(wanted_slots(load, **sizes), 3),
        queued=load.queued,
        running=load.running,
        slots=load.slots,
        workers=load.workers,
        oldest_queued_seconds=round(load.oldest_seconds, 3),
        mean_run_seconds=None if load.run_seconds is None else round(load.run_seconds, 6),
    )
