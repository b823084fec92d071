"""Fixtures of the semantic tests."""

from __future__ import annotations

import pytest

from gatekeeping import Gatekeeping
from support import GUARD_SECONDS


@pytest.fixture
async def gates(engine):
    """A scheduler that owns all shards and a worker that knows rota.echo, both moved by hand."""
    broker = engine.broker(lease_seconds=10 * GUARD_SECONDS)
    await engine.join(broker, "rota.echo", slots=1000)
    return Gatekeeping(engine, await engine.leading(), broker)
