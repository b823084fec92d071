"""Schedules: when a recurring job fires. Cron (5 fields, or 6 with seconds first) and fixed intervals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from rota.errors import BadInputError

MAX_EXPRESSION_LENGTH = 200
MIN_INTERVAL_SECONDS = 1.0
MAX_INTERVAL_SECONDS = 10 * 366 * 86400.0
_FIELD_COUNTS = (5, 6)
_NEVER = "never fires: no date in the next 50 years matches"


class Schedule(Protocol):
    """Says when to fire next; the same question always has the same answer."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire time strictly after `moment`, in UTC; None when there is no more."""
        ...


@dataclass(frozen=True)
class Cron:
    """A cron expression in a time zone."""

    expression: str
    timezone: str = "UTC"

    @cached_property
    def _zone(self) -> ZoneInfo:
        return load_zone(self.timezone)

    def next_after(self, moment: datetime) -> datetime | None:
        """Follows Debian's rule at a clock change for 5 fields; never gives back a time not after `moment`."""
        for local in CronSim(self.expression, moment.astimezone(self._zone)):
            found = local.astimezone(UTC)
            # In the repeated hour the library works on wall time and may name an instant already passed.
            if found > moment:
                return found
        return None


@dataclass(frozen=True)
class Every:
    """A fixed interval in elapsed time, counted from an anchor."""

    seconds: float
    anchor: datetime

    def next_after(self, moment: datetime) -> datetime | None:
        """The next multiple of the interval after the anchor."""
        step = timedelta(seconds=self.seconds)
        count = max(1, (moment - self.anchor) // step + 1)
        return self.anchor + count * step


def parse_cron(expression: str, timezone: str, after: datetime) -> Cron:
    """A checked schedule; raises BadInputError naming the field that is wrong, or that it never fires."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise BadInputError(f"longer than {MAX_EXPRESSION_LENGTH} characters", field="cronExpression")
    if expression.strip().startswith("@"):
        raise BadInputError("names such as @daily are not known yet; give the fields", field="cronExpression")
    count = len(expression.split())
    if count not in _FIELD_COUNTS:
        raise BadInputError(
            f"has {count} fields; 5 (minute hour day month weekday) or 6 (second first) are expected",
            field="cronExpression",
        )
    schedule = Cron(expression, timezone)
    try:
        first = schedule.next_after(after)
    except (CronSimError, ValueError, TypeError, AssertionError, OverflowError) as error:
        reason = str(error).replace("Bad ", "bad ") or "not understood"
        raise BadInputError(f"{reason} field in {expression!r}", field="cronExpression") from None
    if first is None:
        raise BadInputError(_NEVER, field="cronExpression")
    return schedule


def parse_every(seconds: float, anchor: datetime) -> Every:
    """A checked interval."""
    if not MIN_INTERVAL_SECONDS <= seconds <= MAX_INTERVAL_SECONDS:
        raise BadInputError(
            f"must be between {MIN_INTERVAL_SECONDS:.0f} and {MAX_INTERVAL_SECONDS:.0f} seconds",
            field="everySeconds",
        )
    return Every(seconds, anchor)


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The IANA zone; raises BadInputError when there is none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInputError(
            f"no time zone called {name[:80]!r} (an IANA name is expected, such as Europe/Berlin)",
            field="timezone",
        ) from None


def fire_times(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The fire times in (after, until], at most `limit` of them."""
    times: list[datetime] = []
    moment: datetime | None = schedule.next_after(after)
    while moment is not None and moment <= until and len(times) < limit:
        times.append(moment)
        moment = schedule.next_after(moment)
    return times
