"""Limits of tenants: of a namespace, or of an owner or key in it."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec

Kind = Literal["requests", "jobs"]
WHOLE = ""  # the subject of the namespace as a whole
_BURST_SECONDS = 5.0  # the default size of a bucket
# The least size: servers fetch tokens now and then, and tokens that don't fit meanwhile would be lost.
_LEAST_BURST_SECONDS = 0.1
SLOWEST_PER_SECOND = 0.001
FASTEST_PER_SECOND = 1_000_000.0


class Rate(NamedTuple):
    """How fast a bucket fills, and how much it holds."""

    per_second: float
    burst: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits; None: no limit."""

    requests_per_second: float | None = None
    request_burst: int | None = None
    jobs_per_second: float | None = None
    job_burst: int | None = None
    most_waiting: int | None = None
    largest_payload_bytes: int | None = None
    largest_batch: int | None = None
    most_fan_out: int | None = None

    def rate(self, kind: Kind) -> Rate | None:
        """The rate limit of requests or jobs; None: no limit."""
        if kind == "requests":
            return rate_of(self.requests_per_second, self.request_burst)
        return rate_of(self.jobs_per_second, self.job_burst)


def rate_of(per_second: float | None, burst: int | None) -> Rate | None:
    """A rate with the given burst, or the default one."""
    if per_second is None:
        return None
    wanted = _BURST_SECONDS * per_second if burst is None else burst
    return Rate(per_second, max(1, math.ceil(wanted), math.ceil(_LEAST_BURST_SECONDS * per_second)))
