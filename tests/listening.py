"""The API of a test on a port of this machine, for clients that need a connection."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

from rota.access.authenticator import Authenticator
from rota.api.app import build_app
from rota.api.server import _Server, http_config
from serving import TOKEN
from support import eventually


@asynccontextmanager
async def listening(services, port=0, **options):
    """The API on a port of this machine: its server, whose `url` says where."""
    app = build_app(services, Authenticator(TOKEN, credentials=services.credentials), "test")
    async with running(http_config(app, "127.0.0.1", port, **options), port) as server:
        yield server


@asynccontextmanager
async def running(config, port=0):
    """The real server with this configuration, on a port of this machine."""
    config.timeout_graceful_shutdown = 0
    server = _Server(config)
    with socket.create_server(("127.0.0.1", port), backlog=2048) as listener:
        server.port = listener.getsockname()[1]
        server.url = f"http://127.0.0.1:{server.port}"
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await eventually(lambda: server.started)
        try:
            yield server
        finally:
            server.should_exit = True
            server.force_exit = True
            await serving
