"""An API and schedulers that share a key for destinations and may send to this machine."""

from __future__ import annotations

from datetime import timedelta

import pytest
from receivers import ADD, receiver

from rota.destinations.sealing import Sealer
from rota.destinations.sender import EventSender
from rota.scheduler.scheduler import Scheduler
from support import eventually

KEY = "a key of these tests that is long enough"


def make_sender(**options):
    return EventSender(Sealer(lambda: [KEY]), **{"allow": ["127.0.0.1"], "timeout_seconds": 10.0} | options)


@pytest.fixture
async def api(make_api):
    async with make_api(sender=make_sender()) as api:
        yield api


@pytest.fixture
def make_scheduler(database, database_url):
    """Schedulers that send; await make_scheduler(...) is one that does nothing unless ticked."""

    def make(*, lease_seconds=3.0, sender_lease=timedelta(seconds=30), listen=True, **options):
        return Scheduler(
            database=database,
            listen_url=database_url if listen else None,
            lease_seconds=lease_seconds,
            sender=make_sender(**options),
            sender_lease=sender_lease,
        )

    return make


@pytest.fixture
async def sending(make_scheduler):
    """A scheduler that sends when told to: await sending()."""
    scheduler = make_scheduler(lease_seconds=600.0)
    await scheduler.leases.tick()

    async def send():
        """Everything that is due now."""
        await scheduler.dispatcher.tick()
        await eventually(lambda: not scheduler.dispatcher._sending)

    send.scheduler = scheduler
    return send


@pytest.fixture
async def hook():
    async with receiver() as taker:
        yield taker


@pytest.fixture
def record(sql):
    """Records an event; returns its number."""

    async def add(kind="alert.fired", subject="x", namespace="default", data=None):
        return await sql.fetchval(ADD, namespace, kind, subject, data)

    return add


@pytest.fixture
def put(api):
    """Makes a destination; returns the answer."""

    async def make(name, url, *, everywhere=False, client=None, **fields):
        query = "?everywhere=true" if everywhere else ""
        answer = await (client or api).put(f"/v1/destinations/{name}{query}", json={"url": url} | fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return make
