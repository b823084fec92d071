"""Recalled runs: their job was changed, paused or cancelled while a worker held them and had not started them.

The worker released the run; this service lets it go on with the job's current definition, holds it, drops it or cancels
it. The decision applies only if the job has not changed again since it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.domain.run import RecalledRun, judge_recalled
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.service import in_turns
from rota.store.change.recalled import RecalledRuns

_RUNS_PER_SHARD = 100
_RUNS_PER_STATEMENT = 1000


class Recaller(ShardService):
    """Decides what happens to recalled runs."""

    interval_seconds = 1.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, recalled: RecalledRuns, **shared: Any) -> None:
        super().__init__(**shared)
        self._recalled = recalled
        self._aside = SetAside("a recalled run can't be decided and is passed over")

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many recalled runs were decided."""
        recalled = await self._recalled.find(owned, _RUNS_PER_SHARD + self._aside.begin())
        judged: list[tuple[RecalledRun, str]] = []
        done = 0
        async for run in in_turns(recalled):
            if fate := self._judge(run):
                judged.append((run, fate))
            if len(judged) >= _RUNS_PER_STATEMENT:
                done += await self._decide(judged)
                judged = []
        return done + await self._decide(judged)

    def _judge(self, run: RecalledRun) -> str | None:
        if self._aside.passes_over(_key(run)):
            return None
        try:
            return judge_recalled(run)
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            self._set_aside(run, error)
            return None

    async def _decide(self, judged: list[tuple[RecalledRun, str]]) -> int:
        rejected = await self._recalled.decide(judged) if judged else []
        for run, error in rejected:
            self._set_aside(run, error)
        return len(judged) - len(rejected)

    def _set_aside(self, run: RecalledRun, error: Exception) -> None:
        self._aside.add(_key(run), error, run_id=str(run.id), job_id=str(run.job_id))


def _key(run: RecalledRun) -> tuple[object, ...]:
    return run.namespace, run.id, run.version
