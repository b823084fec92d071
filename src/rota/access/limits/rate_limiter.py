"""Rate limits, shared by all API servers: token buckets in the database, leased in portions.

The buckets are in the database. A server takes tokens in portions, about as many as it used in the last tenth of a
second, and spends them without a round trip. A token is in the bucket or with one server, so all servers together
accept no more than the bucket gave. Tokens that a server does not use within a second are lost, as are those of a
server that dies: at most a portion.

Each answer of the database bounds what the bucket can hold: what was left, plus what has come since. Requests that need
more are refused without asking, and an empty bucket is asked at most twenty times a second, so refusals hardly cost the
database anything. Requests that arrive during a take wait for it, and the next take is for all of them.

A request takes all it needs or nothing; one that needs more than the bucket can hold is refused for good. Requests over
the limit are rejected, not queued: a large batch may be refused again and again beside small requests of the same key.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.limits import WHOLE, Kind, Rate
from rota.errors import RateLimitedError, TooLargeError
from rota.store.access.limits import Buckets

PORTION_SECONDS = 0.1  # of recent use is taken ahead
KEEP_SECONDS = 1.0  # how long tokens in hand are valid
REST_SECONDS = 0.05  # between two looks into an empty bucket, plus up to half of it
_PART_OF_BURST = 4  # a portion is at most a fourth of a bucket, to leave some for other servers
_MOST_TAKES = 100  # for one request, while others are quicker
MOST_BUCKETS = 10_000  # in memory; idle ones make room
_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_RAW_HEADERS = tuple(name.lower().encode() for name in _HEADERS)
Key = tuple[str, str, Kind]
Payer = tuple[str, str, str | None]  # namespace, subject and key whose limits a request counts towards
_UNKNOWN: tuple[int, Sequence[_HeldTokens]] = (-1, ())


class RateStatus(NamedTuple):
    """The state of the tighter of an accepted request's buckets."""

    limit: int
    remaining: int
    reset_seconds: int

    @property
    def headers(self) -> dict[str, str]:
        """The usual ones: the burst, what is left of it, and the seconds until the bucket is full again."""
        if self is UNLIMITED:
            return {}
        return dict(zip(_HEADERS, map(str, self), strict=True))

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The same as pairs of bytes, in lower case."""
        if self is UNLIMITED:
            return []
        return [(name, b"%d" % value) for name, value in zip(_RAW_HEADERS, self, strict=True)]


UNLIMITED = RateStatus(sys.maxsize, sys.maxsize, 0)


def tighter(*statuses: RateStatus) -> RateStatus:
    """The one that lets fewest through."""
    return min(statuses, key=attrgetter("remaining"))


class RateLimiter:
    """Accepts requests and jobs up to their rate limits."""

    def __init__(
        self, *, limits: TenantLimits, buckets: Buckets, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._store = buckets
        self._monotonic = monotonic
        self._held: dict[Key, _HeldTokens] = {}
        # The buckets of a payer, and after how many changes of limits they were found.
        self._buckets_of: dict[tuple[Payer, Kind], tuple[int, Sequence[_HeldTokens]]] = {}

    def take_now(self, payer: Payer, kind: Kind, amount: int = 1) -> RateStatus | None:
        """Takes from the tokens in hand. None, and nothing is taken: the database must be asked, with `take`."""
        limits = self._limits
        if limits.number is None:
            return None
        changes, held = self._buckets_of.get((payer, kind), _UNKNOWN)
        if changes != limits.changes:
            held = self._find(payer, kind)
        if not held:
            return UNLIMITED
        now = self._monotonic()
        for one in held:
            if one.in_hand(now) < amount:
                return None
        found = UNLIMITED
        for one in held:
            one.serve(amount, now)
            status = one.status(now)
            if status.remaining < found.remaining:
                found = status
        return found

    async def take(
        self, namespace: str, subject: str, kind: Kind, amount: int = 1, *, key: str | None = None
    ) -> RateStatus:
        """Takes `amount` from the buckets of the subject, the key and the namespace, or from none of them.

        Raises RateLimitedError when there are not enough now, TooLargeError when there never will be.
        """
        if self._limits.number is None:
            await self._limits.load()
        held = self._find((namespace, subject, key), kind)
        return await self._take(held, amount) if held else UNLIMITED

    def _find(self, payer: Payer, kind: Kind) -> Sequence[_HeldTokens]:
        """The buckets of a payer, by the limits of now."""
        limits, (namespace, subject, key) = self._limits, payer
        rates = (
            (key or "", limits.rate_of_key(namespace, key, kind) if key else None),
            (subject, limits.rate(namespace, subject, kind) if subject else None),
            (WHOLE, limits.rate(namespace, WHOLE, kind)),
        )
        held = tuple(self._held_of((namespace, name, kind), rate) for name, rate in rates if rate is not None)
        if len(self._buckets_of) >= MOST_BUCKETS:
            self._buckets_of.clear()
        self._buckets_of[payer, kind] = limits.changes, held
        return held

    async def _take(self, held: Sequence[_HeldTokens], amount: int) -> RateStatus:
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
        return tighter(*(one.status(now) for one in held))

    def _held_of(self, key: Key, rate: Rate) -> _HeldTokens:
        one = self._held.get(key)
        if one is None:
            if len(self._held) >= MOST_BUCKETS:
                now = self._monotonic()
                self._held = {key: held for key, held in self._held.items() if not held.is_idle(now)}
                self._buckets_of.clear()  # some of theirs may be gone
            one = self._held[key] = _HeldTokens(key, rate, self._store, self._monotonic)
        elif one.rate != rate:
            one.change(rate)
        return one


class _HeldTokens:
    """The tokens this server holds of one bucket, and what it knows of the rest."""

    def __init__(self, key: Key, rate: Rate, store: Buckets, monotonic: Callable[[], float]) -> None:
        self._key = key
        self._store = store
        self._monotonic = monotonic
        self._count = 0
        self._good_until = 0.0
        self._used = 0  # since the last take
        self._demand = 0  # of all requests that wait for the current take
        self._taking: asyncio.Task[None] | None = None
        self._asked_at = monotonic()
        self.change(rate)

    def change(self, rate: Rate) -> None:
        """Applies another rate; what was known of the bucket no longer holds."""
        self.rate = rate
        self._count = min(self._count, rate.burst)
        self._left = math.inf
        self._rests_until = 0.0

    def is_idle(self, now: float) -> bool:
        """Whether it can be forgotten: its tokens have expired, and the bucket may be full again."""
        return self._taking is None and now >= self._good_until and now - self._asked_at > KEEP_SECONDS

    def serve(self, amount: int, now: float) -> bool:
        """Takes from the tokens in hand, if they are enough."""
        self._count = self.in_hand(now)
        if self._count < amount:
            return False
        self._count -= amount
        self._used += amount
        return True

    def give_back(self, amount: int) -> None:
        """Returns tokens that were not used after all."""
        self._count += amount
        self._used -= amount

    def check(self, amount: int, now: float) -> None:
        """Raises RateLimitedError when there can't be enough now, TooLargeError when there never can be."""
        if amount <= self.in_hand(now):
            return
        if amount > self.rate.burst:
            raise TooLargeError(f"{amount} {self._key[2]} at once; {self._whose} allows at most {self.rate.burst}")
        wait = self._wait(amount, now)
        if wait > 0:
            raise self._refusal(wait, now)

    async def fetch(self, amount: int) -> None:
        """Takes from the bucket, together with other requests; raises as `check` does."""
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
        """The state of the bucket, as far as this server knows."""
        per_second, burst = self.rate
        remaining = min(burst, self._count + int(self._ceiling(now)))
        return RateStatus(burst, remaining, math.ceil((burst - remaining) / per_second))

    @property
    def _whose(self) -> str:
        namespace, subject, _ = self._key
        return f"the limit of {subject!r}" if subject else f"the limit of namespace {namespace!r}"

    @property
    def _portion(self) -> int:
        """How much may be taken ahead. Requests for no more than this share the next take."""
        return max(1, int(min(self.rate.per_second * PORTION_SECONDS, self.rate.burst / _PART_OF_BURST)))

    def in_hand(self, now: float) -> int:
        """How many can be served without a question to the database."""
        return self._count if now < self._good_until else 0

    def _ceiling(self, now: float) -> float:
        """The most that can be in the bucket: what was left and what came since."""
        per_second, burst = self.rate
        return min(burst, self._left + max(0.0, now - self._asked_at) * per_second)

    def _wait(self, amount: int, now: float) -> float:
        """How many seconds to wait before asking can succeed."""
        ceiling = self._ceiling(now)
        wait = (amount - self.in_hand(now) - ceiling) / self.rate.per_second
        if wait > 0 and now + wait >= self._good_until:
            wait = (amount - ceiling) / self.rate.per_second  # the tokens in hand expire before that
        return max(wait, self._rests_until - now)

    def _refusal(self, wait: float, now: float) -> RateLimitedError:
        words = f"too many {self._key[2]}: {self._whose} is {self.rate.per_second:g} a second"
        return RateLimitedError(words, retry_after_seconds=max(1, math.ceil(wait)), headers=self.status(now).headers)

    async def _refill(self, amount: int, counted: int) -> None:
        """One take at a time for all requests that wait; it continues when one of them hangs up."""
        if self._taking is None or self._taking.done():  # a done one is the past, though its callback comes later
            self._taking = asyncio.create_task(self._take(amount, counted), name="take-tokens")
            self._taking.add_done_callback(self._taken)
        await asyncio.shield(self._taking)

    def _taken(self, taking: asyncio.Task[None]) -> None:
        if self._taking is taking:
            self._taking = None
        if not taking.cancelled():
            taking.exception()  # raised in the requests that wait, if any are left

    async def _take(self, amount: int, counted: int) -> None:
        sent = self._monotonic()
        rate = self.rate
        least = max(1, amount - self.in_hand(sent))
        wanted = least + self._demand - counted + self._ahead(sent)
        granted, left = await self._store.take(*self._key, rate, wanted=wanted, least=least)
        self._count = granted + self.in_hand(sent)
        self._good_until = self._monotonic() + KEEP_SECONDS
        if rate == self.rate:  # else it says nothing about the current bucket
            # Measured from before the question was sent, so that there is surely no more than this.
            self._left, self._asked_at = left, sent
            self._rests_until = sent + _rest() if left < 1 else 0.0

    def _ahead(self, now: float) -> int:
        """How much the next moment will need at the recent rate; at most a portion."""
        elapsed = max(now - self._asked_at, PORTION_SECONDS / 10)
        used, self._used = max(0, self._used), 0
        return min(int(used / elapsed * PORTION_SECONDS), self._portion)


def _rest() -> float:
    # Random: servers that ask in step would be served in the same order each time.
    return REST_SECONDS * random.uniform(1.0, 1.5)  # noqa: S311 - not a secret
