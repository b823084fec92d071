"""The outlook: lets the services of a scheduler sleep while nothing is due.

Without it each service asks the database several times a second whether there is something to do. The outlook asks for
all of them, every few seconds, when each has something to do next, and lets each sleep until then. What comes up sooner
is told by a wake-up, sent after the commit that wrote it (store/postgres/wakeups.py). A wake-up that is lost costs at
most the time until the next outlook, because that looks at everything and begins at no position.

Who decides. Only an outlook puts a service to sleep. A wake-up, new shards, a jump of the database's clock, or a pause
of this process or machine (lease_keeper.py) ends the sleep, and the service polls as usual until a later outlook. An
answer to a question that was asked before a wake-up, or within a second after it, puts no service to sleep.

Where wake-ups can't be heard (they are off, a pooler is in between, or the connection that listens is lost), no service
sleeps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from rota.domain.misfire import MISSED_AFTER
from rota.domain.run import LOOKAHEAD
from rota.scheduler.admitter import Admitter
from rota.scheduler.conductor import Conductor
from rota.scheduler.expirer import Expirer
from rota.scheduler.firer import REFILL, Firer
from rota.scheduler.gate_inspector import GateInspector
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.member_maker import MemberMaker
from rota.scheduler.misfire_judge import MisfireJudge
from rota.scheduler.operation_runner import OperationRunner
from rota.scheduler.promoter import Promoter
from rota.scheduler.recaller import Recaller
from rota.scheduler.shard_service import ShardService
from rota.store.foresee import ForeseenWork, Foresight

_LONGEST_SLEEP_SECONDS = 6.0  # more than the time between two outlooks
_SHARE = 0.05  # of the time, at most, is spent on looking

# In how many seconds each service has something to do.
_WORK_OF: Mapping[type[ShardService], Callable[[ForeseenWork], float]] = {
    Firer: lambda work: work.fires_in - REFILL.total_seconds(),
    Promoter: lambda work: work.starts_in - LOOKAHEAD.total_seconds(),
    MisfireJudge: lambda work: work.starts_in + MISSED_AFTER.total_seconds(),
    Admitter: lambda work: work.admits_in,
    Expirer: lambda work: work.expires_in,
    Recaller: lambda work: 0.0 if work.is_recalled else math.inf,
    GateInspector: lambda work: 0.0 if work.is_held else math.inf,
    Conductor: lambda work: 0.0 if work.is_mapped else work.conducts_in,
    MemberMaker: lambda work: 0.0 if work.is_mapped else math.inf,
    OperationRunner: lambda work: 0.0 if work.is_operating else math.inf,
}


class Outlook(ShardService):
    """Puts services to sleep until they have something to do."""

    interval_seconds = 4.5  # with its jitter, less than five

    def __init__(
        self,
        *,
        foresight: Foresight,
        sleepers: tuple[ShardService, ...],
        is_listening: Callable[[], bool],
        leases: LeaseKeeper,
    ) -> None:
        super().__init__(leases=leases)
        self._foresight = foresight
        self._sleepers = sleepers
        self._is_listening = is_listening
        self._cost_seconds = 0.0

    @property
    def pause_seconds(self) -> float:
        """Longer than usual where the look was costly."""
        return max(self.interval_seconds, self._cost_seconds / _SHARE)

    def wake_all(self) -> None:
        """What is due may differ from what was known: every service looks now."""
        for service in self._sleepers:
            service.wake()

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns 0: what is due is done by the others."""
        if not self._is_listening():
            for service in self._sleepers:
                service.rouse()
            return 0
        asked_at = time.monotonic()
        try:
            work = await self._foresight.look(owned)
        finally:
            self._cost_seconds = time.monotonic() - asked_at
        for service in self._sleepers:
            pause = min(_WORK_OF[type(service)](work), _LONGEST_SLEEP_SECONDS)
            service.sleep(asked_at + pause, known_at=asked_at)
        return 0
