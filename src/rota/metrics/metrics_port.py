"""`GET /metrics` on a port of the process: ROTA_METRICS_PORT.

Metrics must never keep a process from its work: if the port is taken, it is tried again until it is free. So a worker
that replaces another takes over its port when the other has drained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.errors import SetupError
from rota.metrics.exposition import CONTENT_TYPE
from rota.page_server import OK, PageServer, ServedPage
from rota.service import Service

_TRY_AGAIN_SECONDS = 1.0


class MetricsPort(Service):
    """Serves the text that `read` makes, in threads of its own."""

    interval_seconds = _TRY_AGAIN_SECONDS

    def __init__(self, host: str, port: int, read: Callable[[], bytes]) -> None:
        super().__init__()
        self._host = host
        self._port = port
        self._read = read
        self.server: PageServer | None = None

    @property
    def pause_seconds(self) -> float | None:
        """It rests once it listens."""
        return None if self.server else self.interval_seconds

    async def open(self) -> None:
        """Listens; raises SetupError while it can't, and is called again."""
        pages = {"/metrics": lambda: ServedPage(self._read(), OK, CONTENT_TYPE)}
        try:
            self.server = PageServer(self._host, self._port, pages, name="rota-metrics")
        except OSError as error:
            words = f"ROTA_METRICS_PORT: port {self._port} on {self._host} can't be used ({error}); trying again"
            raise SetupError(words) from None
        self.server.start()

    async def tick(self) -> int:
        """Threads do the work."""
        return 0

    async def close(self) -> None:
        if self.server:
            await asyncio.to_thread(self.server.stop)  # its threads take a moment
