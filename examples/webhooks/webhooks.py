"""Telling customers what happened, each in order and at their own pace: rota worker --app webhooks:app."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import msgspec

import rota

GONE = 410
COOLDOWN_SECONDS = float(os.environ.get("WEBHOOKS_COOLDOWN_SECONDS", "30"))

app = rota.App("webhooks")
Event = dict[str, str | int]


@dataclass(frozen=True)
class Customer:
    """Who wants to be told, and how often a second at most."""

    name: str
    url: str
    per_second: int


@app.lifespan
async def lifespan() -> AsyncIterator[None]:
    """One set of connections for each worker."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
        app.state.http = session
        yield


@app.task(
    retries=20,
    retry=rota.Retry(strategy="exponential", base_seconds=0.5, max_seconds=3600),
    timeout="15s",
    ordering_key=lambda customer: f"webhooks of {customer.name}",
)
async def deliver(context: rota.Context, customer: Customer, event: Event) -> int:
    """Posts an event. Any answer but a good one is tried again, and the events behind it wait."""
    body = msgspec.json.encode(event)
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": context.idempotency_key,  # the same each time: a customer knows what they got already
        "Webhook-Signature": sign(context.secrets["WEBHOOKS"], customer.name, body),
    }
    async with app.state.http.post(customer.url, data=body, headers=headers, allow_redirects=False) as answer:
        if answer.status == GONE:
            raise rota.Final(f"{customer.name} does not want to be told any more")
        answer.raise_for_status()
        return int(answer.status)


async def tell(customer: Customer, **event: str | int) -> rota.Run[int]:
    """Has an event delivered: after those that were submitted before, as fast as the customer likes it, and not at all
    for a while when their host fails again and again."""
    options = deliver.with_options(
        rate_limit=rota.RateLimit(limit=customer.per_second, burst=1, key=f"webhooks of {customer.name}"),
        breaker=rota.Breaker(failures=3, cooldown_seconds=COOLDOWN_SECONDS, key=urlsplit(customer.url).netloc),
    )
    return await options.submit(customer, event)


def sign(secret: str, customer: str, body: bytes) -> str:
    """What only we and this customer can make of a body. Customers get the key that is made of their name."""
    key = hmac.digest(secret.encode(), customer.encode(), hashlib.sha256)
    return hmac.new(key, body, hashlib.sha256).hexdigest()
