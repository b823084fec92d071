"""A worker's activity since its last beat, by namespace and pool; written with the beat.

Only recorded attempts count, so a fenced report is not a success. Counts of an unanswered beat go into the next one: if
the first was written after all they count twice, which is acceptable for statistics of the last minutes.
"""

from __future__ import annotations

from collections.abc import Iterable

from rota.domain.lag_histogram import step_of
from rota.domain.run import Claim, Disposition
from rota.store.claim import PoolActivity, PoolKey


class PoolTally:
    """Counts starts and ends of attempts."""

    def __init__(self) -> None:
        self._done: dict[PoolKey, PoolActivity] = {}
        self._known: set[int] = set()  # running claims whose start has been counted

    def goes_on(self, claim: Claim, started: float) -> None:
        """Counts the start of a running attempt, once."""
        if claim.number not in self._known:
            self._known.add(claim.number)
            self._start(claim, started)

    def ended(self, claim: Claim, started: float | None, disposition: Disposition) -> None:
        """Counts the end of a recorded attempt, and its start if that is new."""
        if claim.number in self._known:
            self._known.discard(claim.number)
        elif started is not None:
            self._start(claim, started)
        if disposition is Disposition.succeed:  # the hot case
            self._of(claim).succeeded += 1
        elif disposition is Disposition.bury:
            self._of(claim).failed += 1
        elif disposition is Disposition.retry:
            self._of(claim).retried += 1

    def forget(self, claims: Iterable[int]) -> None:
        """Forgets claims that are no longer ours."""
        self._known.difference_update(claims)

    def take(self) -> list[PoolActivity]:
        """Returns the counts and starts again from zero."""
        done, self._done = list(self._done.values()), {}
        return done

    def give_back(self, done: Iterable[PoolActivity]) -> None:
        """Adds counts that could not be written to the next beat."""
        for one in done:
            place = self._done.setdefault((one.namespace, one.pool), PoolActivity(one.namespace, one.pool))
            place.started += one.started
            place.succeeded += one.succeeded
            place.failed += one.failed
            place.retried += one.retried
            place.lags = [mine + its for mine, its in zip(place.lags, one.lags, strict=True)]

    def _start(self, claim: Claim, started: float) -> None:
        done = self._of(claim)
        done.started += 1
        done.lags[step_of(started - claim.ready)] += 1

    def _of(self, claim: Claim) -> PoolActivity:
        key = (claim.namespace, claim.pool)
        found = self._done.get(key)
        if found is None:
            found = self._done[key] = PoolActivity(*key)
        return found
