"""How late attempts start and how long they take, counted in steps of 1, 2, 4, … milliseconds so that counts of many
workers add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

STEPS = 32  # the last takes everything above: 2**30 milliseconds are twelve days


def step_of(lag_seconds: float) -> int:
    """The step of a lag, from 0; a start that looks early counts as on time."""
    milliseconds = int(lag_seconds * 1000)
    return min(milliseconds.bit_length(), STEPS - 1) if milliseconds > 0 else 0


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Seconds within which this share of attempts started, rounded up to a step; None if there are none."""
    wanted = share * sum(counts)
    seen = 0
    for step, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return (1 << step) / 1000
    return None


def exact_quantile(ordered: Sequence[float], share: float) -> float | None:
    """The same of single values in order, by the nearest rank; None if there are none."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]
