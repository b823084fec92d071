"""An application on a test's own engine, without any process or HTTP in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import rota
from rota.domain.rights import Caller
from rota.gateway.protocol import JobGateway
from rota.gateway.thread import ThreadGateway


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
