"""A worker's activity since its last beat, by namespace and pool, and by task; written with the beat.

Only recorded attempts count, so a fenced report is not a success. Counts of an unanswered beat go into the next one: if
the first was written after all they count twice, which is acceptable for statistics of the last minutes.

Pools are told with each beat. Tasks are told twice a minute, the busiest first: what has no room then is told later. So
a thousand workers with twenty tasks each write some hundred rows a second, and not twenty thousand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rota.domain.lag_histogram import step_of
from rota.domain.run import Claim, Disposition, Report
from rota.store.claim import AttemptCounts, Done

TASKS_SECONDS = 30.0
MOST_TASKS = 50


class PoolTally:
    """Counts starts and ends of attempts."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._done: dict[tuple[str, str, str], AttemptCounts] = {}  # by namespace, pool and task
        self._untold: dict[tuple[str, str], AttemptCounts] = {}  # by namespace and pool, of beats that failed
        self._tasks: dict[tuple[str, str], AttemptCounts] = {}  # by namespace and task: what was not told yet
        self._known: set[int] = set()  # running claims whose start has been counted
        self._monotonic = monotonic
        self._tasks_told_at = monotonic()

    def goes_on(self, claim: Claim, started: float) -> None:
        """Counts the start of a running attempt, once."""
        if claim.number not in self._known:
            self._known.add(claim.number)
            _start(self._of(claim), claim, started)

    def ended(self, report: Report, disposition: Disposition) -> None:
        """Counts the end of a recorded attempt, and its start if that is new."""
        claim, started = report.claim, report.started
        done = self._of(claim)
        if claim.number in self._known:
            self._known.discard(claim.number)
        elif started is not None:
            _start(done, claim, started)
        if disposition is Disposition.succeed:  # the hot case
            done.succeeded += 1
        elif disposition is Disposition.bury:
            done.failed += 1
        elif disposition is Disposition.retry:
            done.retried += 1
        else:
            return
        if started is not None:
            seconds = report.ended - started
            done.durations[step_of(seconds)] += 1
            done.run_seconds += max(0.0, seconds)

    def forget(self, claims: Iterable[int]) -> None:
        """Forgets claims that are no longer ours."""
        self._known.difference_update(claims)

    def take(self, *, whole: bool = False) -> Done:
        """Returns the counts and starts again from zero; those of tasks if it is time, or the `whole` is asked for."""
        pools, self._untold = self._untold, {}
        for (namespace, pool, task), counts in self._done.items():
            _add(pools, (namespace, pool), counts)
            _add(self._tasks, (namespace, task), counts)
        self._done = {}
        now = self._monotonic()
        if not (whole or now >= self._tasks_told_at + TASKS_SECONDS):
            return Done(list(pools.values()))
        self._tasks_told_at = now
        busiest = sorted(self._tasks, key=lambda key: self._tasks[key].started, reverse=True)[:MOST_TASKS]
        return Done(list(pools.values()), [self._tasks.pop(key) for key in busiest])

    def give_back(self, done: Done) -> None:
        """Adds counts that could not be written to the next beat."""
        for one in done.pools:
            # Its tasks are counted already.
            _add(self._untold, (one.namespace, one.name), one)
        for one in done.tasks:
            _add(self._tasks, (one.namespace, one.name), one)

    def _of(self, claim: Claim) -> AttemptCounts:
        key = (claim.namespace, claim.pool, claim.task)
        found = self._done.get(key)
        if found is None:
            found = self._done[key] = AttemptCounts(claim.namespace, claim.pool)
        return found


def _start(done: AttemptCounts, claim: Claim, started: float) -> None:
    done.started += 1
    done.lags[step_of(started - claim.ready)] += 1


def _add(counts: dict[tuple[str, str], AttemptCounts], key: tuple[str, str], more: AttemptCounts) -> None:
    found = counts.get(key)
    if found is None:
        found = counts[key] = AttemptCounts(*key)
    found.add(more)
