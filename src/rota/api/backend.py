"""What the routes use: the store, the clock and the gateway for submissions."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import msgspec

from rota.access.audit import Auditor
from rota.access.credential_cache import CredentialCache
from rota.access.limits.rate_limiter import RateLimiter
from rota.access.refusal_trail import RefusalTrail
from rota.api.figures import FigureHistories
from rota.api.http.body_budget import BodyBudget
from rota.api.http.shares import MOST_REQUESTS, Shares
from rota.api.installation_gauges import InstallationGauges
from rota.api.log_search import LogSearch
from rota.api.pool_loads import PoolLoads
from rota.api.statistics import Statistics
from rota.api.status_lookups import StatusLookups
from rota.api.streams.event_followers import EventFollowers
from rota.api.streams.log_followers import LogFollowers
from rota.api.streams.run_waiters import RunWaiters
from rota.api.waiting_reasons import WaitingReasons
from rota.archive.history import History, JobHistory, PolicyCache
from rota.archive.lookup import ArchiveLookup
from rota.blobs import BlobError, Blobs
from rota.clock import DatabaseClock
from rota.destinations.sealing import Sealer
from rota.destinations.sender import EventSender
from rota.domain.limits import Limits
from rota.gateway.local import LocalGateway
from rota.gateway.operations import OperationGateway
from rota.gateway.workflows import WorkflowGateway
from rota.metrics.catalogue import Metrics
from rota.service import Service
from rota.store.access.api_keys import ApiKeys
from rota.store.access.audit_trail import AuditTrail
from rota.store.access.limits import Buckets, LimitTable
from rota.store.alert import AlertRules
from rota.store.archive import Archives, RetentionPolicies
from rota.store.cancel import Cancellations
from rota.store.change import Changes
from rota.store.deliver.destinations import Destinations
from rota.store.depend.needs import NeededJobs
from rota.store.events import Events
from rota.store.exclude.calendars import Calendars
from rota.store.flow.workflows import Workflows
from rota.store.logs import Logs
from rota.store.logs.blocks import LogBlocks
from rota.store.measure import FigureReader
from rota.store.postgres.clock_follower import ClockFollower
from rota.store.postgres.database import Database
from rota.store.postgres.listener import Listener
from rota.store.postgres.wakeups import ENDED, TASKS
from rota.store.read.activity import Tallies
from rota.store.read.fleet import Fleet
from rota.store.read.installation import Installation
from rota.store.read.waiting import Waiting
from rota.store.redrive import Redrives
from rota.store.submit import Submissions
from rota.tracing import Tracing

_MOST_SEARCHES = 40  # of logs at a time


class Backend:
    """Made once per process; every route gets it."""

    def __init__(
        self,
        *,
        database: Database,
        shards: int,
        payload_limit_bytes: int,
        blobs: Blobs,
        defaults: Limits | None = None,
        listen_url: str | None = None,
        check_payloads: bool = True,
        sender: EventSender | None = None,
        metrics: Metrics | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`listen_url`: where ends of runs and joining workers are heard of; None: they are only looked for."""
        self.database = database
        self.metrics = metrics or Metrics()
        self.installation_gauges = InstallationGauges(self.metrics, Installation(database))
        self.blobs = blobs
        self.logs = Logs(database)
        self.tail = LogFollowers(self.logs)
        self.log_blocks = LogBlocks(database)
        self.log_search = LogSearch(self.log_blocks, blobs)
        self.searches = Shares(_MOST_SEARCHES, what="search logs")
        self.stopping = asyncio.Event()  # ends all streams
        self.body_budget = BodyBudget()
        self.requests = Shares(MOST_REQUESTS, what="are being handled")
        self.clock = DatabaseClock()
        self._clock_follower = ClockFollower(database, self.clock)
        self.gateway = LocalGateway(
            database=database,
            shards=shards,
            payload_limit_bytes=payload_limit_bytes,
            blobs=blobs,
            now=lambda: self.now,
            defaults=defaults,
            check_payloads=check_payloads,
            is_listening=lambda: self._listener is not None and self._listener.connected,
            metrics=self.metrics,
            tracing=tracing,
        )
        self.limiter = RateLimiter(limits=self.gateway.limits, buckets=Buckets(database))
        self.limit_table = LimitTable(database)
        self.retention = RetentionPolicies(database)
        self.policies = PolicyCache(self.retention)
        self.archives = Archives(database)
        self.archive_lookup = ArchiveLookup(self.archives, blobs)
        self.jobs = JobHistory(database, self.archive_lookup)
        self.statuses = StatusLookups(self.jobs, now=lambda: self.now)
        self.runs = History(database, self.archive_lookup, self.policies, now=lambda: self.now)
        self.run_ends = RunWaiters(self.runs, database.wake if listen_url else None)
        self._listener = Listener(listen_url, (ENDED, TASKS), self._heard) if listen_url else None
        self.events = Events(database)
        self.event_tail = EventFollowers(self.events)
        self.destinations = Destinations(database)
        self.sender = sender or EventSender(Sealer(tuple))
        self.changes = Changes(database)
        self.cancellations = Cancellations(database)
        self.redrives = Redrives(database)
        self.workflows = WorkflowGateway(
            Workflows(database),
            Submissions(database),
            self.gateway.job_builder,
            self.gateway.calendars,
            shards=shards,
            now=lambda: self.now,
        )
        self.calendars = Calendars(database)
        self.alerts = AlertRules(database)
        self.operations = OperationGateway(database, shards=shards, now=lambda: self.now)
        self.fleet = Fleet(database)
        self.statistics = Statistics(Tallies(database), self.fleet)
        self.figures = FigureReader(database)
        self.histories = FigureHistories(self.figures, now=lambda: self.now)
        self.pool_loads = PoolLoads(self.figures)
        self.waiting_reasons = WaitingReasons(waiting=Waiting(database), needed=NeededJobs(database), fleet=self.fleet)
        self.keys = ApiKeys(database)
        self.credentials = CredentialCache(self.keys)
        self.auditor = Auditor(AuditTrail(database), now=lambda: self.now)
        self.refusals = RefusalTrail(self.auditor)

    @property
    def now(self) -> datetime:
        """The database's time."""
        return self.clock.now_datetime()

    async def fetch_stored(self, key: str) -> tuple[Any, Any]:
        """A payload or result from object storage, or the error message."""
        try:
            return msgspec.Raw(await self.blobs.get(key)), None
        except BlobError as error:
            return None, str(error)

    @property
    def services(self) -> tuple[Service, ...]:
        """Services that run beside the routes."""
        followers = (self.tail, self.run_ends, self.event_tail)
        listeners = (self._listener,) if self._listener else ()
        beside = (self.credentials, self.statuses, self.refusals, self._clock_follower)
        return (*self.gateway.services, *beside, *followers, *listeners)

    def _heard(self, channel: str, payload: str) -> None:
        if channel == TASKS:
            self.gateway.tasks.wake()
        else:
            self.run_ends.heard(channel, payload)

    def release_waiters(self) -> None:
        """Ends all waiting requests and streams, as the server is about to stop."""
        self.stopping.set()
        self.run_ends.release()

    async def set_clock(self) -> None:
        """Measures the database's clock."""
        await self._clock_follower.tick()
