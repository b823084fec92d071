"""An application that is tested with the kit."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import rota

app = rota.App("kit-tasks")
log = logging.getLogger("kit_tasks")
gone_through: list[str] = []


class Tracing(rota.Middleware):
    @asynccontextmanager
    async def running(self, context):
        gone_through.append(f"before {context.run_id}")
        yield
        gone_through.append("after")


app.add_middleware(Tracing())


@app.lifespan
async def life():
    app.state.greeting = "Hello"
    yield
    del app.state.greeting


@app.task
async def greet(name: str, times: int = 1) -> str:
    return " ".join([f"{app.state.greeting}, {name}!"] * times)


@app.task
def double(number: int) -> int:
    return 2 * number


@app.task(pool="mail", priority="high", tags=["post"])
async def send_mail(to: str, subject: str = "(none)", due: datetime | None = None) -> None:
    print(f"printed for {to}")
    log.info("logged for %s", to)


@app.task
async def tell_time(context: rota.Context) -> str:
    return context.nominal_time.isoformat()


@app.task(retries=2)
async def stumble(context: rota.Context) -> int:
    if context.attempt < 3:
        raise ValueError(f"attempt {context.attempt} fails")
    return context.attempt


@app.task(retries=0)
def fail_for_good() -> None:
    raise LookupError("there is nothing here")


@app.task
async def quadruple(number: int) -> int:
    return 2 * await (await double.submit(number)).result(timeout=120)


@app.task
def quadruple_in_thread(number: int) -> int:
    return 2 * double.sync.submit(number).result(timeout=120)


@app.task(isolation="process")
def quadruple_apart(number: int) -> int:
    return 2 * double.sync.submit(number).result(timeout=120)


@app.task
async def again_and_again() -> None:
    await again_and_again.submit()


@app.task
async def never_end() -> None:
    await asyncio.Event().wait()


@app.task
async def later(context: rota.Context) -> Any:
    if context.last_checkpoint is None:
        context.checkpoint("seen")
        return rota.Snooze(3600)
    return "now"


@app.task(rate_limit="1/1m")
async def slowly(number: int) -> int:
    return number


@app.task(rate_limit="1/1h", expires="90s")
async def in_time(number: int) -> int:
    return number


@app.task(transactional=True)
async def order(context: rota.Context, item: str, fails: bool = False) -> None:
    await context.connection.execute("INSERT INTO orders VALUES ($1, now())", item)
    await greet.within(context.connection).submit(item)
    if fails:
        raise rota.Final("it must not be")
