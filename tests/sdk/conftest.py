"""An application on a test's own engine, without any process or HTTP in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import rota
from rota.domain.rights import Caller
from rota.gateway.protocol import JobGateway
from rota.gateway.thread import ThreadGateway
from rota.store.report.task_transactions import TaskTransactions
from rota.worker.runners.function import FunctionRunner


@pytest.fixture
def gateway(engine) -> JobGateway:
    """Straight into this test's database."""
    return engine.api.services.gateway.for_caller(Caller("default", "tester"))


@pytest.fixture
async def app(gateway):
    """An application whose submissions go straight into this test's database."""
    made = rota.App("tests", owner="tester")
    with made.using(gateway, ThreadGateway(gateway, asyncio.get_running_loop()), lambda: datetime.now(UTC)):
        yield made


@pytest.fixture
def send(app):
    @app.task(name="send", retries=2)
    async def send(to: str) -> str:
        return to

    return send


@pytest.fixture
async def ledger(sql):
    """A table of amounts: await ledger() has those that were committed."""
    await sql.execute("CREATE TABLE ledger (cents integer)")

    async def total():
        return [row["cents"] for row in await sql.fetch("SELECT cents FROM ledger ORDER BY cents")]

    return total


@pytest.fixture
async def serving(engine, database_url):
    """A worker for transactional functions, with middleware around them if need be."""
    transactions = TaskTransactions(database_url, size=4)

    def serve(function, *, around=(), **options):
        runner = FunctionRunner(
            {"charge": function}, threads=4, transactional=["charge"], transactions=transactions, around=around
        )
        return engine.running(
            engine.worker(runners={"charge": runner}, blobs=engine.blobs, **options), engine.scheduler()
        )

    yield serve
    await transactions.close()
