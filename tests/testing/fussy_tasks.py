"""Tasks that say which exceptions are worth another attempt, one for each way in which functions run."""

from __future__ import annotations

import os

import rota

app = rota.App("fussy-tasks")
rule = {"retries": 1, "retry_on": (ConnectionError, LookupError), "final_on": KeyError}
RAISED = {
    "connection refused": ConnectionRefusedError,  # of a class that is tried again
    "index": IndexError,
    "key": KeyError,  # final, though it is a LookupError
    "value": ValueError,
    "final": rota.Final,
}


def stumble(how: str) -> None:
    raise RAISED[how](how)


@app.task(name="on_the_loop", **rule)
async def on_the_loop(how: str) -> None:
    stumble(how)


@app.task(name="in_a_thread", **rule)
def in_a_thread(how: str) -> None:
    stumble(how)


@app.task(name="apart", isolation="process", **rule)
def apart(how: str) -> None:
    stumble(how)


@app.task(name="apart_async", isolation="process", **rule)
async def apart_async(how: str) -> None:
    stumble(how)


@app.task(name="crash", isolation="process", **rule)
def crash() -> None:
    os._exit(7)


@app.task(name="leave", **rule)
def leave() -> None:
    raise SystemExit(7)


@app.task(name="never", retries=3, retry_on=())
async def never() -> None:
    raise ConnectionError("away")


@app.task(name="mostly", retries=1, final_on=(ValueError, KeyError))
async def mostly(how: str) -> None:
    stumble(how)
