"""API servers as far as limits go: each with limits and a limiter of its own, on one database."""

from __future__ import annotations

import pytest

from rota.access.limits.rate_limiter import RateLimiter
from rota.access.limits.tenant_limits import TenantLimits
from rota.store.access.limits import Buckets, LimitTable


class CountedBuckets(Buckets):
    """The real ones; counts how often they are asked and what they give."""

    def __init__(self, database):
        super().__init__(database)
        self.asked = 0
        self.granted = 0

    async def take(self, *arguments, **amounts):
        self.asked += 1
        taken = await super().take(*arguments, **amounts)
        self.granted += taken.granted
        return taken


class Server:
    """What an API server has of limits."""

    def __init__(self, database, **options):
        self.buckets = CountedBuckets(database)
        self.limits = TenantLimits(LimitTable(database))
        self.limiter = RateLimiter(limits=self.limits, buckets=self.buckets, **options)

    async def take(self, amount=1, *, subject="alice", kind="requests"):
        return await self.limiter.take("default", subject, kind, amount)

    async def limit(self, subject="alice", **limits):
        return await self.limits.change("default", subject, limits)


@pytest.fixture
def server(database):
    return Server(database)


@pytest.fixture
def other(database):
    return Server(database)


class Clock:
    """A monotonic clock that stands unless it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make_server(database):
    return lambda **options: Server(database, **options)
