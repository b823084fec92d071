"""Days of history, written directly into the database as if their runs had ended then."""

from __future__ import annotations

import pytest

from past_days import PastDays


@pytest.fixture
def past(sql):
    return PastDays(sql)


@pytest.fixture
async def archivist(engine):
    """Does all it can when ticked, without resting."""
    scheduler = await engine.leading()
    scheduler.archivist._share = 1.0
    return scheduler.archivist
