"""The fleet: workers, shards, pools, and what happened to them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from rota.contract.fields import In, Out


class WorkerOut(Out, kw_only=True):
    """A worker of the fleet."""

    worker_id: str
    host: str
    pid: int
    namespaces: list[str]
    pools: list[str]
    tasks: list[str]
    slots: int
    busy: int
    fenced_reports: int
    status: str
    detail: str | None = None
    start_time: datetime
    last_beat: datetime
    gone_time: datetime | None
    gone_reason: str | None
    app: str | None = None
    app_version: str | None = None


class WorkerList(Out, kw_only=True):
    """The fleet."""

    items: list[WorkerOut]


class ShardOut(Out, kw_only=True):
    """A shard and who looks after it."""

    shard: int
    epoch: int
    scheduler_id: str | None
    host: str | None
    pid: int | None
    last_beat: datetime | None


class ShardList(Out, kw_only=True):
    """All shards."""

    items: list[ShardOut]


class PoolIn(In, kw_only=True):
    """What to change about a pool."""

    most_waiting: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None


class PoolOut(Out, kw_only=True):
    """A pool: whether it is paused, who serves it, how much may wait in it (null: any number)."""

    pool: str
    status: Literal["open", "paused"]
    paused_time: datetime | None
    workers: int
    slots: int
    most_waiting: int | None


class PoolList(Out, kw_only=True):
    """The pools that live workers serve or that somebody said something about."""

    items: list[PoolOut]


class EventOut(Out, kw_only=True):
    """Something that happened to a breaker or a pool."""

    event_id: int
    time: datetime
    event: str
    subject: str
    detail: str | None


class EventList(Out, kw_only=True):
    """Events, latest first."""

    items: list[EventOut]
    next_cursor: str | None


class Health(Out, kw_only=True):
    """Whether the server is there."""

    status: str
    detail: Any = None
