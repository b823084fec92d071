"""How many workers a pool needs, from what waits and runs there.

A worker's slots are needed for two things. Runs that run occupy one each, or as many as arrive in the time that one
takes, if that is more. What waits should have started within the target lag: a slot that starts a run every
`run_seconds` starts `target / run_seconds` of them until then. Runs that have waited longer than the target show that
this was too little, and weigh more.

Nothing is remembered here. So that the answer does not flap, it falls below the workers that are there only if no
sample of the last minutes needed them; it rises at once.
"""

from __future__ import annotations

import math

import msgspec

MOST_WORKERS = 10_000


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pool."""

    queued: int
    running: int
    staying: int  # running, on workers that will take more
    oldest_seconds: float = 0.0  # how long the oldest queued run has waited
    workers: int = 0  # that will take more
    slots: int = 0  # theirs
    paused: bool = False
    run_seconds: float | None = None  # the mean of late; None: unknown
    starts_per_second: float = 0.0
    seen: list[tuple[int, int, int]] = []  # queued, running, slots: of samples

    @property
    def is_known(self) -> bool:
        """Whether there is, or was of late, anything of this pool."""
        return bool(self.queued or self.running or self.workers or self.run_seconds is not None or self.seen)


def wanted_slots(load: PoolLoad, target_seconds: float) -> float:
    """Slots that the pool needs now."""
    lateness = max(1.0, load.oldest_seconds / target_seconds)
    return _needed(load, target_seconds, queued=load.queued, running=load.staying, slots=load.slots, weight=lateness)


def wanted_workers(
    load: PoolLoad, *, target_seconds: float, slots_per_worker: int, least: int = 0, most: int = MOST_WORKERS
) -> int:
    """Workers that the pool needs, within these bounds; 0 for a pool of which nothing is known."""
    if not load.is_known:
        return 0
    now = workers_for(wanted_slots(load, target_seconds), slots_per_worker)
    before = max(
        (
            workers_for(_needed(load, target_seconds, queued=queued, running=running, slots=slots), slots_per_worker)
            for queued, running, slots in load.seen
        ),
        default=0,
    )
    return max(least, min(most, max(now, min(before, load.workers))))


def workers_for(slots: float, slots_per_worker: int) -> int:
    """So many workers have these slots."""
    return math.ceil(round(slots / slots_per_worker, 6))  # not one more for the last digit of a float


def _needed(
    load: PoolLoad, target_seconds: float, *, queued: int, running: int, slots: int, weight: float = 1.0
) -> float:
    # Of very short runs a worker claims more than it has slots: the rest waits, though no longer in the queue.
    occupied = min(running, slots)
    waiting = 0 if load.paused else queued + running - occupied
    run_seconds = target_seconds if load.run_seconds is None else load.run_seconds
    arriving = 0.0 if load.paused else load.starts_per_second * run_seconds
    return max(occupied, arriving) + min(waiting, waiting * run_seconds / target_seconds * weight)
