"""The API of a test in its own process, without a connection."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from rota.access.authenticator import Authenticator
from rota.api.app import build_app
from rota.api.backend import Backend
from rota.blobs import Blobs
from rota.destinations.sealing import Sealer
from rota.destinations.sender import EventSender
from rota.service import ServiceGroup

KEY = "a key of tests that is long enough for it"
TOKEN = "test-token"  # noqa: S105 - known to the tests alone


@asynccontextmanager
async def serving(database, directory, verifier=None, **options):
    """The API in this process, on the real database: an httpx client that is authenticated."""
    defaults = {"payload_limit_bytes": 10 * 1024 * 1024, "blobs": Blobs.open(str(directory / "blobs"))}
    defaults["sender"] = EventSender(Sealer(lambda: [KEY]))
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


@asynccontextmanager
async def clients_of(api):
    """Clients with keys: await somebody("viewer", owner="alice") is one who is a viewer in the default namespace."""
    async with AsyncExitStack() as stack:

        async def with_token(token=None, **options):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            client = httpx.AsyncClient(transport=api._transport, base_url="http://rota", headers=headers, **options)
            return await stack.enter_async_context(client)

        async def make(role, *, owner="alice", namespace="default", **fields):
            body = {"name": f"key of {owner}", "role": role, "owner": owner} | fields
            answer = await api.post("/v1/keys", json=body, headers={"Rota-Namespace": namespace})
            assert answer.status_code == 201, answer.text
            client = await with_token(answer.json()["key"])
            client.key = answer.json()
            return client

        make.with_token = with_token
        yield make
