"""Tasks that say which exceptions are worth another attempt, one for each way in which functions run."""

from __future__ import annotations

import asyncio
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


async def stumble_together(hows: list[str]) -> None:
    async def stumble_over(how: str) -> None:
        stumble(how)

    async with asyncio.TaskGroup() as group:
        for how in hows:  # all of them raise in one round of the loop: none is cancelled because of another
            group.create_task(stumble_over(how))


@app.task(name="grouped", **rule)
async def grouped(hows: list[str]) -> None:
    await stumble_together(hows)


@app.task(name="grouped_apart", isolation="process", **rule)
async def grouped_apart(hows: list[str]) -> None:
    await stumble_together(hows)


@app.task(name="deep", retries=1, retry_on=ConnectionError)
def deep() -> None:
    problem: Exception = ConnectionError("away")
    for _ in range(20_000):
        problem = ExceptionGroup("several", [problem])
    raise problem


@app.task(name="of_groups", retries=1, retry_on=ExceptionGroup)
def of_groups(how: str) -> None:
    raise ExceptionGroup("several", [RAISED[how](how)])


@app.task(name="without_rule", retries=1)
async def without_rule(hows: list[str]) -> None:
    await stumble_together(hows)


@app.task(name="mostly", retries=1, final_on=(ValueError, KeyError))
async def mostly(how: str) -> None:
    stumble(how)
