"""Tasks of the chaos run. Each writes a line when it starts and one when it ends: the checker reads what ran."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import rota

app = rota.App("chaos")


def _note(what: str, context: rota.Context) -> None:
    line = {"what": what, "run": context.run_id, "attempt": context.attempt, "at": time.time(), "pid": os.getpid()}
    file = os.open(os.environ["CHAOS_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


@app.task(name="brief")
async def brief(context: rota.Context, seconds: float = 0.0) -> None:
    _note("start", context)
    await asyncio.sleep(seconds)
    _note("end", context)


@app.task(name="thread")
def thread(context: rota.Context, seconds: float = 0.0) -> None:
    _note("start", context)
    until = time.monotonic() + seconds
    while time.monotonic() < until and not context.cancelled:
        time.sleep(0.01)
    if not context.cancelled:
        _note("end", context)


@app.task(name="isolated", isolation="process")
def isolated(context: rota.Context, seconds: float = 0.0) -> None:
    _note("start", context)
    time.sleep(seconds)
    _note("end", context)


@app.task(name="flaky")
async def flaky(context: rota.Context, fails: int = 1) -> None:
    """Fails in its first attempts."""
    _note("start", context)
    if context.attempt <= fails:
        raise ValueError("fails as it should")
    _note("end", context)


@app.task(name="slow_first")
async def slow_first(context: rota.Context) -> None:
    """Exceeds its timeout in the first attempt."""
    _note("start", context)
    if context.attempt == 1:
        await asyncio.sleep(600)
    _note("end", context)


@app.task(name="snoozer")
async def snoozer(context: rota.Context) -> rota.Snooze | None:
    """Asks to run again later, twice; it counts in its checkpoint."""
    _note("start", context)
    rounds = context.last_checkpoint or 0
    if rounds < 2:
        context.checkpoint(rounds + 1)
        return rota.Snooze(0.3)
    _note("end", context)
    return None


@app.task(name="charge", transactional=True)
async def charge(context: rota.Context) -> None:
    """Charges in the transaction that carries the run's completion."""
    _note("start", context)
    await context.connection.execute("INSERT INTO public.ledger (run) VALUES ($1)", context.run_id)
    await asyncio.sleep(0.01)
    _note("end", context)


def _is_healed(flow: str) -> bool:
    return Path(f"{os.environ['CHAOS_NOTES']}.{flow}.healed").exists()


@app.task(name="node")
async def node(context: rota.Context, flow: str, fails: bool = False, flaky: int = 0, seconds: float = 0.0) -> int:
    """A node of a workflow. It fails for good until its workflow is healed, or in its first attempts."""
    _note("start", context)
    await asyncio.sleep(seconds)
    if fails and not _is_healed(flow):
        raise rota.Final("fails as it should")
    if context.attempt <= flaky:
        raise ValueError("fails as it should")
    _note("end", context)
    return context.attempt


@app.task(name="adder")
async def adder(context: rota.Context, flow: str, fails: bool = False) -> dict[str, Any]:
    """Adds two nodes, of which the second fails if it is told to."""
    _note("start", context)
    options = {"task": "node", "maxRetries": 20, "retry": {"strategy": "fixed", "baseSeconds": 0.2}}
    first = options | {"payload": {"flow": flow}}
    second = options | {"payload": {"flow": flow, "fails": fails}, "after": ["first"]}
    _note("end", context)
    return {"$add": {"first": first, "second": second}, "$result": {"added": 2}}
