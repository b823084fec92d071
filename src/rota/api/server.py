"""The API as a process: uvicorn around the application."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

import rota
from rota.access.authenticator import Authenticator, admin_token
from rota.access.jwt_verifier import TokenVerifier
from rota.access.limits.tenant_limits import default_limits
from rota.api.app import build_app
from rota.api.backend import Backend
from rota.api.http.connection import ConnectionLimits, Doorkeeper, GuardedProtocol, most_connections, raise_file_limit
from rota.api.http.tls import Certificate
from rota.blobs import Blobs
from rota.compose import check_server_role, listen_url, open_database, traced, waiting_for_database
from rota.destinations.sender import EventSender
from rota.metrics.publishing import metrics_services, open_metrics, show_connections
from rota.processes import run_until_stopped
from rota.service import Service, ServiceGroup
from rota.settings import Settings
from rota.store.lease import count_shards
from rota.store.postgres.database import Database
from rota.telemetry import get_logger
from rota.time_limits import time_limit
from rota.tracing import Tracing

CONNECTIONS = 8
_GRACEFUL_SECONDS = 5
_HANDSHAKE_SECONDS = 10.0
_TLS_GOODBYE_SECONDS = 2.0
_TURN_SECONDS = 1.0
_log = get_logger("api")


class _Server(uvicorn.Server):
    """Leaves signals to the composition root, which knows what else must stop, and turns once a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._exiting = asyncio.Event()
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """Whether it shall stop serving; noticed at once."""
        return self._exiting.is_set()

    @should_exit.setter
    def should_exit(self, wanted: bool) -> None:
        if wanted:
            self._exiting.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: Any = None) -> None:
        """Listens as uvicorn does, but with a shorter timeout for TLS handshakes."""
        config = self.config
        if sockets is not None or config.ssl is None:
            await super().startup(sockets)
            return
        server = await asyncio.get_running_loop().create_server(
            lambda: config.http_protocol_class(config=config, server_state=self.server_state, app_state={}),  # type: ignore[call-arg]
            config.host,
            config.port,
            ssl=config.ssl,
            backlog=config.backlog,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS,
        )
        self.servers = [server]
        self.started = True

    async def main_loop(self) -> None:
        """Renews the date that answers carry. Uvicorn's own loop turns ten times a second."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with time_limit(_TURN_SECONDS):
                    await self._exiting.wait()


async def run_api(settings: Settings, beside: Sequence[Service] = ()) -> None:
    """Serves until stopped: first no new requests, then the services `beside` it, then the connections."""
    with traced(settings, "api") as tracing:
        await _run_api(settings, beside, tracing)


async def _run_api(settings: Settings, beside: Sequence[Service], tracing: Tracing | None) -> None:
    files = raise_file_limit()
    certificate = Certificate.of(settings)
    limits = ConnectionLimits(connections=settings.connections or most_connections(files))
    async with open_database(settings, size=CONNECTIONS, name="rota-api", patient=True) as database:
        await waiting_for_database(partial(check_server_role, database), settings)
        backend = await waiting_for_database(partial(build_backend, settings, database, tracing), settings)
        show_connections(backend.metrics, "rota-api", database)
        verifier = TokenVerifier.from_settings(settings)
        server = build_server(settings, backend, verifier, limits, certificate)
        shown = metrics_services(settings, backend.metrics, refresh=backend.installation_gauges.refresh)
        services = [*api_services(backend, verifier, certificate), *shown, *beside]
        source = "ROTA_TOKEN" if settings.given_token else str(settings.admin_token_file)
        _log.info("serving", url=settings.url, token_in=source, connections=limits.connections)
        if settings.is_exposed:
            _log.warning(
                "tokens and payloads cross the network as plain text: set ROTA_TLS_CERTIFICATE and ROTA_TLS_KEY, "
                "or let a proxy with TLS stand in front",
                host=settings.host,
            )

        async def stop() -> None:
            backend.release_waiters()
            server.should_exit = True

        async def serve() -> None:
            async with ServiceGroup(services):
                await server.serve()

        await run_until_stopped(serve(), on_stop=stop)


async def build_backend(settings: Settings, database: Database, tracing: Tracing | None = None) -> Backend:
    backend = Backend(
        database=database,
        shards=await count_shards(database),
        payload_limit_bytes=settings.payload_limit_bytes,
        defaults=default_limits(settings),
        blobs=Blobs.open(settings.blobs),
        listen_url=listen_url(settings, database),
        check_payloads=settings.check_payloads,
        sender=EventSender.of(settings),
        metrics=open_metrics(settings, "api"),
        tracing=tracing,
    )
    await backend.set_clock()
    return backend


def api_services(backend: Backend, verifier: TokenVerifier | None, certificate: Certificate | None) -> list[Service]:
    """All services of an API process."""
    return [*backend.services, *(verifier.services if verifier else ()), *((certificate,) if certificate else ())]


def build_server(
    settings: Settings,
    backend: Backend,
    verifier: TokenVerifier | None = None,
    limits: ConnectionLimits | None = None,
    certificate: Certificate | None = None,
) -> _Server:
    """A uvicorn server that is not serving yet."""
    token = settings.given_token or admin_token(settings.admin_token_file)
    authenticator = Authenticator(token, credentials=backend.credentials, verifier=verifier)
    app = build_app(backend, authenticator, rota.__version__, metrics_public=settings.metrics_public)
    tls, proxies = certificate.context if certificate else None, settings.trusted_proxies
    return _Server(http_config(app, settings.host, settings.port, limits=limits, tls=tls, proxies=proxies))


def http_config(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    limits: ConnectionLimits | None = None,
    tls: ssl.SSLContext | None = None,
    proxies: Sequence[str] = (),
) -> uvicorn.Config:
    """How we serve. Only `proxies` are believed about the address and scheme of their clients."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=partial(GuardedProtocol, doorkeeper=Doorkeeper(limits or ConnectionLimits())),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=_GRACEFUL_SECONDS,
    )
    config.load()
    config.ssl = tls
    return config
