"""The composition root: wires the concrete classes for each role."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

from rota.access.limits.tenant_limits import default_limits
from rota.blobs import Blobs
from rota.broker.postgres import PostgresBroker
from rota.clock import DatabaseClock
from rota.destinations.sender import EventSender
from rota.domain.application import Application
from rota.domain.fleet import WorkerProfile
from rota.errors import DatabaseUnavailableError, SetupError
from rota.gateway.local import LocalGateway
from rota.metrics.catalogue import Metrics
from rota.metrics.publishing import is_shown, metrics_services, open_metrics, show_connections, show_slots
from rota.processes import SUPERVISED, run_until_stopped, start_anew
from rota.scheduler.log_targets.address import open_target
from rota.scheduler.scheduler import Scheduler
from rota.sdk.app import App
from rota.sdk.declared_schedules import describe_app
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.store.lease import count_shards
from rota.store.postgres.address import advice, check_files
from rota.store.postgres.database import Database, check_url
from rota.store.postgres.embedded import EmbeddedPostgres, no_room
from rota.store.report.task_transactions import TaskTransactions
from rota.store.schema.database_roles import may_serve
from rota.store.schema.migrate import bring_up_to_date
from rota.task.output import capture_output
from rota.telemetry import get_logger
from rota.tracing import Tracing, open_tracing
from rota.worker.failure_log import FailureLog
from rota.worker.health import HealthServer, worst_health
from rota.worker.runners.registry import Runners
from rota.worker.worker import Worker

_SCHEDULER_CONNECTIONS = 4
WORKER_CONNECTIONS = 6
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_log = get_logger("starting")
T = TypeVar("T")


def database_url(settings: Settings) -> str:
    """The configured server, or the embedded one of this home."""
    return settings.database_url or EmbeddedPostgres(settings.home).url()


@asynccontextmanager
async def open_database(
    settings: Settings, *, size: int, name: str, check: bool = True, patient: bool = False
) -> AsyncIterator[Database]:
    """Opens a connection pool; raises SetupError, with what to do, if it can't.

    `patient`: waits for a server that is starting, restarting or has no connection left, for as long as it takes.
    """

    async def connect() -> Database:
        return await Database.connect(database_url(settings), size=size, name=name, notify=settings.notify)

    try:
        database = await (waiting_for_database(connect, settings) if patient else connect())
    except DatabaseUnavailableError as error:
        if settings.database_url:
            raise SetupError(f"PostgreSQL at ROTA_DATABASE_URL does not answer: {error}") from error
        if full := no_room(settings.home, str(error)):
            raise full from error
        raise SetupError(
            f"The embedded PostgreSQL of {settings.home} is not running: start `rota up` first, "
            "or set ROTA_DATABASE_URL to use a server of your own."
        ) from error
    try:
        if check:
            step = partial(bring_up_to_date, database)
            await (waiting_for_database(step, settings) if patient else step())
        yield database
    finally:
        await database.close()


async def waiting_for_database(step: Callable[[], Awaitable[T]], settings: Settings) -> T:
    """Repeats a step of a start until the database answers. Says once why it waits, and again when the reason changes.

    Raises DatabaseUnavailableError if waiting would not help.
    """
    said, pause = None, _FIRST_PAUSE_SECONDS
    while True:
        try:
            done = await step()
        except DatabaseUnavailableError as error:
            if not _passes(error, settings):
                raise
            if str(error) != said:
                said = str(error)
                _log.warning("waiting for PostgreSQL", reason=said)
        else:
            if said is not None:
                _log.info("PostgreSQL answers")
            return done
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _passes(error: DatabaseUnavailableError, settings: Settings) -> bool:
    """Whether the server may answer later without anyone changing anything here."""
    cause = error.__cause__
    if cause is not None and advice(cause):
        return False  # TLS
    if settings.database_url:
        return True
    if no_room(settings.home, str(error)):
        return False
    # Without a supervisor the embedded server is not there because it was not started.
    return bool(os.environ.get(SUPERVISED)) or not isinstance(cause, (FileNotFoundError, ConnectionRefusedError))


def listen_url(settings: Settings, database: Database) -> str | None:
    """Where to LISTEN; None (switched off, or a pooler without a direct URL) means polling."""
    if not settings.notify:
        return None
    if settings.listen_url:
        check_url(settings.listen_url, "ROTA_LISTEN_URL")
        check_files(settings.listen_url, "ROTA_LISTEN_URL")
        return settings.listen_url
    return None if database.pooled else database_url(settings)


@asynccontextmanager
async def open_scheduler(
    settings: Settings, database: Database, metrics: Metrics | None = None
) -> AsyncIterator[Scheduler]:
    """A scheduler on this database, with one more connection for its heartbeat."""
    async with open_database(settings, size=1, name="rota-scheduler", check=False, patient=True) as lease_database:
        if metrics:
            show_connections(metrics, "rota-scheduler-lease", lease_database)
        yield build_scheduler(settings, database, lease_database, metrics)


def build_scheduler(
    settings: Settings, database: Database, lease_database: Database, metrics: Metrics | None = None
) -> Scheduler:
    return Scheduler(
        metrics=metrics,
        database=database,
        lease_database=lease_database,
        listen_url=listen_url(settings, database),
        lease_seconds=settings.scheduler_lease_seconds,
        blobs=Blobs.open(settings.blobs),
        sender=EventSender.of(settings),
        app_patience=timedelta(seconds=settings.app_patience_seconds),
        home=settings.home,
        alert_seconds=settings.alert_seconds,
        heartbeat_url=settings.heartbeat_url,
        heartbeat_seconds=settings.heartbeat_seconds,
        log_target=open_target(settings.log_export_url, settings.log_export_authorization, settings.log_export_tenant),
    )


def worker_gateway(
    settings: Settings,
    database: Database,
    *,
    shards: int,
    clock: DatabaseClock,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> LocalGateway:
    """The gateway through which a worker's tasks submit jobs; it does nothing until one does."""
    return LocalGateway(
        database=database,
        shards=shards,
        payload_limit_bytes=settings.payload_limit_bytes,
        blobs=Blobs.open(settings.blobs),
        now=clock.now_datetime,
        defaults=default_limits(settings),
        lazy=True,
        check_payloads=settings.check_payloads,
        metrics=metrics,
        tracing=tracing,
    )


def build_worker(
    settings: Settings,
    database: Database,
    runners: Runners,
    *,
    clock: DatabaseClock,
    gateway: LocalGateway,
    application: Application | None = None,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> Worker:
    listen = listen_url(settings, database)
    broker = PostgresBroker(
        database=database,
        listen_url=listen,
        lease_seconds=settings.worker_lease_seconds,
        namespace_share=settings.namespace_share,
        metrics=metrics,
    )
    profile = WorkerProfile(
        socket.gethostname(),
        os.getpid(),
        settings.namespace_names,
        settings.pool_names,
        tuple(runners.by_task),
        settings.slots,
        settings.pool_weights,
        application,
        settings.namespace_weights,
    )
    failures = FailureLog(every_attempt=settings.log_failures)
    return Worker(
        broker=broker,
        runners=runners.by_task,
        profile=profile,
        drain_seconds=settings.drain_seconds,
        grace_seconds=settings.grace_seconds,
        log_limit_bytes=settings.log_limit_bytes,
        most_abandoned=max(1, settings.threads // 2),
        blobs=Blobs.open(settings.blobs),
        secrets=settings.secrets,
        hidden=settings.hidden,
        on_lease=runners.subprocesses.extend_deadline,
        on_failure=failures.note,
        clock=clock,
        gateways=gateway.for_run,
        tracing=tracing,
        beside=(*gateway.services, failures),
    )


async def check_server_role(database: Database) -> None:
    """Raises SetupError if our database role lacks the rights of a server: every round would fail."""
    if not await may_serve(database):
        raise SetupError(
            "The database role of ROTA_DATABASE_URL may not do what the API and schedulers do: give it the rights of a "
            "server (`rota database-roles --server ROLE`, as the schema's owner), or use another."
        )


@contextmanager
def traced(settings: Settings, role: str) -> Iterator[Tracing | None]:
    """Traces of this process, sent to their end; None if they are not wanted."""
    tracing = open_tracing(settings, role)
    try:
        yield tracing
    finally:
        if tracing:
            tracing.close()


async def run_scheduler(settings: Settings) -> None:
    opened = open_database(settings, size=_SCHEDULER_CONNECTIONS, name="rota-scheduler", patient=True)
    async with opened as database:
        await waiting_for_database(partial(check_server_role, database), settings)
        metrics = open_metrics(settings, "scheduler")
        show_connections(metrics, "rota-scheduler", database)
        async with open_scheduler(settings, database, metrics) as scheduler:
            services = (*scheduler.services, *metrics_services(settings, metrics))
            await run_until_stopped(ServiceGroup(services).run())


async def run_workers(settings: Settings, apps: Sequence[App]) -> None:
    """Runs a worker for each application until stopped, then drains them; restarts the process if one asks for that.

    Each is a worker of its own in the fleet, with its tasks, slots, lease and declared schedules. They end together.
    """
    async with AsyncExitStack() as stack:
        metrics = open_metrics(settings, "worker")
        counted = metrics if is_shown(settings) else None
        tracing = stack.enter_context(traced(settings, "worker"))
        opened = [
            await stack.enter_async_context(_open_worker(settings, app, counted, tracing)) for app in apps or (App(),)
        ]
        workers = [worker for worker, _ in opened]
        show_slots(metrics, workers)
        await stack.enter_async_context(ServiceGroup(metrics_services(settings, metrics)))
        if settings.worker_port:
            health = HealthServer(settings.host, settings.worker_port, partial(worst_health, workers))
            health.start()
            stack.callback(health.stop)
        capture_output(level=min(logging.INFO, logging.getLevelNamesMapping()[settings.log_level.upper()]))
        for app in apps:
            await stack.enter_async_context(app.living())
        for _, runners in opened:
            runners.processes.warm_up()
        was_stopped = await run_until_stopped(_run_together(workers), on_stop=partial(_drain, workers))
    if any(worker.restart_wanted for worker in workers) and not was_stopped:
        start_anew()
    if any(runners.functions.stuck or worker.has_abandoned_runs for worker, runners in opened):
        # Threads can't be killed, and Python would wait for them.
        os._exit(0)


async def _run_together(workers: Sequence[Worker]) -> None:
    running = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    await _drain(workers)  # one restarts itself, or failed: that takes the whole process
    await asyncio.gather(*running)


async def _drain(workers: Sequence[Worker]) -> None:
    await asyncio.gather(*(worker.drain() for worker in workers))


@asynccontextmanager
async def _open_worker(
    settings: Settings, app: App, metrics: Metrics | None, tracing: Tracing | None
) -> AsyncIterator[tuple[Worker, Runners]]:
    async with AsyncExitStack() as stack:
        opened = open_database(settings, size=WORKER_CONNECTIONS, name="rota-worker", patient=True)
        database = await stack.enter_async_context(opened)
        if metrics:
            show_connections(metrics, "rota-worker", database)
        transactions = TaskTransactions(
            database_url(settings), size=settings.transactions, pooled=database.pooled, version=database.version
        )
        stack.push_async_callback(transactions.close)
        runners = Runners(settings, app, transactions)
        stack.push_async_callback(runners.close)
        clock = DatabaseClock()
        shards = await waiting_for_database(partial(count_shards, database), settings)
        gateway = worker_gateway(settings, database, shards=shards, clock=clock, metrics=metrics, tracing=tracing)
        has_more = app.tasks or app.declarations.are_any
        application = describe_app(app, settings.namespace_names) if has_more else None
        worker = build_worker(
            settings,
            database,
            runners,
            clock=clock,
            gateway=gateway,
            application=application,
            metrics=metrics,
            tracing=tracing,
        )
        yield worker, runners
