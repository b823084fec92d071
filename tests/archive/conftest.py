"""Days of history, written directly into the database as if their runs had ended then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from past_days import PastDays
from rota.scheduler import archivist as archivist_module


@pytest.fixture
def past(sql):
    return PastDays(sql)


@pytest.fixture
async def leader(engine):
    """A scheduler that owns all shards; its services are ticked by hand, and don't rest."""
    scheduler = await engine.leading()
    scheduler.archivist._share = scheduler.collector._share = 1.0
    return scheduler


@pytest.fixture
def archivist(leader, monkeypatch):
    monkeypatch.setattr(archivist_module, "_AGAIN_SECONDS", 0.0)
    return leader.archivist


@pytest.fixture
def collector(leader):
    """Looks at objects of any age."""
    leader.collector._margin = timedelta(seconds=-60)
    return leader.collector
