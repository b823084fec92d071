"""How a process shows its metrics: on a port, to StatsD, to OpenTelemetry, as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import TimeoutError as LateError
from importlib.metadata import version
from typing import Any, Protocol

from rota.metrics.catalogue import Metrics
from rota.metrics.exposition import exposition
from rota.metrics.metrics_port import MetricsPort
from rota.metrics.otlp import OtlpSender, can_export
from rota.metrics.process_gauges import watch_process
from rota.metrics.statsd import StatsdSender
from rota.service import Service
from rota.settings import Settings
from rota.telemetry import get_logger

_REFRESH_SECONDS = 4.0  # less than a scraper waits
_log = get_logger("metrics")
Refresh = Callable[[], Awaitable[None]]


class PooledDatabase(Protocol):
    """A database with a pool of connections."""

    @property
    def connections(self) -> Any: ...


class SlottedWorker(Protocol):
    """A worker with slots."""

    slots: Any


def open_metrics(settings: Settings, role: str) -> Metrics:
    """The metrics of a process in this role."""
    metrics = Metrics(role=role, version=version("rota"), task_label=settings.metrics_task_label)
    watch_process(metrics)
    return metrics


def is_shown(settings: Settings) -> bool:
    """Whether a process without an API shows its metrics: else there is no need to count."""
    return bool(settings.metrics_port or settings.statsd or settings.otel.metrics)


async def _nothing_to_refresh() -> None:
    """All is known already."""


def metrics_services(settings: Settings, metrics: Metrics, refresh: Refresh = _nothing_to_refresh) -> list[Service]:
    """The services that show the metrics. `refresh` reads what has to be asked for, on the event loop."""
    services: list[Service] = []
    if settings.metrics_port:
        read = _reader(metrics, refresh)
        services.append(MetricsPort(settings.metrics_host, settings.metrics_port, read))
    if address := settings.statsd_address:
        services.append(
            StatsdSender(
                metrics.registry, address, refresh=refresh, tags=settings.statsd_tags, seconds=settings.statsd_seconds
            )
        )
    if settings.otel.metrics and can_export():
        services.append(
            OtlpSender(metrics.registry, metrics.role, refresh=refresh, seconds=settings.otel.metric_seconds)
        )
    return services


def _reader(metrics: Metrics, refresh: Refresh) -> Callable[[], bytes]:
    """Reads metrics in a thread of the port: what needs the event loop is left out if that is busy for too long."""
    loop = asyncio.get_running_loop()

    async def fresh() -> None:
        await refresh()

    def read() -> bytes:
        if refresh is not _nothing_to_refresh:
            asked = asyncio.run_coroutine_threadsafe(fresh(), loop)
            try:
                asked.result(_REFRESH_SECONDS)
            except LateError:
                asked.cancel()
                _log.warning("the event loop is busy: metrics of the installation are old")
        return exposition(metrics.registry)

    return read


def show_connections(metrics: Metrics, name: str, database: PooledDatabase) -> None:
    """Shows the connections of a pool. Pools of the same name, as those of several workers, are added up."""
    pools = metrics.pools.setdefault(name, [])
    pools.append(database.connections)
    if len(pools) > 1:
        return

    def read() -> None:
        metrics.connections.of(name, "used").value = sum(pool.used for pool in pools)
        metrics.connections.of(name, "idle").value = sum(pool.idle for pool in pools)
        metrics.connection_waits.of(name).value = sum(pool.waiting for pool in pools)

    metrics.registry.before_reading(read)


def show_slots(metrics: Metrics, workers: Sequence[SlottedWorker]) -> None:
    """Shows the slots of the workers in this process."""

    def read() -> None:
        metrics.slots.of().value = sum(worker.slots.count for worker in workers)
        metrics.slots_used.of().value = sum(len(worker.slots.running) for worker in workers)

    metrics.registry.before_reading(read)
