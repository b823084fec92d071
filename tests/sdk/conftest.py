"""An application on a test's own engine, without any process or HTTP in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import rota
from rota.doors import Door
from rota.intake.definitions import Caller
from rota.intake.door import IntakeDoor
from rota.store.notifying import Notifier
from rota.store.runs import Runs
from rota.worker.threads import ThreadDoor


@pytest.fixture
def door(engine) -> Door:
    """Straight into this test's database."""

    async def whose():
        return Caller("default", "tester")

    services = engine.api.services
    return IntakeDoor(
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
    with made.using(door, ThreadDoor(door, asyncio.get_running_loop()), lambda: datetime.now(UTC)):
        yield made
