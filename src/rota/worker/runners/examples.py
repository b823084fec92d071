"""Built-in example tasks, so that a first try needs no code: rota.sleep, rota.echo, rota.fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rota.task.context import Context, Final

STEPS = 20


async def sleep(context: Context, seconds: float = 1.0) -> dict[str, float]:
    """Sleeps, and reports progress."""
    for step in range(STEPS):
        context.progress(step / STEPS)
        await asyncio.sleep(seconds / STEPS)
    return {"slept": seconds}


async def echo(**payload: Any) -> dict[str, Any]:
    """Returns its payload."""
    return payload


async def fail(
    context: Context, message: str = "failed as asked", until_attempt: int | None = None, final: bool = False
) -> str:
    """Fails; `until_attempt` makes it succeed from that attempt on, `final` prevents retries."""
    if until_attempt is not None and context.attempt >= until_attempt:
        return f"succeeded at attempt {context.attempt}"
    if final:
        raise Final(message)
    raise RuntimeError(message)


EXAMPLES: dict[str, Callable[..., Any]] = {"rota.sleep": sleep, "rota.echo": echo, "rota.fail": fail}
