"""Fixtures of the semantic tests."""

from __future__ import annotations

import pytest

from gatekeeping import Gatekeeping


@pytest.fixture
async def gates(engine):
    """A scheduler that owns all shards and a worker that knows rota.echo, both moved by hand."""
    broker = engine.broker()
    await engine.join(broker, "rota.echo", slots=1000)
    return Gatekeeping(engine, await engine.leading(), broker)
