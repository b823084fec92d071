"""What a worker did since its last beat, by namespace and pool: counted here, written with the beat.

Only what was recorded counts, so that a report that came too late is no success. Counts whose beat was not answered go
into the next: if it was carried out all the same they are there twice, which a view of the last minutes can bear.
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
        self._known: set[int] = set()  # claims that go on, and whose start has been counted

    def goes_on(self, claim: Claim, started: float) -> None:
        """An attempt that has started and not ended; may be told several times."""
        if claim.number not in self._known:
            self._known.add(claim.number)
            self._start(claim, started)

    def ended(self, claim: Claim, started: float | None, disposition: Disposition) -> None:
        """An attempt that has ended and was recorded."""
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
        """Claims that are not ours any more."""
        self._known.difference_update(claims)

    def take(self) -> list[PoolActivity]:
        """Everything since the last time."""
        done, self._done = list(self._done.values()), {}
        return done

    def give_back(self, done: Iterable[PoolActivity]) -> None:
        """What could not be written goes into the next beat."""
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
