"""How long things stay: the retention policy of a namespace.

The days of history are shared by all namespaces, so that a day leaves the database as a whole: when the longest
retention among the namespaces with runs in it is over. An outcome with a shorter retention than the longest of its
namespace is hidden when its own is over, and is not archived. Days are counted from the end of the UTC day in the run's
id.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.domain.ids import FIRST_ID, floor_id

OUTCOMES = ("success", "failed", "cancelled", "skipped")
LONGEST_EVENTS_DAYS = 90
MOST_DAYS = 36_500
_OPEN = ("scheduled", "retrying", "blocked", "queued", "running", "paused")
_ONE_DAY = timedelta(days=1)


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days by kind; None: for ever."""

    success: int | None = None
    failed: int | None = None
    cancelled: int | None = None
    skipped: int | None = None
    archive: bool = True  # False: runs whose time is over are dropped, and nothing keeps them
    dead_letters: int | None = None
    logs: int | None = None
    results: int | None = None
    payloads: int | None = None
    audit: int | None = None
    events: int | None = None

    @property
    def history_days(self) -> int | None:
        """The longest retention of any outcome."""
        days = [getattr(self, outcome) for outcome in OUTCOMES]
        return None if None in days else max(days)

    @property
    def archived_outcomes(self) -> list[str]:
        """Outcomes that go to the archive: those that stay as long as any."""
        longest = self.history_days
        return [outcome for outcome in OUTCOMES if self.archive and getattr(self, outcome) == longest]

    def object_days(self, kind: str) -> int | None:
        """How long objects of runs stay: as said; else, if runs are dropped, as long as these."""
        days: int | None = getattr(self, kind)
        return days if days is not None or self.archive else self.history_days

    def floors(self, now: datetime) -> dict[str, UUID]:
        """By outcome: runs with smaller ids are hidden. Those that go to the archive never are."""
        archived = self.archived_outcomes
        return {
            outcome: FIRST_ID if outcome in archived else floor_of(getattr(self, outcome), now) for outcome in OUTCOMES
        }

    def hides(self, row: Any, now: datetime) -> bool:
        """Whether a run's time is over, although its row may still be there."""
        floor = self.floors(now).get(row["status"]) if row["place"] == "finished" else None
        return floor is not None and row["id"] < floor


EVERYTHING = RetentionPolicy()


class Band(NamedTuple):
    """A range of ids in which the same statuses are shown; None: all."""

    first: UUID
    before: UUID
    statuses: list[str] | None


def floor_of(days: int | None, now: datetime) -> UUID:
    """The first id that is still kept: whole days are over together, `days` after their end."""
    if days is None:
        return FIRST_ID
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return floor_id(max(midnight - days * _ONE_DAY, datetime(1970, 1, 1, tzinfo=UTC)))


def bands(
    policy: RetentionPolicy, now: datetime, first: UUID, before: UUID, statuses: Sequence[str] | None
) -> list[Band]:
    """A list's range, latest first, cut where an outcome begins to be hidden."""
    floors = policy.floors(now)
    wanted = [*_OPEN, *OUTCOMES] if statuses is None else list(statuses)
    found: list[Band] = []
    for floor in sorted({first, *(floor for floor in floors.values() if first < floor < before)}, reverse=True):
        shown = [status for status in wanted if floors.get(status, FIRST_ID) <= floor]
        if shown:
            is_all = statuses is None and len(shown) == len(wanted)
            found.append(Band(floor, before, None if is_all else shown))
        before = floor
    return found


def days_of(period: str) -> tuple[date, date]:
    """The days of a partition, from the first to below the second: of a day (20261118) or a month (202611)."""
    if len(period) == len("20261118"):
        first = datetime.strptime(period, "%Y%m%d").replace(tzinfo=UTC).date()
        return first, first + _ONE_DAY
    first = datetime.strptime(period, "%Y%m").replace(tzinfo=UTC).date()
    return first, (first + 31 * _ONE_DAY).replace(day=1)


def is_over(period: str, policies: Sequence[RetentionPolicy], now: datetime) -> bool:
    """Whether no namespace with runs in this period keeps them any longer. An empty period goes the next day."""
    days = [policy.history_days for policy in policies]
    if None in days:
        return False
    longest = max((day for day in days if day is not None), default=1)
    return days_of(period)[1] + longest * _ONE_DAY <= now.astimezone(UTC).date()
