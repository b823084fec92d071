"""Rules of operations on many runs: how much may be made at a time, and when too much has failed.

An operation makes runs while fewer than `concurrency` of its runs have not ended, and not faster than its rate. It is
stopped when the share of its runs that failed is above the one that is tolerated.
"""

from __future__ import annotations

from datetime import datetime, timedelta

MOST_OPEN = 20  # operations of a namespace that have not ended
MOST_CONCURRENCY = 10_000
MOST_RUNS = 100_000  # of one operation
# Below so many ends a share says little: that many are taken to have ended.
LEAST_JUDGED = 10
_SLOTS_PER_OPERATION = 4  # one in so many slots, if nothing else is said
_BURST_SECONDS = 1.0  # of a rate that was not used


def usual_concurrency(slots: int) -> int:
    """How many runs of an operation there may be at a time: a quarter of the slots, at least one."""
    return min(MOST_CONCURRENCY, max(1, slots // _SLOTS_PER_OPERATION))


def has_failed_too_often(ended: int, failed: int, tolerated: float | None) -> bool:
    """Whether more than the tolerated share of the runs that ended failed."""
    return tolerated is not None and failed > tolerated * max(ended, LEAST_JUDGED)


def paced(rate: float | None, used_to: datetime | None, now: datetime, wanted: int) -> tuple[int, datetime | None]:
    """How many of the wanted runs the rate allows now, and up to when it is used up if all of these are made.

    What was not used is not saved up, beyond a second or one run. A clock that went back delays.
    """
    if rate is None:
        return wanted, None
    step = timedelta(seconds=1 / rate)
    earliest = now - max(step, timedelta(seconds=_BURST_SECONDS))
    begin = earliest if used_to is None else max(used_to, earliest)
    allowed = max(0, min(wanted, (now - begin) // step))
    return allowed, begin + allowed * step


def seconds_for(runs: int, concurrency: int, rate: float | None, run_seconds: float | None) -> float | None:
    """How long so many runs take, if each takes `run_seconds`; None: not known."""
    by_rate = runs / rate if rate else None
    by_runs = None if run_seconds is None else run_seconds * -(-runs // concurrency)
    known = [seconds for seconds in (by_rate, by_runs) if seconds is not None]
    return max(known, default=None)
