"""A server that compiles expensive plans, as Debian's does: it compiles none of Rota's, pinned plans look expensive."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest
from installed import postgres_built_with

from rota.contract.jobs import BatchJobIn
from rota.domain.rights import Caller
from rota.gateway.protocol import OutgoingJob
from rota.gateway.transaction import KnownFunctions, submit_within
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.report.task_transactions import TaskTransactions
from rota.store.schema.migrate import migrate

SIMPLE = "SELECT count(*) FROM generate_series(1, 10) AS n WHERE n > 5"


@pytest.fixture(scope="module")
def server():
    """A stock server: jit is on."""
    directory = Path(tempfile.mkdtemp(prefix="rota-jit-"))
    server = EmbeddedPostgres(directory, settings={"fsync": "off"}, binaries=postgres_built_with("llvm"))

    async def start() -> None:
        await server.start()
        database = await Database.connect(server.url(), size=1)
        await migrate(database)
        await database.close()

    asyncio.run(start())
    yield server
    asyncio.run(server.stop())
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def caller(server):
    """A connection of a program's own."""
    connection = await asyncpg.connect(server.url())
    yield connection
    await connection.close()


def has_compiled(pid: int) -> bool:
    """Whether this backend has compiled something: it loads the compiler the first time."""
    return "llvmjit" in Path(f"/proc/{pid}/maps").read_text()


async def test_a_plan_that_looks_expensive_is_compiled_there(caller):
    await caller.execute("SET jit_above_cost = 0")
    await caller.fetch(SIMPLE)
    assert has_compiled(caller.get_server_pid())


async def test_the_functions_for_programs_compile_nothing(caller):
    for unique in (None, "k", "k"):
        job = BatchJobIn(
            name="x", schedule_type="immediate", task="t", unique_key=unique, on_duplicate="replace" if unique else None
        )
        async with caller.transaction():
            (answer,) = await submit_within(
                caller, [OutgoingJob.of(job)], Caller("default", "ada"), datetime.now(UTC), KnownFunctions()
            )
    run_id = UUID(answer.run_id[4:])
    await caller.execute("UPDATE rota.live_runs SET worker_id = $1, claim = 1 WHERE id = $2", uuid4(), run_id)
    assert await caller.fetchval("SELECT rota.complete_v1('default', $1, 1, now(), NULL, NULL)", run_id)
    assert not has_compiled(caller.get_server_pid())


async def test_the_connections_of_tasks_compile_nothing(server, caller):
    await caller.execute("ALTER DATABASE rota SET jit_above_cost = 0")
    transactions = TaskTransactions(server.url(), size=1)
    try:
        async with transactions.begin(None, plain=False) as transaction:
            await transaction.connection.fetch(SIMPLE)
            assert not has_compiled(transaction.connection.get_server_pid())
        async with transactions.begin(None, plain=True) as transaction:
            transaction.connection.execute(SIMPLE)
            assert not has_compiled(transaction.connection.info.backend_pid)
    finally:
        await transactions.close()
        await caller.execute("ALTER DATABASE rota RESET jit_above_cost")
