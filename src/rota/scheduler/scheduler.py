"""A scheduler: the list of its services, and their common life."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TypedDict
from uuid import uuid4

from rota.blobs import Blobs
from rota.clock import DatabaseClock
from rota.errors import DatabaseUnavailableError
from rota.scheduler.admission import Admitter
from rota.scheduler.expiring import Expirer
from rota.scheduler.firing import Firer
from rota.scheduler.keeping import LogKeeper
from rota.scheduler.leases import LeaseKeeper
from rota.scheduler.misfiring import MisfireJudge
from rota.scheduler.promotion import Promoter
from rota.scheduler.reaping import Reaper
from rota.scheduler.recalling import Recaller
from rota.scheduler.reconciling import Reconciler
from rota.scheduler.rezoning import Rezoner
from rota.scheduler.service import Service
from rota.scheduler.sweeping import Sweeper
from rota.store.database import Database
from rota.store.declaring import Declaring
from rota.store.gates import Gates
from rota.store.listening import GATE, SCHEDULE, Listener
from rota.store.logs import Logs
from rota.store.notifying import Notifier
from rota.store.schedules import Schedules
from rota.store.shards import Shards
from rota.store.workers import Workers

LEAVE_SECONDS = 3.0
APP_PATIENCE = timedelta(minutes=10)


class _Shared(TypedDict):
    schedules: Schedules
    leases: LeaseKeeper
    notifier: Notifier


class Scheduler:
    """Wires the services to one database and runs them."""

    def __init__(
        self,
        *,
        database: Database,
        notifier: Notifier,
        listen_url: str | None,
        lease_seconds: float,
        blobs: Blobs | None = None,
        app_patience: timedelta = APP_PATIENCE,
    ) -> None:
        self.id = uuid4()
        clock = DatabaseClock()
        schedules = Schedules(database, self.id)
        self.leases = LeaseKeeper(
            shards=Shards(database), scheduler_id=self.id, clock=clock, lease_seconds=lease_seconds
        )
        shared: _Shared = {"schedules": schedules, "leases": self.leases, "notifier": notifier}
        self.promoter = Promoter(**shared)
        self.firer = Firer(**shared, on_fired=self.promoter.wake)
        self.misfires = MisfireJudge(**shared)
        self.recaller = Recaller(**shared)
        self.admitter = Admitter(gates=Gates(database, self.id), **shared)
        self.expirer = Expirer(**shared)
        self.sweeper = Sweeper(**shared)
        self.rezoner = Rezoner(schedules=schedules)
        self.reconciler = Reconciler(declaring=Declaring(database, patience=app_patience), notifier=notifier)
        self.log_keeper = LogKeeper(logs=Logs(database), blobs=blobs, **shared) if blobs else None
        self.reaper = Reaper(workers=Workers(database), notifier=notifier, clock=clock)
        self._listen_url = listen_url

    @property
    def services(self) -> tuple[Service, ...]:
        """Everything a scheduler does."""
        return (
            self.leases,
            self.firer,
            self.promoter,
            self.misfires,
            self.recaller,
            self.admitter,
            self.reaper,
            self.expirer,
            self.sweeper,
            self.rezoner,
            self.reconciler,
            *((self.log_keeper,) if self.log_keeper else ()),
        )

    async def run(self) -> None:
        """Runs until cancelled, then leaves its shards to the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for service in self.services:
                    group.create_task(service.run(), name=service.name)
                if self._listen_url:
                    group.create_task(Listener(self._listen_url, (SCHEDULE, GATE), self._heard).run(), name="listener")
        finally:
            with suppress(DatabaseUnavailableError, TimeoutError):
                await asyncio.wait_for(self.leases.leave(), LEAVE_SECONDS)

    def _heard(self, channel: str, _payload: str) -> None:
        if channel == GATE:
            self.admitter.wake()
        else:
            self.firer.wake()
            self.recaller.wake()
            self.reconciler.wake()
