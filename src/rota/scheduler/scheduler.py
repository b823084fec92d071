"""A scheduler: wires its services to one database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from rota.blobs import Blobs
from rota.clock import DatabaseClock
from rota.gateway.declared_workflows import apply_workflows
from rota.gateway.job_builder import JobBuilder
from rota.metrics.catalogue import Metrics
from rota.scheduler.admitter import Admitter
from rota.scheduler.conductor import Conductor, Plans
from rota.scheduler.expirer import Expirer
from rota.scheduler.firer import Firer
from rota.scheduler.gate_inspector import GateInspector
from rota.scheduler.indexer import Indexer
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.log_uploader import LogUploader
from rota.scheduler.member_maker import MemberMaker
from rota.scheduler.misfire_judge import MisfireJudge
from rota.scheduler.operation_runner import OperationRunner
from rota.scheduler.outlook import Outlook
from rota.scheduler.promoter import Promoter
from rota.scheduler.reaper import Reaper
from rota.scheduler.recaller import Recaller
from rota.scheduler.reconciler import Reconciler
from rota.scheduler.rezoner import Rezoner
from rota.scheduler.sweeper import Sweeper
from rota.scheduler.vacuumer import Vacuumer
from rota.scheduler.worker_watch import WorkerWatch
from rota.service import Service
from rota.store.admit import Gates
from rota.store.admit.overlooked import OverlookedGates
from rota.store.change.recalled import RecalledRuns
from rota.store.declare import DeclaredJobs
from rota.store.fire import Schedules
from rota.store.flow import Flows
from rota.store.foresee import Foresight
from rota.store.lease import Shards
from rota.store.logs import Logs
from rota.store.operate import Operations
from rota.store.operate.pages import OperationPages
from rota.store.postgres.database import Database
from rota.store.postgres.listener import Listener
from rota.store.postgres.wakeups import FLOW, GATE, SCHEDULE, SOON
from rota.store.promote import Promotions
from rota.store.reap import LostWorkers
from rota.store.report import Reports
from rota.store.schema.list_indexes import ListIndexes
from rota.store.vacuum import HotTables

_APP_PATIENCE = timedelta(minutes=10)
_LARGEST_PAYLOAD_BYTES = 64 * 1024


class Scheduler:
    """The services of one scheduler process.

    Heartbeats have a connection of their own (`lease_database`; None: the same pool). Where statements of the other
    services wait for locks or connections, leases must not be lost: another scheduler would take the shards, wait there
    as well, and lose them again.
    """

    def __init__(
        self,
        *,
        database: Database,
        lease_database: Database | None = None,
        listen_url: str | None,
        lease_seconds: float,
        blobs: Blobs | None = None,
        app_patience: timedelta = _APP_PATIENCE,
        clock: DatabaseClock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.id = uuid4()
        clock = clock or DatabaseClock()
        metrics = metrics or Metrics()
        schedules = Schedules(database, self.id)
        self.leases = LeaseKeeper(
            shards=Shards(lease_database or database),
            scheduler_id=self.id,
            clock=clock,
            lease_seconds=lease_seconds,
            on_beat=lambda found: self.worker_watch.hear(found.workers),
            on_change=lambda: self.outlook.wake_all(),  # noqa: PLW0108 - made below
        )
        promotions = Promotions(database, self.id)
        leases = self.leases
        self.promoter = Promoter(promotions=promotions, leases=leases)
        self.firer = Firer(schedules=schedules, leases=leases, on_fired=self.promoter.expect, metrics=metrics)
        self.misfires = MisfireJudge(promotions=promotions, leases=leases)
        self.recaller = Recaller(recalled=RecalledRuns(database, self.id), leases=leases)
        gates = Gates(database, self.id)
        self.admitter = Admitter(gates=gates, leases=leases)
        self.gate_inspector = GateInspector(overlooked=OverlookedGates(database, self.id), leases=leases)
        builder = JobBuilder(shards=1, payload_limit_bytes=_LARGEST_PAYLOAD_BYTES, now=lambda: datetime.now(UTC))
        flows = Flows(database)
        plans = Plans(flows, builder)
        self.member_maker = MemberMaker(
            flows=flows, plans=plans, builder=builder, blobs=blobs, leases=leases, now=clock.now
        )
        self.conductor = Conductor(
            flows=flows, plans=plans, builder=builder, leases=leases, on_room=self.member_maker.wake
        )
        self.operation_runner = OperationRunner(
            operations=Operations(database), pages=OperationPages(database), leases=leases
        )
        self.expirer = Expirer(promotions=promotions, leases=leases)
        self.sweeper = Sweeper(database=database, promotions=promotions, leases=leases)
        self.vacuumer = Vacuumer(tables=HotTables(database), leases=leases)
        self.indexer = Indexer(indexes=ListIndexes(database), leases=leases)
        self.rezoner = Rezoner(schedules=schedules)
        self.reconciler = Reconciler(
            declaring=DeclaredJobs(database, patience=app_patience, apply_workflows=apply_workflows),
            is_listening=self._is_listening,
        )
        self.log_keeper = LogUploader(logs=Logs(database), blobs=blobs, leases=leases) if blobs else None
        workers = LostWorkers(database)
        self.reaper = Reaper(workers=workers, reports=Reports(database), clock=clock, metrics=metrics)
        self.worker_watch = WorkerWatch(workers=workers, on_lost=self.reaper.wake)
        metrics.registry.before_reading(lambda: self._show_shards(metrics))
        self._listener = Listener(listen_url, (SCHEDULE, GATE, FLOW), self._heard) if listen_url else None
        self.outlook = Outlook(
            foresight=Foresight(database, gates),
            sleepers=(
                self.firer,
                self.promoter,
                self.misfires,
                self.recaller,
                self.admitter,
                self.gate_inspector,
                self.expirer,
                self.conductor,
                self.member_maker,
                self.operation_runner,
            ),
            is_listening=self._is_listening,
            leases=leases,
        )

    @property
    def services(self) -> tuple[Service, ...]:
        """All services; closed in reverse order, so the shards are dropped last."""
        return (
            self.leases,
            self.firer,
            self.promoter,
            self.misfires,
            self.recaller,
            self.admitter,
            self.conductor,
            self.member_maker,
            self.operation_runner,
            self.worker_watch,
            self.gate_inspector,
            self.reaper,
            self.expirer,
            self.sweeper,
            self.vacuumer,
            self.indexer,
            self.rezoner,
            self.reconciler,
            self.outlook,
            *((self.log_keeper,) if self.log_keeper else ()),
            *((self._listener,) if self._listener else ()),
        )

    def _show_shards(self, metrics: Metrics) -> None:
        metrics.shards.of().value = len(self.leases.owned)

    def _is_listening(self) -> bool:
        return self._listener is not None and self._listener.connected

    @property
    def _flow_services(self) -> tuple[Service, ...]:
        return self.conductor, self.member_maker, self.operation_runner

    def _heard(self, channel: str, payload: str) -> None:
        if channel in (GATE, FLOW):
            for service in (self.admitter,) if channel == GATE else self._flow_services:
                service.wake()
            return
        self.promoter.rouse()
        if payload != SOON:
            self.firer.wake()
            self.recaller.wake()
            self.reconciler.wake()
