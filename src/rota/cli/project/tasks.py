"""The tasks of this project: plain functions, async or not.

Start Rota with them from this directory: rota dev tasks:app
"""

from __future__ import annotations

import rota

app = rota.App("my-tasks")


@app.task
async def greet(name: str, times: int = 1) -> str:
    """The payload's fields are the parameters; what is returned is kept as the run's result."""
    print(f"saying hello to {name}")  # what a run prints is its log
    return " ".join([f"Hello, {name}!"] * times)


@app.task(retries=5, timeout="30s")
def charge(context: rota.Context, customer: str, cents: int) -> dict[str, str | int]:
    """A task that raises is retried; raise `rota.Final` if a retry would not help.

    A run may be executed more than once: hand its idempotency key to whatever must happen only once.
    """
    if cents <= 0:
        raise rota.Final("nothing to charge")
    return {"customer": customer, "cents": cents, "key": context.idempotency_key}


@app.cron("0 9 * * MON-FRI", timezone="Europe/Berlin")
@app.task
async def morning_report() -> str:
    """Runs on its own, at nine on every working day, wherever a worker with this code is running."""
    return "everything is fine"
