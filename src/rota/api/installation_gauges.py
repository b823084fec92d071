"""Gauges of the whole installation, read when an API server is asked for its metrics.

A look is kept for some seconds: however many scrapers ask, the database is asked once. Nothing is asked while no one
looks. If the database does not answer, the gauges disappear: no number is better than an old one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable

from rota.errors import RotaError
from rota.metrics.catalogue import Metrics
from rota.metrics.instruments import Labels
from rota.store.read.installation import Installation, InstallationCounts
from rota.telemetry import get_logger

FRESH_SECONDS = 10.0
_STATES = ("live", "draining", "ailing", "silent", "gone")
_log = get_logger("metrics")


class InstallationGauges:
    """Keeps the gauges of a process up to date."""

    def __init__(
        self, metrics: Metrics, installation: Installation, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._installation = installation
        self._monotonic = monotonic
        self._looked_at = -math.inf
        self._look: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Reads them anew if they are old; never fails."""
        now = self._monotonic()
        if self._look is None or (self._look.done() and now - self._looked_at > FRESH_SECONDS):
            self._looked_at = now
            self._look = asyncio.create_task(self._read())
        await asyncio.shield(self._look)

    async def _read(self) -> None:
        up = self._metrics.database_up.of()
        try:
            found = await self._installation.look()
        except RotaError as error:
            if up.value:
                _log.warning("the installation can't be counted: the database does not answer", error=str(error))
            up.value = 0
            self._show(InstallationCounts([], [], [], [], [], [], [], []))
            return
        up.value = 1
        self._show(found)

    def _show(self, found: InstallationCounts) -> None:
        show = self._metrics
        runs: Counter[Labels] = Counter()
        blocked: Counter[Labels] = Counter()
        for row in found.live:
            for status in ("queued", "running"):
                runs[row["namespace"], row["pool"], status] += row[status]
        for row in found.upcoming:
            for status in ("scheduled", "retrying"):
                runs[row["namespace"], row["pool"], status] += row[status]
        for row in found.held:
            runs[row["namespace"], row["pool"], "blocked"] += row["held"]
            blocked[row["namespace"], row["gate"]] += row["held"]
        states = dict.fromkeys(_STATES, 0) | Counter(row["status"] for row in found.workers)
        slots: dict[Labels, float] = {(row["namespace"], row["pool"]): row["slots"] for row in found.slots}
        running: dict[Labels, float] = {(row["namespace"], row["pool"]): row["running"] for row in found.live}
        show.runs.replace(runs)
        show.blocked.replace(blocked)
        oldest: dict[Labels, float] = {
            (row["namespace"], row["pool"]): max(0.0, row["oldest_seconds"] or 0.0) for row in found.live
        }
        show.oldest_queued.replace(oldest)
        show.pool_slots.replace(slots)
        show.pool_slots_used.replace(dict.fromkeys(slots, 0.0) | running)
        show.workers.replace({(state,): many for state, many in states.items()} if found.workers else {})
        show.dead_letters.replace({(row["namespace"],): row["letters"] for row in found.dead_letters})
        show.breakers.replace({(row["namespace"], row["state"]): row["breakers"] for row in found.breakers})
        show.overdue.replace({(row["namespace"],): row["overdue"] for row in found.overdue})
