"""A scheduler: wires its services to one database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from rota.blobs import Blobs
from rota.clock import DatabaseClock
from rota.destinations.sender import EventSender
from rota.gateway.declared_workflows import apply_workflows
from rota.gateway.job_builder import JobBuilder
from rota.metrics.catalogue import Metrics
from rota.scheduler.admitter import Admitter
from rota.scheduler.alert_evaluator import ALERT_SECONDS, AlertEvaluator
from rota.scheduler.archivist import Archivist
from rota.scheduler.collector import Collector
from rota.scheduler.conductor import Conductor, Plans
from rota.scheduler.dispatcher import Dispatcher
from rota.scheduler.expirer import Expirer
from rota.scheduler.firer import Firer
from rota.scheduler.gate_inspector import GateInspector
from rota.scheduler.indexer import Indexer
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.log_exporter import LogExporter
from rota.scheduler.log_indexer import LogIndexer
from rota.scheduler.log_targets import LogTarget
from rota.scheduler.log_uploader import LogUploader
from rota.scheduler.member_maker import MemberMaker
from rota.scheduler.misfire_judge import MisfireJudge
from rota.scheduler.operation_runner import OperationRunner
from rota.scheduler.outlook import Outlook
from rota.scheduler.outside_heartbeat import OutsideHeartbeat
from rota.scheduler.promoter import Promoter
from rota.scheduler.reaper import Reaper
from rota.scheduler.recaller import Recaller
from rota.scheduler.reconciler import Reconciler
from rota.scheduler.recorder import Recorder
from rota.scheduler.rezoner import Rezoner
from rota.scheduler.sampler import Sampler
from rota.scheduler.sweeper import Sweeper
from rota.scheduler.trimmer import Trimmer
from rota.scheduler.vacuumer import Vacuumer
from rota.scheduler.worker_watch import WorkerWatch
from rota.service import Service
from rota.store.admit import Gates
from rota.store.admit.overlooked import OverlookedGates
from rota.store.alert.measures import AlertMeasures, OverdueCounts
from rota.store.alert.states import AlertStates
from rota.store.change.recalled import RecalledRuns
from rota.store.declare import DeclaredJobs
from rota.store.deliver import Deliveries
from rota.store.events import Events
from rota.store.fire import Schedules
from rota.store.flow import Flows
from rota.store.foresee import Foresight
from rota.store.lease import Shards
from rota.store.logs import Logs
from rota.store.logs.blocks import LogBlocks
from rota.store.logs.exports import LogExports
from rota.store.measure import FigureWriter
from rota.store.operate import Operations
from rota.store.operate.pages import OperationPages
from rota.store.postgres.database import Database
from rota.store.postgres.listener import Listener
from rota.store.postgres.wakeups import ARCHIVE, EVENTS, FLOW, GATE, SCHEDULE, SOON
from rota.store.promote import Promotions
from rota.store.reap import LostWorkers
from rota.store.report import Reports
from rota.store.schema.list_indexes import ListIndexes
from rota.store.vacuum import HotTables

_APP_PATIENCE = timedelta(minutes=10)
_SENDER_LEASE = timedelta(seconds=30)  # longer than any attempt to send
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
        sender: EventSender | None = None,
        sender_lease: timedelta = _SENDER_LEASE,
        app_patience: timedelta = _APP_PATIENCE,
        clock: DatabaseClock | None = None,
        home: Path | None = None,
        alert_seconds: float = ALERT_SECONDS,
        heartbeat_url: str | None = None,
        heartbeat_seconds: float = 60.0,
        log_target: LogTarget | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`home`: whose disk is watched; `heartbeat_url`: the monitor outside that is told that all is well."""
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
        figures = FigureWriter(database)
        self.sampler = Sampler(figures=figures, leases=leases)
        self.recorder = Recorder(figures=figures, leases=leases)
        self.alert_evaluator = AlertEvaluator(
            states=AlertStates(database),
            measures=AlertMeasures(database),
            home=home,
            seconds=alert_seconds,
            leases=leases,
        )
        self.outside_heartbeat = (
            OutsideHeartbeat(
                url=heartbeat_url, seconds=heartbeat_seconds, counts=OverdueCounts(database), leases=leases
            )
            if heartbeat_url
            else None
        )
        self.rezoner = Rezoner(schedules=schedules)
        self.reconciler = Reconciler(
            declaring=DeclaredJobs(database, patience=app_patience, apply_workflows=apply_workflows),
            is_listening=self._is_listening,
        )
        self.dispatcher = (
            Dispatcher(
                deliveries=Deliveries(database, self.id, sender_lease),
                events=Events(database),
                sender=sender,
                is_listening=self._is_listening,
                leases=leases,
            )
            if sender
            else None
        )
        self.archivist = Archivist(database=database, blobs=blobs, leases=leases) if blobs else None
        self.collector = Collector(database=database, blobs=blobs, leases=leases) if blobs else None
        self.trimmer = Trimmer(database=database, leases=leases)
        self.log_keeper: LogUploader | None = None
        self.log_indexer: LogIndexer | None = None
        self.log_exporter: LogExporter | None = None
        if blobs:
            self._keep_logs(database, blobs, log_target)
        workers = LostWorkers(database)
        self.reaper = Reaper(workers=workers, reports=Reports(database), clock=clock, metrics=metrics)
        self.worker_watch = WorkerWatch(workers=workers, on_lost=self.reaper.wake)
        self._listener = Listener(listen_url, (SCHEDULE, GATE, FLOW, EVENTS), self._heard) if listen_url else None
        metrics.registry.before_reading(lambda: self._show_shards(metrics))
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
            self.sampler,
            self.recorder,
            self.alert_evaluator,
            self.rezoner,
            self.reconciler,
            self.outlook,
            *((self.dispatcher,) if self.dispatcher else ()),
            *((self.outside_heartbeat,) if self.outside_heartbeat else ()),
            *((self.archivist,) if self.archivist else ()),
            *((self.collector,) if self.collector else ()),
            self.trimmer,
            *(service for service in (self.log_keeper, self.log_indexer, self.log_exporter) if service),
            *((self._listener,) if self._listener else ()),
        )

    def _keep_logs(self, database: Database, blobs: Blobs, target: LogTarget | None) -> None:
        blocks, leases = LogBlocks(database), self.leases
        if target:
            self.log_exporter = LogExporter(
                exports=LogExports(database), blocks=blocks, blobs=blobs, target=target, leases=leases
            )
        on_export = self.log_exporter.expect if self.log_exporter else None
        self.log_keeper = LogUploader(
            logs=Logs(database), blocks=blocks, blobs=blobs, on_export=on_export, leases=leases
        )
        self.log_indexer = LogIndexer(blocks=blocks, blobs=blobs, leases=leases)

    def _show_shards(self, metrics: Metrics) -> None:
        metrics.shards.of().value = len(self.leases.owned)

    def _is_listening(self) -> bool:
        return self._listener is not None and self._listener.connected

    @property
    def _flow_services(self) -> tuple[Service, ...]:
        return self.conductor, self.member_maker, self.operation_runner

    def _heard(self, channel: str, payload: str) -> None:
        if channel == EVENTS:
            if self.dispatcher:
                self.dispatcher.wake()
            return
        if channel in (GATE, FLOW):
            for service in (self.admitter,) if channel == GATE else self._flow_services:
                service.wake()
            return
        if payload == ARCHIVE:
            if self.archivist:
                self.archivist.wake()
            return
        self.promoter.rouse()
        if payload != SOON:
            self.firer.wake()
            self.recaller.wake()
            self.reconciler.wake()
