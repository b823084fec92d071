"""An application with middleware and a lifespan whose isolated tasks bring their own event loop and submit a lot."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar

import rota

surroundings: ContextVar[str] = ContextVar("surroundings", default="none")
LETTERS = 200_000
CHILDREN = 90


class Surrounding(rota.Middleware):
    """Can be seen from within."""

    @asynccontextmanager
    async def running(self, context):
        token = surroundings.set(f"those of {context.task}")
        try:
            yield
        finally:
            surroundings.reset(token)


app = rota.App("secluded", middleware=[Surrounding()])


@app.lifespan
async def life():
    app.state.is_open = True
    yield
    app.state.is_open = False


async def what_surrounds() -> tuple[str, bool]:
    return surroundings.get(), app.state.is_open


@app.task(name="own_loop", isolation="process", retries=0)
def own_loop() -> tuple[str, bool]:
    return asyncio.run(what_surrounds())


@app.task(name="child")
async def child(text: str) -> int:
    return len(text)


@app.task(name="many", isolation="process", retries=0)
def many() -> int:
    runs = child.sync.submit_many(child.call("x" * LETTERS) for _ in range(CHILDREN))
    return len({run.id for run in runs})


@app.task(name="many_async", isolation="process", retries=0)
async def many_async() -> int:
    runs = await child.submit_many(child.call("x" * LETTERS) for _ in range(CHILDREN))
    return len({run.id for run in runs})


@app.task(name="parent", isolation="process", retries=0)
def parent() -> None:
    child.sync.submit("one")


@app.task(name="parent_async", isolation="process", retries=0)
async def parent_async() -> None:
    await child.submit("one")


@app.task(name="refused", isolation="process", retries=0)
def refused() -> str:
    """The type of what is raised for a unique key that is taken."""
    try:
        child.sync.with_options(unique_key="taken").submit("one")
    except rota.RotaError as error:
        return type(error).__name__
    return "accepted"
