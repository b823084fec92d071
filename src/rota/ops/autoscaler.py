"""`rota autoscale`: as many workers on this host as their pools need.

It asks the server what the pools need (`GET /v1/pools/{pool}/scale`), as any autoscaler does. More workers start at
once. Fewer: only when none of the answers of the last `cooldown_seconds` wanted as many as there are, so a load that
comes in bursts does not start and stop them in turn. Those with the fewest runs drain: they take no more, finish what
they have, however long that takes within `drain_seconds`, and end. While the server does not answer, the number stays.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from rota.client import AsyncClient
from rota.domain.scaling import workers_for
from rota.ops.child_workers import ChildWorkers
from rota.ops.supervised_process import KILL_AFTER_SECONDS, SupervisedProcess, environment_of
from rota.processes import run_until_stopped
from rota.service import Service, ServiceGroup
from rota.settings import Settings
from rota.telemetry import get_logger

_ASK_SECONDS = 10.0
_log = get_logger("autoscale")


class ScaleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Between how many workers, for what lag, and how fast."""

    least: int
    most: int
    target_lag_seconds: float = 5.0
    cooldown_seconds: float = 60.0
    drain_seconds: float = 3600.0
    interval_seconds: float = 5.0


class PoolNeeds:
    """Asks the server about the pools that our workers serve, in all of their namespaces."""

    def __init__(self, settings: Settings, target_lag_seconds: float) -> None:
        self._pools = settings.pool_names
        self._target_lag_seconds = target_lag_seconds
        self._slots_per_worker = settings.slots
        self._clients = [
            AsyncClient(settings.url, settings.token or "", namespace=namespace, timeout=_ASK_SECONDS, retries=0)
            for namespace in settings.namespace_names
        ]

    async def slots(self) -> float:
        """Slots that are needed now."""
        needed = 0.0
        for client in self._clients:
            for pool in self._pools:
                scale = await client.pool_scale(
                    pool,
                    target_lag_seconds=self._target_lag_seconds,
                    slots_per_worker=self._slots_per_worker,
                    hold_seconds=0,  # we remember ourselves
                )
                needed += scale.wanted_slots
        return needed

    async def busy(self) -> dict[int, int]:
        """How many runs the workers of this host have, by their process."""
        here = socket.gethostname()
        workers = [worker for client in self._clients for worker in await client.workers()]
        return {worker.pid: worker.busy for worker in workers if worker.host == here and worker.status != "gone"}

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


class Autoscaler(Service):
    """Starts and drains workers, one decision in a round."""

    jitter = 0

    def __init__(
        self,
        settings: Settings,
        apps: Sequence[str],
        limits: ScaleLimits,
        *,
        needs: PoolNeeds | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limits = limits
        self._slots = settings.slots
        self._monotonic = monotonic
        self._needs = needs or PoolNeeds(settings, limits.target_lag_seconds)
        self._arguments = ["worker", *(word for app in apps for word in ("--app", app)), "--home", str(settings.home)]
        self._environment = environment_of(settings) | {"ROTA_DRAIN_SECONDS": str(limits.drain_seconds)}
        self._environment.pop("ROTA_JWT_SECRET", None)  # only the server checks tokens
        self._started = 0
        self._answers: deque[tuple[float, int]] = deque()  # how many were wanted when; the first may be older
        self._stopped = asyncio.Event()
        self._group = ServiceGroup()
        self.workers = ChildWorkers(self._group, self._make, patience=lambda: limits.drain_seconds + KILL_AFTER_SECONDS)

    @property
    def pause_seconds(self) -> float:
        return self._limits.interval_seconds

    async def run_all(self) -> None:
        """Runs until stopped; then all workers drain."""
        await run_until_stopped(self._run_together(), on_stop=self.stop)

    async def stop(self) -> None:
        await self._group.stop(self)
        await self.workers.stop()
        self._stopped.set()

    async def tick(self) -> int:
        """Returns how many workers were started or drained."""
        self._raise_to(self._limits.least)
        wanted = self._within(workers_for(await self._needs.slots(), self._slots))
        now = self._monotonic()
        self._answers.append((now, wanted))
        while len(self._answers) > 1 and self._answers[1][0] <= now - self._limits.cooldown_seconds:
            self._answers.popleft()
        there = len(self.workers.active)
        if wanted > there:
            return self._raise_to(wanted)
        enough = max(number for _, number in self._answers)
        if enough < there and self._answers[0][0] <= now - self._limits.cooldown_seconds:
            return await self._lower_to(enough)
        return 0

    async def close(self) -> None:
        await self._needs.close()

    async def _run_together(self) -> None:
        self._group.add(self)
        async with self._group:
            await self._stopped.wait()

    def _within(self, wanted: int) -> int:
        return max(self._limits.least, min(self._limits.most, wanted))

    def _raise_to(self, wanted: int) -> int:
        missing = wanted - len(self.workers.active)
        for _ in range(missing):
            self._started += 1
            self.workers.start(f"worker {self._started}")
        if missing > 0:
            _log.info("more workers", workers=wanted, started=missing)
        return max(missing, 0)

    async def _lower_to(self, wanted: int) -> int:
        busy = await self._needs.busy()
        spare = sorted(self.workers.active, key=lambda worker: busy.get(_pid(worker), 0))
        drained = spare[: len(spare) - wanted]
        for worker in drained:
            self.workers.drain(worker)
        _log.info("fewer workers", workers=wanted, draining=self.workers.draining)
        return len(drained)

    def _make(self, name: str) -> SupervisedProcess:
        return SupervisedProcess(name, self._arguments, self._environment)


def _pid(worker: SupervisedProcess) -> int:
    return worker.process.pid if worker.process else 0
