"""Clients of both faces, on a server that listens on a port."""

from __future__ import annotations

import pytest

from listening import TOKEN
from rota.client import AsyncClient, Client


@pytest.fixture
async def client(server):
    """The asynchronous client."""
    async with AsyncClient(server.url, TOKEN) as client:
        yield client


@pytest.fixture
async def synchronous(server):
    """The synchronous client; call it in a thread, since the server runs in this one."""
    with Client(server.url, TOKEN) as client:
        yield client
