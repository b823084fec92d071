"""Misfires: scheduled runs that were not promoted in time, because all schedulers were down.

Their job's rule decides which still run (by default the latest, within an hour); the others are recorded as skipped,
with the reason. The rule is in domain/misfire.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from rota.domain.misfire import judge_late
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.service import in_turns
from rota.store.promote import MissedRun, Promotions

_RUNS_PER_SHARD = 100
RUNS_PER_STATEMENT = 1000


class MisfireJudge(ShardService):
    """Promotes missed runs that should still run, and skips the others."""

    interval_seconds = 2.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._promotions = promotions
        self._aside = SetAside("a missed run can't be judged and is passed over")

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Judges runs that are too late for the promoter; returns how many."""
        missed = await self._promotions.missed_runs(owned, _RUNS_PER_SHARD + self._aside.begin())
        judged: list[tuple[MissedRun, str | None]] = []
        done = 0
        async for runs in in_turns(_of_each_job(missed)):
            judged += self._judge(runs)
            if len(judged) >= RUNS_PER_STATEMENT:
                done += await self._settle(judged)
                judged = []
        return done + await self._settle(judged)

    def _judge(self, runs: Sequence[MissedRun]) -> list[tuple[MissedRun, str | None]]:
        """A job's runs, each with the reason to skip it; none if they can't be judged."""
        job = runs[0]
        runs = [run for run in runs if not self._aside.passes_over(_job(run)) and not self._aside.passes_over(run.id)]
        try:
            reasons = _judge_late(runs) if runs else []
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            self._aside.add(_job(job), error, job_id=str(job.job_id))
            return []
        return list(zip(runs, reasons, strict=True))

    async def _settle(self, judged: Sequence[tuple[MissedRun, str | None]]) -> int:
        skips = [(run.namespace, run.id, reason) for run, reason in judged if reason]
        for run_id, error in await self._promotions.skip(skips):
            self._aside.add(run_id, error, run_id=str(run_id))
        await self._promotions.promote_runs([(run.namespace, run.id) for run, reason in judged if not reason])
        return len(judged)


def _judge_late(runs: Sequence[MissedRun]) -> list[str | None]:
    job = runs[0]
    return judge_late(
        [run.nominal_at for run in runs],
        job.job_id,
        job.timetable,
        job.database_time,
        fired_through=job.fired_through,
        next_fire_at=job.next_fire_at,
    )


def _of_each_job(missed: Sequence[MissedRun]) -> Iterator[list[MissedRun]]:
    def job_of(run: MissedRun) -> tuple[str, UUID]:
        return run.namespace, run.job_id

    for _, runs in groupby(sorted(missed, key=job_of), job_of):
        yield list(runs)


def _job(run: MissedRun) -> tuple[object, ...]:
    return run.namespace, run.job_id, run.version
