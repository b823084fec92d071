"""Firing: schedules become runs a little ahead of their time.

A job's mark (`fired_through`) is the last fire time that became a run. One statement moves the mark and makes the runs,
if the job has not changed since it was read. So each nominal time becomes exactly one run, through any crash and with
any number of schedulers. Run ids are a function of (job, nominal time), so even a wrong mark could not make a second
run. The mark never goes back with the clock.

Missed times are judged when their runs are planned (domain/firing.py). Runs that were already made are judged by the
same rule when they are due (misfire_judge.py).

Catching up. After an outage, thousands of schedules can each have hundreds of missed fire times. They are written in
statements of about RUNS_PER_STATEMENT runs: each is durable by itself, and none comes near a timeout. In each round,
schedules that are on time go first, then the most overdue ones. A round ends after ROUND_SECONDS, but not before it has
written one statement for late schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from rota.clock import Deadline
from rota.domain.firing import HORIZON, Firing, ScheduledJob, plan_firing
from rota.metrics.catalogue import Metrics
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.service import in_turns
from rota.store.fire import Schedules

# Runs are made up to HORIZON ahead, which bridges the loss of a scheduler. A job is due again when less than REFILL of
# that is left, so that a frequent schedule fires several runs at a time.
REFILL = timedelta(seconds=6)
RUNS_PER_STATEMENT = 1000
ROUND_SECONDS = 1.0
_JOBS_PER_SHARD = 100
_LATE_PER_SHARD = 10


class Firer(ShardService):
    """Makes the runs of schedules that fire soon."""

    interval_seconds = 0.5
    full_round = _JOBS_PER_SHARD

    def __init__(
        self,
        *,
        schedules: Schedules,
        leases: LeaseKeeper,
        on_fired: Callable[[Sequence[tuple[int, datetime]]], None],
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(leases=leases)
        self._schedules = schedules
        self._on_fired = on_fired
        self._metrics = metrics or Metrics()
        self._aside = SetAside("a schedule can't be fired and is passed over")

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Fires all times within the horizon; returns how many jobs fired."""
        more = self._aside.begin()
        due = await self._schedules.due_jobs(owned, REFILL, _JOBS_PER_SHARD + more, _LATE_PER_SHARD + more)
        deadline = Deadline(ROUND_SECONDS)
        firings: list[Firing] = []
        fired = runs = 0
        async for job in in_turns(due):
            if firing := self._plan(job):
                firings.append(firing)
                runs += len(firing.runs)
            if runs < RUNS_PER_STATEMENT:
                continue
            fired += await self._fire(owned, firings)
            firings, runs = [], 0
            if deadline.is_over and job.is_late:
                self._schedules.look_anew()
                return max(fired, _JOBS_PER_SHARD)
        return fired + await self._fire(owned, firings)

    def _plan(self, job: ScheduledJob) -> Firing | None:
        if self._aside.passes_over(_key(job)):
            return None
        try:
            return plan_firing(job, HORIZON)
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            self._aside.add(_key(job), error, job_id=str(job.id))
            return None

    async def _fire(self, owned: Mapping[int, int], firings: Sequence[Firing]) -> int:
        done = await self._schedules.fire(owned, firings)
        for firing, error in done.rejected:
            self._aside.add(_key(firing.job), error, job_id=str(firing.job.id))
        for counts, counter in ((done.made, self._metrics.fires), (done.missed, self._metrics.missed)):
            for namespace, many in counts.items():
                counter.of(namespace).add(many)
        if done.runs:
            self._on_fired(done.runs)
        return len(firings) - len(done.rejected)


def _key(job: ScheduledJob) -> tuple[object, ...]:
    return job.namespace, job.id, job.version
