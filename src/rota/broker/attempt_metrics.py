"""Counts attempts of a worker for its metrics, a batch of reports at a time.

What was recorded counts, so a fenced report is no end. A long attempt counts as started when its start is recorded;
of the others, start and end are counted together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product

from rota.domain.fleet import WorkerProfile
from rota.domain.run import SUCCESS, Claim, Disposition, Outcome, Report
from rota.metrics.catalogue import Metrics
from rota.metrics.instruments import Labels

_MOST_EXPECTED = 100  # combinations of labels
_NONE: frozenset[int] = frozenset()


class AttemptMetrics:
    """Counts the attempts of one worker."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._by_task = metrics.task_label
        self._places: dict[Labels, _Place] = {}
        self._known: set[int] = set()  # running claims whose start has been counted

    def expect(self, profile: WorkerProfile) -> None:
        """Begins to count at zero what this worker may run: rates miss what a counter begins with."""
        self._metrics.fenced.of()
        tasks = profile.tasks if self._by_task else ("",)
        if len(profile.namespaces) * len(profile.pools) * len(tasks) > _MOST_EXPECTED:
            return
        for namespace, pool, task in product(profile.namespaces, profile.pools, tasks):
            labels = self._metrics.run_labels(namespace, pool, task)
            self._place(labels).expect_failures()

    def goes_on(self, claim: Claim, started: float) -> None:
        """Counts the start of a running attempt, once."""
        if claim.number not in self._known:
            self._known.add(claim.number)
            place = self._place_of(claim)
            place.start(claim, started)
            place.flush()

    def ended(
        self,
        reports: Sequence[Report],
        dispositions: Mapping[int, Disposition],
        unrecorded: Collection[int] = _NONE,
    ) -> None:
        """Counts attempts whose end was recorded, and the starts of those that are new."""
        known, by_task, places = self._known, self._by_task, self._places
        touched: set[_Place] = set()
        for report in reports:
            claim = report.claim
            number = claim.number
            if unrecorded and number in unrecorded:
                continue
            labels = (claim.namespace, claim.pool, claim.task) if by_task else (claim.namespace, claim.pool)
            place = places.get(labels)
            if place is None:
                place = self._place_of(claim)
            touched.add(place)
            started = report.started
            if started is not None:
                place.durations.append(report.ended - started)
                if known and number in known:
                    known.discard(number)
                else:
                    place.start(claim, started)
            if report.outcome is SUCCESS:  # the hot case
                place.succeeded += 1
            else:
                place.end(report.outcome, dispositions.get(number))
        for place in touched:
            place.flush()

    def settled(
        self, reports: Iterable[Report], dispositions: Mapping[int, Disposition], unrecorded: Collection[int]
    ) -> None:
        """Counts the ends of attempts that others began: those of lost workers."""
        for report in reports:
            claim = report.claim
            if claim.number not in unrecorded:
                self._place_of(claim).end(report.outcome, dispositions.get(claim.number))

    def forget(self, claims: Iterable[int]) -> None:
        """Forgets claims that are no longer ours."""
        self._known.difference_update(claims)

    def fenced(self, many: int) -> None:
        """Counts reports that came too late."""
        self._metrics.fenced.of().add(many)

    def _place_of(self, claim: Claim) -> _Place:
        return self._place(self._metrics.run_labels(claim.namespace, claim.pool, claim.task))

    def _place(self, labels: Labels) -> _Place:
        found = self._places.get(labels)
        if found is None:
            # Beyond the most series, many labels share the place of `other`.
            place = _Place(self._metrics, labels)
            found = self._places.setdefault(place.labels, place)
        return found


class _Place:
    """Attempts with the same labels: what has not been counted yet, and the series that count it."""

    def __init__(self, metrics: Metrics, labels: Labels) -> None:
        started = metrics.attempts_started
        self.labels = labels if started.has_room_for(labels) else started.others(labels)
        self._metrics = metrics
        self._starts = started.of(*self.labels)
        self._successes = metrics.attempts_ended.of(*self.labels, SUCCESS.value)
        self._lag = metrics.start_lag.of(*self.labels)
        self._queue = metrics.queue.of(*self.labels)
        self._duration = metrics.duration.of(*self.labels)
        self.lags: list[float] = []
        self.waits: list[float] = []
        self.durations: list[float] = []
        self.succeeded = 0

    def expect_failures(self) -> None:
        """Shows zero for what most tasks do now and then."""
        for series in (self._metrics.retries, self._metrics.buried):
            series.of(*self.labels)
        self._metrics.attempts_ended.of(*self.labels, Outcome.failed.value)

    def start(self, claim: Claim, started: float) -> None:
        self.waits.append(started - claim.ready)
        if not claim.attempt:
            self.lags.append(started - claim.nominal)

    def end(self, outcome: str, disposition: Disposition | None) -> None:
        """Counts an attempt that did not succeed."""
        self._metrics.attempts_ended.of(*self.labels, str(outcome)).add()
        if disposition is Disposition.retry:
            self._metrics.retries.of(*self.labels).add()
        elif disposition is Disposition.bury:
            self._metrics.buried.of(*self.labels).add()

    def flush(self) -> None:
        """Adds what was gathered to the series."""
        if self.waits:
            self._starts.value += len(self.waits)
            self._queue.observe(self.waits)
            self.waits = []
        if self.lags:
            self._lag.observe(self.lags)
            self.lags = []
        if self.durations:
            self._duration.observe(self.durations)
            self.durations = []
        self._successes.value += self.succeeded
        self.succeeded = 0
