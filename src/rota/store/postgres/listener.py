"""LISTEN on one dedicated connection. Notifications are wake-ups: everything also works, a little later, without.

The listener keeps trying to have its connection; `on_wake_up` is called for every notification and once after each
reconnect, since some may have been missed meanwhile. Behind a pooler in transaction mode LISTEN can't be had, so
there is no listener then (unless a direct URL is given for it) and all processes poll a little faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from rota.service import Service
from rota.store.postgres.address import advice, explain
from rota.store.postgres.database import CONNECT_SECONDS
from rota.store.postgres.session import set_session
from rota.telemetry import get_logger
from rota.time_limits import time_limit

_CHECK_SECONDS = 10.0
# Not in the start-up packet: a pooler in session mode would refuse it.
_SETTINGS = set_session({"idle_session_timeout": "0", "statement_timeout": "0"})
_log = get_logger("listener")


class Listener(Service):
    """Holds the LISTEN connection open and passes wake-ups on; a round is the life of one connection."""

    interval_seconds = 0.5
    jitter = 0

    def __init__(self, url: str, channels: Sequence[str], on_wake_up: Callable[[str, str], None]) -> None:
        super().__init__()
        self._url = url
        self._channels = channels
        self._on_wake_up = on_wake_up
        self.connected = False

    async def tick(self) -> int:
        """Listens until the connection is lost."""
        try:
            await self._listen()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            # A server that is away comes back; a certificate that is wrong stays wrong.
            say = _log.warning if advice(error) else _log.info
            say("not listening; polling meanwhile", error=explain(error))
        finally:
            self.connected = False
        return 0

    async def _listen(self) -> None:
        connection = await asyncpg.connect(self._url, timeout=CONNECT_SECONDS, command_timeout=CONNECT_SECONDS)
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _connection: closed.set())
        try:
            await connection.execute(_SETTINGS)
            for channel in self._channels:
                await connection.add_listener(channel, self._heard)
            self.connected = True
            for channel in self._channels:
                self._on_wake_up(channel, "")
            while not closed.is_set():
                with suppress(TimeoutError):
                    async with time_limit(_CHECK_SECONDS):
                        await closed.wait()
                    return
                await connection.execute("SELECT 1")
        finally:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    def _heard(self, _connection: Any, _pid: int, channel: str, payload: object) -> None:
        self._on_wake_up(channel, str(payload))
