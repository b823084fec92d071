"""Loops that go on whatever happens in one turn of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rota.telemetry import get_logger

AGAIN_SECONDS = 0.2
_log = get_logger("worker")


async def keep_going(loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A fault in one loop must not take down the runs of the whole worker: it is logged, and the loop goes on."""
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001 - logged whole
            _log.exception("a loop of the worker failed and goes on", loop=loop.__qualname__)
            await asyncio.sleep(AGAIN_SECONDS)
