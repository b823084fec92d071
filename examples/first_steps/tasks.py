"""Tasks of your own: plain functions, async or not.

Start Rota with them from this directory: rota up --app tasks:app
"""

from __future__ import annotations

import asyncio
import time

import rota

app = rota.App()


@app.task
async def greet(name: str, times: int = 1) -> str:
    """The payload's fields are the parameters; what is returned is kept as the run's result."""
    print(f"saying hello to {name}")  # what a run prints is its log
    await asyncio.sleep(0.1)
    return " ".join([f"Hello, {name}!"] * times)


@app.task(name="count")
def count(context: rota.Context, to: int = 10) -> int:
    """A synchronous function runs in a thread. It should look now and then whether it was asked to stop."""
    for number in range(to):
        if context.cancelled:
            return number  # it has stopped as it was asked to: the run is cancelled
        context.progress((number + 1) / to, f"at {number + 1}")
        time.sleep(0.1)
    return to


@app.task(name="charge")
async def charge(context: rota.Context, customer: str, cents: int) -> dict[str, str | int]:
    """A run may be executed more than once: hand its idempotency key to whatever must happen only once."""
    if cents <= 0:
        raise rota.Final("nothing to charge")  # failed, and trying again would not help
    return {"customer": customer, "cents": cents, "key": context.idempotency_key}
