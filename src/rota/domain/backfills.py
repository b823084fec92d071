"""Which times of a calendar a backfill makes runs for.

A time is known by how its run ended: the one that the schedule made, or that of the latest backfill which made one.
Nothing was made, or what was made never started: it is missing, and a backfill makes it. A run that has not ended is
left alone. One that has is run again if the backfill says so (`existing`). What happened at times whose day is no
longer in the history is not known: the backfill says whether these run (`unknown`).

What an earlier backfill did with a time is not stored for each time: it follows from its own rules. Only runs that have
not ended or did not succeed have rows (`made`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from rota.domain.job import Timetable
from rota.domain.misfire import last_times
from rota.domain.schedule import Schedule, fire_times

Existing = Literal["skip", "failed", "rerun"]
Unknown = Literal["run", "skip"]
Ending = Literal["missing", "open", "success", "failed", "unknown"]
_INSTANT = timedelta(microseconds=1)
_AT_ONCE = 1000


class FrozenCalendar(msgspec.Struct, frozen=True):
    """The times of a backfill: those of a timetable, as it was, from `first` to `last`, in an order."""

    job_id: UUID
    timetable: Timetable
    first: datetime
    last: datetime
    newest_first: bool = False

    @property
    def schedule(self) -> Schedule:
        return self.timetable.schedule(self.job_id)

    def times(self, after: datetime | None, limit: int) -> list[datetime]:
        """The times that follow a time, or the first ones, in the backfill's order."""
        if not self.newest_first:
            return fire_times(self.schedule, after or self.first - _INSTANT, self.last, limit)
        until = self.last if after is None else after - _INSTANT
        return last_times(self.schedule, self.first - _INSTANT, until, limit)[::-1]

    def pieces(self) -> Iterator[list[datetime]]:
        """All times, some at a time."""
        after: datetime | None = None
        while times := self.times(after, _AT_ONCE):
            yield times
            after = times[-1]

    def has(self, moment: datetime) -> bool:
        """Whether this is one of its times."""
        return self.first <= moment <= self.last and self.schedule.next_after(moment - _INSTANT) == moment


class EarlierBackfill(msgspec.Struct, frozen=True):
    """A backfill of the same job that came before, and how far it got."""

    id: UUID
    calendar: FrozenCalendar
    existing: Existing
    unknown: Unknown | None
    position: datetime | None
    is_made: bool

    def has_dealt_with(self, moment: datetime) -> bool:
        """Whether it made a run for this time, or decided to make none."""
        if not self.calendar.has(moment):
            return False
        if self.is_made or self.position is None:
            return self.is_made
        return moment >= self.position if self.calendar.newest_first else moment <= self.position


class Known(msgspec.Struct, frozen=True):
    """What is known of some times: of the schedule's own runs, of days without history, and of earlier backfills, the
    oldest first."""

    endings: Mapping[datetime, Ending]
    unknown: Collection[datetime]
    earlier: Sequence[EarlierBackfill]
    made: Mapping[tuple[UUID, datetime], Ending | Literal["left"]]

    def ending(self, moment: datetime) -> Ending:
        """How the latest run of a time ended."""
        found: Ending = self.endings.get(moment, "unknown" if moment in self.unknown else "missing")
        for backfill in self.earlier:
            if backfill.has_dealt_with(moment):
                found = self._after(backfill, moment, found)
        return found

    def _after(self, backfill: EarlierBackfill, moment: datetime, before: Ending) -> Ending:
        row = self.made.get((backfill.id, moment))
        if row == "left":
            return before
        if row is not None:
            return before if row == "missing" else row
        return "success" if is_wanted(before, backfill.existing, backfill.unknown) else before


def ending_of(status: str, *, has_run: bool) -> Ending:
    """What the status of a run means for the time it stands for."""
    match status:
        case "success" | "failed":
            return status
        case "cancelled" | "skipped":
            return "failed" if has_run else "missing"
        case _:
            return "open"


def is_wanted(ending: Ending, existing: Existing, unknown: Unknown | None) -> bool:
    """Whether a backfill makes a run for a time whose run ended so."""
    match ending:
        case "missing":
            return True
        case "open":
            return False
        case "unknown":
            return unknown == "run"
        case "failed":
            return existing != "skip"
        case "success":
            return existing == "rerun"
