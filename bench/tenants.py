"""Tenants: what it costs a server to let a request through, or not, and what that costs the database.

The limiter of an API server by itself, in one process, on the database of a Rota that is up: requests of somebody
without limits, with one, with one and one of the namespace's; and a flood of requests that are refused.
"""

from __future__ import annotations

import time

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from rota.access.limits.rate_limiter import RateLimiter
from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.limits import Kind, Rate
from rota.errors import RateLimitedError
from rota.store.access.limits import Buckets, LimitTable, Taken
from rota.store.postgres.database import Database

FAST = 500_000
SLOW = 10
NAMESPACE = "bench"


class Path(msgspec.Struct):
    """One way through the limiter."""

    requests: int
    microseconds: float
    statements: int
    refused: int


class Tenants(msgspec.Struct):
    """The scenario's figures."""

    unlimited: Path
    limited: Path
    limited_twice: Path
    flood: Path


class _Counted(Buckets):
    """Counts how often the database is asked."""

    asked = 0

    async def take(self, namespace: str, subject: str, kind: Kind, rate: Rate, *, wanted: int, least: int) -> Taken:
        self.asked += 1
        return await super().take(namespace, subject, kind, rate, wanted=wanted, least=least)


async def measure_tenants(progress: Progress, *, requests: int) -> Tenants:
    """Each way in turn."""
    async with Lab() as lab:
        database = await Database.connect(lab.database_url("rota"), size=2)
        buckets, limits = _Counted(database), TenantLimits(LimitTable(database))
        limiter = RateLimiter(limits=limits, buckets=buckets)

        async def limit(subject: str, rate: float) -> None:
            await limits.change(NAMESPACE, subject, {"requests_per_second": rate, "request_burst": int(10 * rate)})

        async def measure(words: str) -> Path:
            progress.say(f"{requests:,} requests, {words}")
            path = await _measure(limiter, buckets, requests)
            progress.figure(f"{path.microseconds:.2f} µs each; {path.statements} statements, {path.refused:,} refused")
            return path

        try:
            unlimited = await measure("without a limit")
            await limit("somebody", FAST)
            limited = await measure("of somebody with a limit")
            await limit("", FAST)
            twice = await measure("and in a namespace with one")
            await limit("somebody", SLOW)
            flood = await measure("nearly all of them too many")
        finally:
            await database.close()
    return Tenants(unlimited, limited, twice, flood)


async def _measure(limiter: RateLimiter, buckets: _Counted, requests: int) -> Path:
    before, refused = buckets.asked, 0
    began = time.perf_counter()
    for _ in range(requests):
        try:
            await limiter.take(NAMESPACE, "somebody", "requests")
        except RateLimitedError:
            refused += 1
    elapsed = time.perf_counter() - began
    return Path(requests, elapsed / requests * 1e6, buckets.asked - before, refused)
