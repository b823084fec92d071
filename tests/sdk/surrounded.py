"""An application with middleware and a lifespan whose tasks run in processes of their own."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

import rota

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


class Tenants(rota.Middleware):
    """Hands on whose work it is."""

    @contextmanager
    def submitting(self, call):
        call.headers["tenant"] = tenant.get()
        yield

    @asynccontextmanager
    async def running(self, context):
        token = tenant.set(context.headers.get("tenant", "unknown"))
        try:
            yield
        finally:
            tenant.reset(token)


app = rota.App("surrounded", middleware=[Tenants()])


@app.lifespan
async def opened():
    app.state.opened = getattr(app.state, "opened", 0) + 1
    yield


@app.task(name="whose", isolation="process")
async def whose() -> tuple[str, int]:
    return tenant.get(), app.state.opened


@app.task(name="whose_sync", isolation="process")
def whose_sync() -> tuple[str, int]:
    return tenant.get(), app.state.opened


@app.task(name="child")
async def child(number: int) -> int:
    return number + 1


@app.task(name="parent", isolation="process")
async def parent() -> tuple[str, int]:
    run = await child.submit(1)
    return run.id, await run.result(timeout=120)


@app.task(name="parent_sync", isolation="process")
def parent_sync() -> tuple[str, int]:
    run = child.sync.submit(2)
    return run.id, run.result(timeout=120)


@app.task(name="refused", isolation="process", retries=0)
def refused() -> None:
    child.sync.with_options(unique_key="taken").submit(1)
