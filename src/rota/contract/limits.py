"""Limits of a namespace, and of those in it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from rota.contract.fields import In, Out
from rota.settings import FASTEST_PER_SECOND, SLOWEST_PER_SECOND

PerSecond = Annotated[float, Meta(ge=SLOWEST_PER_SECOND, le=FASTEST_PER_SECOND)]
Burst = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Most = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Largest = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class LimitsIn(In, kw_only=True):
    """Limits to change: null lifts one, what is not there stays as it is."""

    requests_per_second: PerSecond | UnsetType | None = UNSET
    request_burst: Burst | UnsetType | None = UNSET
    jobs_per_second: PerSecond | UnsetType | None = UNSET
    job_burst: Burst | UnsetType | None = UNSET
    most_waiting: Most | UnsetType | None = UNSET
    largest_payload_bytes: Largest | UnsetType | None = UNSET
    largest_batch: Largest | UnsetType | None = UNSET
    most_fan_out: Most | UnsetType | None = UNSET


class LimitsOut(Out, kw_only=True):
    """What a subject (null: the namespace as a whole) may. Null: no limit of that kind.

    `requestsLeft` and `jobsLeft`: what is in the buckets now, besides what servers hold. `waiting`: runs that wait, as
    last counted.
    """

    subject: str | None
    requests_per_second: float | None
    request_burst: int | None
    jobs_per_second: float | None
    job_burst: int | None
    most_waiting: int | None
    largest_payload_bytes: int | None
    largest_batch: int | None
    most_fan_out: int | None
    changed_time: datetime
    requests_left: int | None = None
    jobs_left: int | None = None
    waiting: int | None = None


class LimitsList(Out, kw_only=True):
    """Limits, those of the namespace as a whole first, then by subject."""

    items: list[LimitsOut]
    next_cursor: str | None
