"""Tasks that the scenarios run. Whoever wants to know what really ran reads the file named in the payload."""

from __future__ import annotations

import asyncio
import os
import random
import time

import rota

app = rota.App()


@app.task(name="note")
async def note(context: rota.Context, file: str, seconds: float = 0.0, first_seconds: float | None = None) -> None:
    """Notes its start, lasts a while, notes its end; the first attempt may last longer than the others."""
    _write(file, f"start {context.run_id} {context.attempt}")
    await asyncio.sleep(seconds if first_seconds is None or context.attempt > 1 else first_seconds)
    _write(file, f"end {context.run_id} {context.attempt}")


@app.task(name="note_sync")
def note_sync(context: rota.Context, file: str, seconds: float = 0.0) -> str:
    """The same in a thread; stops when it is asked to."""
    _write(file, f"start {context.run_id} {context.attempt}")
    until = time.monotonic() + seconds
    while time.monotonic() < until and not context.cancelled:
        time.sleep(0.01)
    _write(file, f"end {context.run_id} {context.attempt}")
    return "asked to stop" if context.cancelled else "done"


@app.task(name="hold")
async def hold(file: str) -> None:
    """Lasts until there is this file."""
    while not os.path.exists(file):  # noqa: ASYNC110, ASYNC240, PTH110 - what comes is a file
        await asyncio.sleep(0.1)


@app.task(name="stubborn")
def stubborn(file: str) -> None:
    """Never looks whether it was asked to stop."""
    _write(file, "start")
    time.sleep(120)


@app.task(name="flaky")
async def flaky(context: rota.Context, fails: int = 1) -> int:
    """Fails this many attempts, then succeeds."""
    if context.attempt <= fails:
        raise ValueError(f"attempt {context.attempt} fails")
    return context.attempt


@app.task(name="charge", transactional=True, retries=100, retry=rota.Retry(strategy="fixed", base_seconds=0.1))
async def charge(context: rota.Context, account: int, cents: int) -> int:
    """Charges an account in the transaction that carries the run's completion; now and then it fails after that."""
    charge = "INSERT INTO ledger (run, account, cents) VALUES ($1, $2, $3)"
    await context.connection.execute(charge, context.run_id, account, cents)
    await asyncio.sleep(0.02)
    if random.random() < 0.1:
        raise ValueError("after the charge, before the end")
    return cents


@app.task(name="charge_sync", transactional=True, retries=100, retry=rota.Retry(strategy="fixed", base_seconds=0.1))
def charge_sync(context: rota.Context, account: int, cents: int) -> int:
    """The same in a thread, on psycopg's connection."""
    context.connection.execute(
        "INSERT INTO ledger (run, account, cents) VALUES (%s, %s, %s)", (context.run_id, account, cents)
    )
    time.sleep(0.02)
    return cents


def _write(file: str, line: str) -> None:
    with open(file, "a") as notes:  # noqa: PTH123 - one write, one line
        notes.write(line + "\n")
