"""An application on a test's own engine, without any process or HTTP in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import rota
from rota.domain.rights import Caller
from rota.gateway.local import LocalGateway
from rota.gateway.protocol import JobGateway
from rota.gateway.thread import ThreadGateway
from rota.store.postgres.wakeups import Notifier
from rota.store.runs import Runs


@pytest.fixture
def door(engine) -> JobGateway:
    """Straight into this test's database."""

    async def whose():
        return Caller("default", "tester")

    services = engine.api.services
    return LocalGateway(
        intake=services.intake,
        runs=Runs(engine.database),
        blobs=engine.blobs,
        notifier=Notifier(engine.database),
        whose=whose,
    )


@pytest.fixture
async def app(door):
    """An application whose submissions go straight into this test's database."""
    made = rota.App("tests", owner="tester")
    with made.using(door, ThreadGateway(door, asyncio.get_running_loop()), lambda: datetime.now(UTC)):
        yield made
