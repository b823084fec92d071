"""The kit's time. It stands still until it is moved, so that a test can say exactly when something happens."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.clock import DatabaseClock


class StandingClock(DatabaseClock):
    """What the database's clock was set to, for everything in this process that asks a clock of that kind."""

    def __init__(self, moment: datetime) -> None:
        super().__init__()
        self.moment = moment

    @property
    def is_set(self) -> bool:
        """Always: nobody has to ask the database."""
        return True

    def observe(self, *, sent: float, received: float, database_time: datetime) -> float:  # noqa: ARG002 - it follows nobody
        """Changes nothing."""
        return 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.moment.timestamp()

    def now_datetime(self) -> datetime:
        """The same as an aware datetime."""
        return self.moment.astimezone(UTC)
