"""Writes the history of the figures: minutes and hours that are over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rota.domain.figures import MINUTE
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.measure import GRACE, FigureWriter

_LEAST_PAUSE_SECONDS = 5.0


class Recorder(ShardService):
    """Rolls up once a minute, in the scheduler that owns SWEEPING_SHARD.

    Which minutes are due is for the database to say: a wrong clock here only makes them late. The next round of a
    scheduler that takes over writes what its predecessor left.
    """

    interval_seconds = MINUTE.total_seconds()
    jitter = 0

    def __init__(self, *, figures: FigureWriter, **shared: Any) -> None:
        super().__init__(**shared)
        self._figures = figures

    @property
    def pause_seconds(self) -> float:
        """Until the next minute is due."""
        into = (time.time() - GRACE.total_seconds() - 1) % self.interval_seconds
        return max(self.interval_seconds - into, _LEAST_PAUSE_SECONDS)

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many minutes and hours were written."""
        if SWEEPING_SHARD not in owned:
            return 0
        written = await self._figures.roll_up()
        await self._figures.forget()
        return written
