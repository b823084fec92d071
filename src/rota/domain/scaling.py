"""How many workers a pool needs, from what waits and runs there.

Slots are needed for what runs, at least one each, so long runs are never scaled away; for as many runs as arrive in the
time that one takes; and for what waits to start within the target lag. A slot starts a run each `run_seconds`, so until
then `target / run_seconds` of them, and those that become free are counted on. If a run has waited longer than the
target, that was wrong: then slots are needed besides those that are occupied, the more the longer it has waited.

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
    lateness = load.oldest_seconds / target_seconds
    return _needed(load, target_seconds, queued=load.queued, running=load.staying, slots=load.slots, lateness=lateness)


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
    load: PoolLoad, target_seconds: float, *, queued: int, running: int, slots: int, lateness: float = 0.0
) -> float:
    # Of very short runs a worker claims more than it has slots: the rest waits, though no longer in the queue.
    occupied = min(running, slots)
    if load.paused:
        return occupied
    waiting = queued + running - occupied
    run_seconds = target_seconds if load.run_seconds is None else load.run_seconds
    part = min(1.0, run_seconds / target_seconds)  # of a slot, for each run
    if lateness > 1:
        return occupied + waiting * min(1.0, part * lateness)
    return max(occupied, load.starts_per_second * run_seconds, (waiting + occupied) * part)
