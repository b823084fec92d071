"""Writing to a run that may move while we look for it.

A statement sees every run in exactly one place, but the place it saw may be empty by the time it gets the row's lock,
and the new one is not in its snapshot. So a writer that found nothing looks again in a new statement, until it has
changed the run or found it finished. The run must move once for each repeat, so the loop is short; _LOOKS limits it in
case of a bug.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_LOOKS = 100


async def until_settled(look: Callable[[], Awaitable[bool]], *, pause_seconds: float = 0.005) -> bool:
    """Looks again and again until `look` says that nothing is left to do; whether it came to that within _LOOKS."""
    for _ in range(_LOOKS):
        if await look():
            return True
        await asyncio.sleep(pause_seconds)
    return False
