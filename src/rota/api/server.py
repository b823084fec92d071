"""The API as a process: uvicorn around the application, with or without a scheduler beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

import rota
from rota.api.app import build_app
from rota.api.auth import Authenticator, admin_token
from rota.api.services import Services
from rota.blobs import Blobs
from rota.compose import build_scheduler, open_database, until_stopped
from rota.domain.limits import default_limits
from rota.identity.verifying import TokenVerifier
from rota.settings import Settings
from rota.store.database import Database
from rota.store.notifying import Notifier
from rota.telemetry import get_logger

_log = get_logger("api")
CONNECTIONS = 8
GRACEFUL_SECONDS = 5
# Longer than the pauses of clients that submit now and then, and than the idle time-outs of most proxies.
KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    """Leaves signals to the composition root, which knows what else must stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_api(settings: Settings, *, with_scheduler: bool = False) -> None:
    """Serves until told to stop: first no new requests, then the scheduler, then the connections."""
    async with open_database(settings, size=CONNECTIONS, name="rota-api") as database:
        server = await build_server(settings, database)
        _log.info("serving", url=settings.url, token_file=str(settings.admin_token_file))

        async def stop() -> None:
            server.config.app.state.services.let_go()  # type: ignore[union-attr]
            server.should_exit = True

        async def serve() -> None:
            async with asyncio.TaskGroup() as group:
                services = group.create_task(server.config.app.state.services.run(), name="services")  # type: ignore[union-attr]
                beside = [services]
                if with_scheduler:
                    beside.append(group.create_task(build_scheduler(settings, database).run(), name="scheduler"))
                await server.serve()
                for task in beside:
                    task.cancel()

        await until_stopped(serve(), on_stop=stop)


async def build_server(settings: Settings, database: Database) -> _Server:
    """A uvicorn server for this database; it is not serving yet."""
    shards: int = await database.fetch_value("read_constants")
    services = Services(
        database=database,
        notifier=Notifier(database, enabled=settings.notify),
        shards=shards,
        payload_limit_bytes=settings.payload_limit_bytes,
        defaults=default_limits(settings),
        blobs=Blobs.open(settings.blobs),
    )
    await services.set_clock()
    token = settings.given_token or admin_token(settings.admin_token_file)
    verifier = TokenVerifier.from_settings(settings)
    if verifier is not None:
        services.beside.append(verifier.run)
    app = build_app(services, Authenticator(token, ring=services.key_ring, verifier=verifier), rota.__version__)
    app.state.services = services
    return _Server(http_config(app, settings.host, settings.port))


def http_config(app: Starlette, host: str, port: int) -> uvicorn.Config:
    """How we serve."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
