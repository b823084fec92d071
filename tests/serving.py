"""The API of a test in its own process, without a connection."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx

from rota.access.authenticator import Authenticator
from rota.api.app import build_app
from rota.api.backend import Backend
from rota.blobs import Blobs
from rota.service import ServiceGroup

TOKEN = "test-token"  # noqa: S105 - known to the tests alone


@asynccontextmanager
async def serving(database, directory, verifier=None, **options):
    """The API in this process, on the real database: an httpx client that is authenticated."""
    defaults = {"payload_limit_bytes": 10 * 1024 * 1024, "blobs": Blobs.open(str(directory / "blobs"))}
    services = Backend(database=database, shards=64, **(defaults | options))
    await services.set_clock()
    app = build_app(services, Authenticator(TOKEN, credentials=services.credentials, verifier=verifier), "test")
    transport = httpx.ASGITransport(app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        ServiceGroup(services.services),
        httpx.AsyncClient(transport=transport, base_url="http://rota", headers=headers) as client,
    ):
        client.services = services
        yield client
