"""Tasks that make a worker use everything it can do to the database."""

from __future__ import annotations

import asyncio
import logging

import rota

app = rota.App(name="narrow")


@app.task
async def talk(words: str) -> str:
    logging.getLogger("narrow").info(words)
    return words


@app.task
async def stumble(context: rota.Context) -> int:
    if context.attempt == 1:
        raise ValueError("not at once")
    return context.attempt


@app.task
async def fail() -> None:
    raise ValueError("never")


@app.task
async def linger() -> None:
    await asyncio.sleep(60)


@app.task
async def delegate() -> str:
    run = await talk.submit(words="from within")
    return await run.result(timeout=120)


@app.task(transactional=True)
async def charge(context: rota.Context, cents: int) -> None:
    await context.connection.execute("INSERT INTO ledger VALUES ($1)", cents)
    await talk.within(context.connection).submit(words="charged")


@app.task(transactional=True)
def charge_in_thread(context: rota.Context, cents: int) -> None:
    context.connection.execute("INSERT INTO ledger VALUES (%s)", (cents,))


@app.every("1s")
@app.task
async def tick() -> None: ...
