"""A heartbeat to a monitor outside of the installation, because nobody reports their own death.

It is sent only while all is well: schedules fire on time, and the database can be written to. The monitor raises the
alarm when it stays away. The address is a secret: who knows it can pretend that all is well. It is never logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import aiohttp

from rota.errors import SetupError
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.alert.measures import OverdueCounts
from rota.telemetry import get_logger

_TIMEOUT_SECONDS = 10.0
_SUCCESS = range(200, 300)
# One schedule that can't be fired is told by its own alert. Where so large a part of all is overdue, firing has failed.
_MOST_OVERDUE = 0.1
# Two schedulers, one of which has just taken over, send one heartbeat.
_SHORTEST_PAUSE = 0.5
_log = get_logger("heartbeat")


def check_address(url: str) -> None:
    """Raises SetupError for what can't be called. It is not shown: it is a secret."""
    if not url.startswith(("https://", "http://")):
        raise SetupError("ROTA_HEARTBEAT_URL must begin with https:// or http://")


class OutsideHeartbeat(ShardService):
    """Calls the monitor, in the scheduler that owns SWEEPING_SHARD."""

    def __init__(self, *, url: str, seconds: float, counts: OverdueCounts, **shared: Any) -> None:
        super().__init__(**shared)
        self.interval_seconds = seconds
        check_address(url)
        self._url = url
        self._counts = counts
        self._trouble: str | None = None  # why the last one was not sent

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns whether a heartbeat was sent."""
        if SWEEPING_SHARD not in owned:
            return 0
        overdue, scheduled = await self._counts.count()
        late = sum(overdue.values())
        if late > scheduled * _MOST_OVERDUE:
            self._note(f"{late} of {scheduled} schedules are overdue")
            return 0
        if not await self._counts.note_heartbeat(timedelta(seconds=self.interval_seconds * _SHORTEST_PAUSE)):
            return 0
        self._note(trouble := await self._send())
        return int(trouble is None)

    async def _send(self) -> str | None:
        """Calls the monitor; returns what went wrong, without the address."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self._url, allow_redirects=False) as answer,
            ):
                return None if answer.status in _SUCCESS else f"the monitor answered {answer.status}"
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return f"the monitor can't be reached ({type(error).__name__})"

    def _note(self, trouble: str | None) -> None:
        if trouble != self._trouble and trouble is not None:
            _log.warning("no heartbeat to the outside monitor", reason=trouble)
        elif trouble is None and self._trouble is not None:
            _log.info("heartbeats to the outside monitor go on")
        self._trouble = trouble
