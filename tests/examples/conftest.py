"""One stage for all examples of a session."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from stage import Stage


@pytest.fixture(scope="session")
def stage_url(postgres):
    """A migrated database that all examples share."""

    async def do(statement):
        admin = await asyncpg.connect(postgres.url("postgres"))
        await admin.execute(statement)
        await admin.close()

    asyncio.run(do("CREATE DATABASE examples TEMPLATE rota_template STRATEGY FILE_COPY"))
    yield postgres.url("examples")
    asyncio.run(do("DROP DATABASE examples WITH (FORCE)"))


@pytest.fixture(scope="session")
def whole_stage(stage_url, tmp_path_factory):
    """The processes that all examples share."""
    stage = Stage(stage_url, tmp_path_factory.mktemp("stage"))
    stage.open()
    yield stage
    stage.close()


@pytest.fixture
def stage(whole_stage, request):
    """The same; when a test fails it shows what its processes said."""
    yield whole_stage
    if request.session.testsfailed:
        print(whole_stage.logs())


@pytest.fixture
async def sql(stage_url):
    """A connection for looking behind the curtain."""
    connection = await asyncpg.connect(stage_url)
    yield connection
    await connection.close()
