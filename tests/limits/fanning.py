"""An application whose tasks submit others."""

from __future__ import annotations

import asyncio

import rota
from rota.errors import FanOutError

app = rota.App("fanning")


@app.task(name="leaf")
async def leaf() -> None: ...


@app.task(name="fan")
async def fan(counts: list[int], key: str | None = None) -> None:
    for count in counts:
        sender = leaf.with_options(idempotency_key=key) if key else leaf
        await sender.submit_many(sender.call() for _ in range(count))


@app.task(name="fan_in_thread")
def fan_in_thread(counts: list[int]) -> None:
    for count in counts:
        leaf.sync.submit_many(leaf.call() for _ in range(count))


@app.task(name="fan_in_process", isolation="process")
def fan_in_process(counts: list[int]) -> None:
    for count in counts:
        leaf.sync.submit_many(leaf.call() for _ in range(count))


@app.task(name="fan_at_once")
async def fan_at_once(counts: list[int]) -> None:
    await asyncio.gather(*(leaf.submit_many(leaf.call() for _ in range(count)) for count in counts))


@app.task(name="fan_and_bear_it")
async def fan_and_bear_it(counts: list[int]) -> list[int]:
    made = []
    for count in counts:
        try:
            made.append(len(await leaf.submit_many(leaf.call() for _ in range(count))))
        except FanOutError:
            made.append(0)
    return made
