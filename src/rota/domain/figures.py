"""The figures that operators ask for, from counts that add up: of workers, pools, minutes.

Success rate, start lag, queue depth, worker utilisation, retry rate, dead letters. Whatever shows one of them computes
it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from rota.domain.lag_histogram import STEPS

PORTION = timedelta(seconds=5)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
_COUNTS = ("started", "succeeded", "failed", "retried", "run_seconds")
_GAUGES = ("looks", "queued", "running", "slots", "busy", "dead_letters")


class Totals(msgspec.Struct, kw_only=True):
    """What went on in a stretch of time.

    From `queued` on the numbers are sums over `looks`, so that they add up; `most_queued` is the most of one look.
    """

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    run_seconds: float = 0.0
    lags: list[int] = msgspec.field(default_factory=lambda: [0] * STEPS)
    durations: list[int] = msgspec.field(default_factory=lambda: [0] * STEPS)
    looks: int = 0
    queued: int = 0
    most_queued: int = 0
    running: int = 0
    slots: int = 0
    busy: int = 0
    dead_letters: int = 0
    blocked: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def success_rate(self) -> float | None:
        """The share of runs that succeeded, of those that ended."""
        return share_of(self.succeeded, self.succeeded + self.failed)

    @property
    def retry_rate(self) -> float | None:
        """The share of ended attempts that are retried."""
        return share_of(self.retried, self.succeeded + self.failed + self.retried)

    @property
    def utilisation(self) -> float | None:
        """The share of slots that were busy."""
        return share_of(min(self.busy, self.slots), self.slots)

    def per_look(self, number: int) -> float | None:
        """The mean of a number that was summed over the looks; None if there was none."""
        return round(number / self.looks, 2) if self.looks else None

    def add(self, other: Totals) -> None:
        for name in (*_COUNTS, *_GAUGES):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.most_queued = max(self.most_queued, other.most_queued)
        self.lags = _sums(self.lags, other.lags)
        self.durations = _sums(self.durations, other.durations)
        for gate, runs in other.blocked.items():
            self.blocked[gate] = self.blocked.get(gate, 0) + runs


def added(some: Iterable[Totals]) -> Totals:
    """All of them together."""
    total = Totals()
    for one in some:
        total.add(one)
    return total


def share_of(part: float, whole: float) -> float | None:
    """A share, to four digits; None of nothing."""
    return round(part / whole, 4) if whole else None


def steps_of(counts: Mapping[str, int] | None) -> list[int]:
    """A histogram as it is stored, by step, as the list of all steps."""
    steps = [0] * STEPS
    for step, many in (counts or {}).items():
        steps[int(step)] = many
    return steps


def _sums(mine: list[int], its: list[int]) -> list[int]:
    return [one + other for one, other in zip(mine, its, strict=True)]
