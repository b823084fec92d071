"""The second line of defence of admission: calls gates that were overlooked, and retries runs that were set aside.

Admission looks where it is called. Here one scheduler looks at all gates where runs wait, slowly: some hundred gates at
a time, and for a small share of the time. What it finds it calls (store/admit/overlooked.py). It should find nothing;
each find is logged, since it may mean that a call was lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.store.admit.overlooked import OverlookedGates
from rota.telemetry import get_logger

INSPECTING_SHARD = 0  # one scheduler is enough for the gates, which belong to no shard
SHARE = 0.05  # of the time, at most, is spent on looking
_ASIDE_SECONDS = 60.0
_ASIDE_PER_SHARD = 5
_log = get_logger("admission")


class GateInspector(ShardService):
    """Calls overlooked gates, in the scheduler that owns INSPECTING_SHARD; retries runs of its shards."""

    interval_seconds = 1.0

    def __init__(self, *, overlooked: OverlookedGates, **shared: Any) -> None:
        super().__init__(**shared)
        self._overlooked = overlooked
        self._cost_seconds = 0.0
        self._aside_at = -math.inf

    @property
    def pause_seconds(self) -> float:
        """Longer than usual where the look was costly, or nothing waits at any gate."""
        return max(super().pause_seconds, self._cost_seconds / SHARE)

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many gates it called."""
        began = time.monotonic()
        try:
            if began >= self._aside_at + _ASIDE_SECONDS:
                self._aside_at = began
                await self._overlooked.try_aside(owned, _ASIDE_PER_SHARD)
            called = await self._overlooked.call() if INSPECTING_SHARD in owned else set()
        finally:
            self._cost_seconds = time.monotonic() - began
        for gate in called:
            _log.debug("a gate was overlooked", namespace=gate.namespace, kind=gate.kind, key=gate.key)
        return len(called)
