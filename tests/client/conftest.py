"""Clients of both faces: one on the API in this process, one on a server that listens on a port."""

from __future__ import annotations

import pytest

from listening import TOKEN
from rota.client import AsyncClient, Client


@pytest.fixture
async def client(api):
    """The asynchronous client on the API in this process."""
    async with AsyncClient("http://rota", TOKEN, transport=api._transport) as client:
        yield client


@pytest.fixture
async def remote(server):
    """The asynchronous client over a connection."""
    async with AsyncClient(server.url, TOKEN) as client:
        yield client


@pytest.fixture
async def synchronous(server):
    """The synchronous client; call it in a thread, since the server runs in this one."""
    with Client(server.url, TOKEN) as client:
        yield client
