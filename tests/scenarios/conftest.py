"""Three grounds for scenarios: a direct connection, a real PgBouncer in transaction mode, and without NOTIFY."""

from __future__ import annotations

import asyncio

import pytest
from fleet import Fleet
from grounds import GROUNDS


@pytest.fixture(params=GROUNDS)
def ground(request, database_url):
    """Settings that tell processes how to reach this test's database."""
    if request.param == "pgbouncer":
        return {"ROTA_DATABASE_URL": request.getfixturevalue("pgbouncer").url(database_url)}
    notify = "off" if request.param == "without-notify" else "on"
    return {"ROTA_DATABASE_URL": database_url, "ROTA_NOTIFY": notify}


@pytest.fixture
async def fleet(ground, request):
    """Processes on one of the grounds; their logs are shown when the scenario fails."""
    fleet = Fleet(ground)
    yield fleet
    if request.session.testsfailed:
        print(fleet.logs())
    await fleet.stop()
    await asyncio.sleep(0)
