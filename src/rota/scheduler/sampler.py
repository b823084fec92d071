"""Takes samples of what waits, runs and is blocked, for history and autoscalers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rota.domain.figures import PORTION
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.measure import FigureWriter

_IDLE_SECONDS = 20.0
_SHARE = 0.02  # of the time, at most, is spent on looking


class Sampler(ShardService):
    """Looks once in five seconds, in the scheduler that owns SWEEPING_SHARD; less often where there are no runs.

    Two that look at once write one sample.
    """

    interval_seconds = PORTION.total_seconds()
    jitter = 0  # one look in each portion, not two and none

    def __init__(self, *, figures: FigureWriter, **shared: Any) -> None:
        super().__init__(**shared)
        self._figures = figures
        self._is_idle = False
        self._cost_seconds = 0.0

    @property
    def pause_seconds(self) -> float:
        """Until the middle of the next portion; longer where nothing goes on, or the look was costly."""
        pause = max(_IDLE_SECONDS if self._is_idle else self.interval_seconds, self._cost_seconds / _SHARE)
        portion = self.interval_seconds
        return pause - (time.time() - portion / 2) % portion

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns in how many namespaces and pools there were runs."""
        if SWEEPING_SHARD not in owned:
            return 0
        began = time.monotonic()
        try:
            sample = await self._figures.sample()
        finally:
            self._cost_seconds = time.monotonic() - began
        self._is_idle = not sample.active
        return sample.active
