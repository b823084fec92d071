"""One stage for all examples of a session."""

from __future__ import annotations

import asyncpg
import pytest
import pytest_asyncio
from stage import Stage

from databases import cloned


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage_url(postgres):
    """A migrated database that all examples share."""
    async with cloned(postgres) as url:
        yield url


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
