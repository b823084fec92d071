"""How long things stay, and what is archived."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

from msgspec import Meta

from rota.contract.fields import In, Out
from rota.domain.retention import LONGEST_EVENTS_DAYS, MOST_DAYS

Days = Annotated[int, Meta(ge=1, le=MOST_DAYS)]


class HistoryIn(In, kw_only=True):
    """How many days runs stay in history, by how they ended; null: for ever."""

    success: Days | None = None
    """runs that succeeded"""
    failed: Days | None = None
    """runs that failed"""
    cancelled: Days | None = None
    """runs that were cancelled"""
    skipped: Days | None = None
    """runs that were skipped"""


class RetentionIn(In, kw_only=True):
    """The retention policy of a namespace: days by kind; what is left out or null stays for ever."""

    history: HistoryIn | None = None
    """runs, by how they ended"""
    archive: bool = True
    """whether runs go to the archive when the longest of these times is over; false: they are dropped"""
    dead_letters: Days | None = None
    """dead letters that nobody dealt with; until then they keep the day of their run"""
    logs: Days | None = None
    """logs in object storage"""
    results: Days | None = None
    """results in object storage (above 64 KiB)"""
    payloads: Days | None = None
    """payloads in object storage (above 64 KiB) that no job and no open run needs"""
    audit: Days | None = None
    """the audit trail"""
    events: Annotated[int, Meta(ge=1, le=LONGEST_EVENTS_DAYS)] | None = None
    """events; 90 if not given"""


class HistoryOut(Out, kw_only=True):
    """How many days runs stay in history, by how they ended; null: for ever."""

    success: int | None
    """runs that succeeded"""
    failed: int | None
    """runs that failed"""
    cancelled: int | None
    """runs that were cancelled"""
    skipped: int | None
    """runs that were skipped"""


class RetentionOut(Out, kw_only=True):
    """The retention policy of a namespace: days by kind; null: for ever."""

    history: HistoryOut
    """runs, by how they ended"""
    archive: bool
    """whether runs go to the archive then; false: they are dropped"""
    dead_letters: int | None
    """dead letters that nobody dealt with"""
    logs: int | None
    """logs in object storage"""
    results: int | None
    """results in object storage"""
    payloads: int | None
    """payloads in object storage that no job and no open run needs"""
    audit: int | None
    """the audit trail"""
    events: int | None
    """events; null: 90"""
    changed_by: str | None = None
    """who changed it last; not given: it was never set"""
    changed_time: datetime | None = None
    """when"""


class ArchiveOut(Out, kw_only=True):
    """A day, or a month that was far ahead, that is archived or on its way."""

    day: str
    """the day, such as `20261118`, or the month"""
    number: int
    """1; runs that ended after their day was archived make another one"""
    state: str
    """`planned`, `written`, `verified`, `detached`, `dropped`, `restoring` or `restored`"""
    runs: int | None
    """how many runs it has"""
    left_out: int | None
    """how many runs were over their retention and are not in it"""
    bytes: int | None
    """how large it is"""
    error: str | None = None
    """why it does not go on"""
    restored_until: datetime | None = None
    """until when a restored day stays in the database"""
    created_at: datetime
    """when it was planned"""
    changed_time: datetime
    """when its state changed last"""


class ArchiveList(Out, kw_only=True):
    """A page of archives."""

    items: list[ArchiveOut]
    """archives, latest day first"""
    next_cursor: str | None


class RestoreIn(In, kw_only=True):
    """How long a restored day stays in the database."""

    days: Annotated[int, Meta(ge=1, le=365)] = 7
    """for so many days"""


class ArchiveState(Out, kw_only=True):
    """What an archive does now."""

    day: str
    """the day or month"""
    state: str
    """its state"""


class ArchiveRound(Out, kw_only=True):
    """Days that are on their way to the archive, or back."""

    waiting: int
    """how many"""
    oldest: date | None = None
    """the oldest of them"""
