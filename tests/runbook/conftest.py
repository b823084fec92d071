"""Engines on servers of a test's own."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from servers import Ground

from engine import Engine
from rota.store.postgres.database import Database
from serving import serving


@pytest.fixture
async def ground():
    """A server of this test's own."""
    ground = Ground()
    await ground.start()
    yield ground
    await ground.stop()


@pytest.fixture
def open_engine(tmp_path):
    """async with open_engine(url) as engine: API, schedulers and workers in this process, on any database."""

    @asynccontextmanager
    async def open_one(url):
        async with AsyncExitStack() as stack:
            database = await Database.connect(url, size=8)
            stack.push_async_callback(database.close)
            api = await stack.enter_async_context(serving(database, tmp_path))
            yield Engine(database, url, api)

    return open_one
