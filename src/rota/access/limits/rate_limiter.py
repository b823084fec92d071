"""Rate limits, shared by all API servers: token buckets in the database, leased in portions.

The database has the buckets. A server takes tokens out of one in portions, about as many as it used in the last tenth
of a second, and lets requests through with what it has in hand: no round trip. A token is in the bucket or in one hand,
never in two, so all servers together let through no more than the bucket gave. What a server has in hand and does not
use within a second is lost, and so is what one that dies had: at most a portion.

What the database says of a bucket bounds what can be in it for a while: what was left, and what has come since. A
request that needs more is refused without asking; while a bucket is empty, it is asked at most twenty times a
second. However many are refused, the database hardly notices. Those who come while a take is under way wait for it, and
the next one takes for all of them.

A request takes all it needs or nothing. One that needs more than the bucket holds would never get it, and is told so.
Requests over the limit are rejected, not queued: a large batch beside steady small requests of the same key, at the
limit, may find the bucket too empty time and again.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from functools import reduce

from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.limits import WHOLE, Kind, Rate
from rota.errors import RateLimitedError, TooLargeError
from rota.store.access.limits import Buckets

PORTION_SECONDS = 0.1  # of recent use is taken ahead
KEEP_SECONDS = 1.0  # what is in hand and not used by then is lost
REST_SECONDS = 0.05  # between two looks into an empty bucket, and up to half as long again
_PART_OF_BURST = 4  # a portion is at most a fourth of what a bucket holds: others want some as well
_MOST_TAKES = 100  # for one request: others may be quicker than it, but not for ever
MOST_BUCKETS = 10_000  # in memory; those that were not used for a while make room
Key = tuple[str, str, Kind]


class RateStatus:
    """That a request was let through, and how the tighter of its buckets stands."""

    __slots__ = ("limit", "remaining", "reset_seconds")

    def __init__(self, limit: int, remaining: int, reset_seconds: int) -> None:
        self.limit = limit
        self.remaining = remaining
        self.reset_seconds = reset_seconds

    @property
    def headers(self) -> dict[str, str]:
        """The usual ones: how much at once, how much of it is left, in how many seconds all of it is there again."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
        }


class _Unlimited(RateStatus):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0, 0, 0)

    @property
    def headers(self) -> dict[str, str]:
        return {}


UNLIMITED = _Unlimited()


def tighter(one: RateStatus, other: RateStatus) -> RateStatus:
    """The one that lets fewer through."""
    if other is UNLIMITED or one is UNLIMITED:
        return one if other is UNLIMITED else other
    return one if one.remaining <= other.remaining else other


class RateLimiter:
    """Lets requests and jobs through, as fast as they may come."""

    def __init__(
        self, *, limits: TenantLimits, buckets: Buckets, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._store = buckets
        self._monotonic = monotonic
        self._held: dict[Key, _HeldTokens] = {}

    async def take(
        self, namespace: str, subject: str, kind: Kind, amount: int = 1, *, key: str | None = None
    ) -> RateStatus:
        """Takes so many from the buckets of the subject, of the key and of the namespace, or from none of them.

        Raises RateLimitedError when there are not enough now, TooLargeError when there never will be.
        """
        limits = self._limits
        if limits.number is None:
            await limits.load()
        own = limits.rate(namespace, subject, kind) if subject else None
        whole = limits.rate(namespace, WHOLE, kind)
        keyed = limits.rate_of_key(namespace, key, kind) if key else None
        if own is None and whole is None and keyed is None:
            return UNLIMITED
        rates = ((key or "", keyed), (subject, own), (WHOLE, whole))
        held = [self._held_of((namespace, name, kind), rate) for name, rate in rates if rate is not None]
        return await self._take(held, amount)

    async def _take(self, held: list[_HeldTokens], amount: int) -> RateStatus:
        now = self._monotonic()
        for one in held:
            one.check(amount, now)
        served: list[_HeldTokens] = []
        try:
            for one in held:
                if not one.serve(amount, now):
                    await one.fetch(amount)
                served.append(one)
        except BaseException:
            for one in served:
                one.give_back(amount)
            raise
        return reduce(tighter, (one.status(now) for one in held))

    def _held_of(self, key: Key, rate: Rate) -> _HeldTokens:
        one = self._held.get(key)
        if one is None:
            self._make_room()
            one = self._held[key] = _HeldTokens(key, rate, self._store, self._monotonic)
        elif one.rate != rate:
            one.change(rate)
        return one

    def _make_room(self) -> None:
        if len(self._held) >= MOST_BUCKETS:
            now = self._monotonic()
            self._held = {key: one for key, one in self._held.items() if not one.is_idle(now)}


class _HeldTokens:
    """What this server holds of one bucket, and what it knows of the rest."""

    __slots__ = (
        "_asked_at",
        "_count",
        "_demand",
        "_good_until",
        "_key",
        "_left",
        "_monotonic",
        "_rests_until",
        "_store",
        "_taking",
        "_used",
        "rate",
    )

    def __init__(self, key: Key, rate: Rate, store: Buckets, monotonic: Callable[[], float]) -> None:
        self._key = key
        self._store = store
        self._monotonic = monotonic
        self._count = 0
        self._good_until = 0.0
        self._used = 0  # since the last take
        self._demand = 0  # of all who wait for the take that is under way
        self._taking: asyncio.Task[None] | None = None
        self._asked_at = monotonic()
        self.change(rate)

    def change(self, rate: Rate) -> None:
        """From now on; what is known of the bucket was under another rate."""
        self.rate = rate
        self._count = min(self._count, rate.burst)
        self._left = math.inf
        self._rests_until = 0.0

    def is_idle(self, now: float) -> bool:
        """Whether forgetting it costs nothing: what it holds is lost anyway, and the bucket may be full again."""
        return self._taking is None and now >= self._good_until and now - self._asked_at > KEEP_SECONDS

    def serve(self, amount: int, now: float) -> bool:
        """Takes from what is in hand, if that is enough."""
        if now >= self._good_until:
            self._count = 0
        if self._count < amount:
            return False
        self._count -= amount
        self._used += amount
        return True

    def give_back(self, amount: int) -> None:
        """It was not used after all."""
        self._count += amount
        self._used -= amount

    def check(self, amount: int, now: float) -> None:
        """Raises RateLimitedError when there can't be enough, TooLargeError when there never can."""
        if amount <= (self._count if now < self._good_until else 0):
            return
        if amount > self.rate.burst:
            raise TooLargeError(f"{amount} {self._key[2]} at once; {self._whose} allows at most {self.rate.burst}")
        wait = self._wait(amount, now)
        if wait > 0:
            raise self._refusal(wait, now)

    async def fetch(self, amount: int) -> None:
        """Takes from the bucket, with others who need some; raises as `check` does."""
        counted = amount if amount <= self._portion else 0
        self._demand += counted
        try:
            for _ in range(_MOST_TAKES):
                await self._refill(amount, counted)
                now = self._monotonic()
                if self.serve(amount, now):
                    return
                self.check(amount, now)
            raise self._refusal(0.0, now)
        finally:
            self._demand -= counted

    def status(self, now: float) -> RateStatus:
        """How the bucket stands, as far as this server knows."""
        remaining = min(self.rate.burst, self._count + int(self._ceiling(now)))
        return RateStatus(self.rate.burst, remaining, math.ceil((self.rate.burst - remaining) / self.rate.per_second))

    @property
    def _whose(self) -> str:
        namespace, subject, _ = self._key
        return f"the limit of {subject!r}" if subject else f"the limit of namespace {namespace!r}"

    @property
    def _portion(self) -> int:
        """What may be taken ahead; and what is no more than that is taken for others with the next take."""
        return max(1, int(min(self.rate.per_second * PORTION_SECONDS, self.rate.burst / _PART_OF_BURST)))

    def _ceiling(self, now: float) -> float:
        """There can't be more in the bucket: what was left and what came since."""
        return min(self.rate.burst, self._left + max(0.0, now - self._asked_at) * self.rate.per_second)

    def _wait(self, amount: int, now: float) -> float:
        """For how many seconds asking would be in vain."""
        ceiling = self._ceiling(now)
        wait = (amount - (self._count if now < self._good_until else 0) - ceiling) / self.rate.per_second
        if wait > 0 and now + wait >= self._good_until:
            wait = (amount - ceiling) / self.rate.per_second  # what is in hand is lost by then
        return max(wait, self._rests_until - now)

    def _refusal(self, wait: float, now: float) -> RateLimitedError:
        stands = self.status(now)
        words = f"too many {self._key[2]}: {self._whose} is {self.rate.per_second:g} a second"
        return RateLimitedError(words, retry_after_seconds=max(1, math.ceil(wait)), headers=stands.headers)

    async def _refill(self, amount: int, counted: int) -> None:
        """One take at a time, for all who wait; it goes on when one of them hangs up."""
        if self._taking is None:
            self._taking = asyncio.create_task(self._take(amount, counted), name="take-tokens")
            self._taking.add_done_callback(self._taken)
        await asyncio.shield(self._taking)

    def _taken(self, taking: asyncio.Task[None]) -> None:
        self._taking = None
        if not taking.cancelled():
            taking.exception()  # raised in the requests that wait; there may be none left

    async def _take(self, amount: int, counted: int) -> None:
        sent = self._monotonic()
        rate = self.rate
        least = max(1, amount - (self._count if sent < self._good_until else 0))
        wanted = least + self._demand - counted + self._ahead(sent)
        granted, left = await self._store.take(*self._key, rate, wanted=wanted, least=least)
        self._count = granted + (self._count if sent < self._good_until else 0)
        self._good_until = self._monotonic() + KEEP_SECONDS
        if rate == self.rate:  # else it says nothing about the bucket as it is now
            # Counted from the moment of asking: the true moment was later, so there is surely no more than this.
            self._left, self._asked_at = left, sent
            self._rests_until = sent + _rest() if left < 1 else 0.0

    def _ahead(self, now: float) -> int:
        """What will be used in the next moment, if it goes on like this; at most a portion."""
        elapsed = max(now - self._asked_at, PORTION_SECONDS / 10)
        used, self._used = max(0, self._used), 0
        return min(int(used / elapsed * PORTION_SECONDS), self._portion)


def _rest() -> float:
    """Servers that look in step would be served in the same order each time."""
    return REST_SECONDS * random.uniform(1.0, 1.5)  # noqa: S311 - not a secret
