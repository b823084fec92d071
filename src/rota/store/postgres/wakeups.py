"""NOTIFY, at most once per payload per tick, after commit and in a transaction of its own."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from rota.errors import DatabaseUnavailableError
from rota.store.postgres.database import Database
from rota.telemetry import get_logger

TICK_SECONDS = 0.005
_log = get_logger("notifier")


class Notifier:
    """Gathers hints and sends them together. One that can't be sent is dropped: receivers also look by themselves."""

    def __init__(self, database: Database, *, enabled: bool = True) -> None:
        self._database = database
        self._enabled = enabled
        self._pending: dict[str, set[str]] = defaultdict(set)
        self._flusher: asyncio.Task[None] | None = None

    def hint(self, channel: str, payload: str = "") -> None:
        """Sends this hint within a tick, once however often it is asked for."""
        if not self._enabled:
            return
        self._pending[channel].add(payload)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush(), name="notifier")

    async def _flush(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, defaultdict(set)
            for channel, payloads in pending.items():
                try:
                    await self._database.notify(channel, sorted(payloads))
                except DatabaseUnavailableError as error:
                    _log.debug("hint not sent", channel=channel, error=str(error))
            await asyncio.sleep(TICK_SECONDS)
