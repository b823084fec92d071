"""What tests share: one way of waiting, and short names for common steps."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

DEADLINE_SECONDS = 30.0


async def eventually(check: Callable[[], Any], *, within: float = DEADLINE_SECONDS, every: float = 0.02) -> Any:
    """Waits until `check` (async or not) gives something true, and returns that; fails with what it gave last."""
    deadline = time.monotonic() + within
    while True:
        found = check()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {within} s; last seen: {found!r}")
        await asyncio.sleep(every)


def job(**fields: Any) -> dict[str, Any]:
    """The body of a submission, with defaults."""
    return {"name": "test", "scheduleType": "immediate", "task": "rota.echo"} | fields
