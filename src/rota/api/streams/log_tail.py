"""Following the logs of all runs of a namespace, or of those that a filter lets through.

No index has chunks in the order in which they come: every line of every run would have to be entered there. Instead,
each look finds the few runs that may have written since the last one, and asks for their new chunks. If there are many,
a look takes the next page of them, so that no run is passed over for long because of newer ones.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from rota.domain.ids import LAST_ID, floor_id
from rota.store.logs import Logs
from rota.store.logs.blocks import LogBlocks, LogFilter

LOOK_SECONDS = 0.25
_RECENT_SECONDS = 10.0  # how long after its end a run is still looked at; looks may fail meanwhile
_PLANNED_WITHIN = timedelta(minutes=1)
_CHUNKS_PER_LOOK = 20
_MOST_RUNS = 500
_MOST_REMEMBERED = 20_000
_EVERYTHING = LogFilter()


class LogTail:
    """What one follower has seen. `after`: the highest position that it has, if it was cut off."""

    def __init__(self, logs: Logs, blocks: LogBlocks, namespace: str, wanted: LogFilter, after: int | None) -> None:
        self._logs = logs
        self._blocks = blocks
        self._namespace = namespace
        self._wanted = wanted
        self._base = after
        self._before = LAST_ID  # where the next page begins
        self._positions: OrderedDict[UUID, int] = OrderedDict()

    async def look(self, now: datetime) -> list[tuple[UUID, Any]]:
        """The chunks that came since the last look, each with its run, in order; the first look has none."""
        if self._base is None:
            await self._begin(now)
            return []
        run_ids = await self._page(now)
        wanted = [(self._namespace, run_id, self._positions.get(run_id, self._base)) for run_id in run_ids]
        rows = [row for row in await self._logs.tail(wanted, _CHUNKS_PER_LOOK) if row["position"] is not None]
        chunks = [(run_ids[row["n"] - 1], row) for row in sorted(rows, key=lambda row: row["position"])]
        for run_id, row in chunks:
            self._positions[run_id] = row["position"]
            self._positions.move_to_end(run_id)
        self._forget()
        return chunks

    async def _begin(self, now: datetime) -> None:
        """Finds out where all of them are."""
        for _ in range(_MOST_REMEMBERED // _MOST_RUNS):
            self._positions.update(await self._logs.last_positions(self._namespace, await self._page(now)))
            if self._before == LAST_ID:
                break
        self._base = max(self._positions.values(), default=0)

    async def _page(self, now: datetime) -> list[UUID]:
        """The next runs that may have written, and that the follower may see."""
        first = floor_id(now - _PLANNED_WITHIN)
        run_ids = await self._logs.recent(self._namespace, first, self._before, _RECENT_SECONDS, _MOST_RUNS)
        self._before = run_ids[-1] if len(run_ids) == _MOST_RUNS else LAST_ID
        if self._wanted != _EVERYTHING:
            seen = await self._blocks.matching(self._namespace, run_ids, self._wanted)
            return [run_id for run_id in run_ids if run_id in seen]
        return run_ids

    def _forget(self) -> None:
        while len(self._positions) > _MOST_REMEMBERED:
            self._positions.popitem(last=False)
