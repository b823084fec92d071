"""The door through which a program submits and asks: the API, a worker, or a test's own engine stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rota.contract.jobs import BatchJobIn, Submitted
from rota.errors import RotaError

ENDED = ("success", "failed", "cancelled", "skipped")


class RunSnapshot(msgspec.Struct, frozen=True):
    """How a run stands: its status, and what came of it when it has ended."""

    status: str
    result: Any = None
    error: str | None = None
    reason: str | None = None
    traceback: str | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ENDED


class JobGateway(Protocol):
    """Every call may raise RotaError."""

    async def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """Each one's answer or refusal, in order, once all are committed."""
        ...

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """How a run stands: when it has ended, or after so many seconds at most."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Asks a run to stop, or ends it where it has not started."""
        ...

    async def caller(self) -> tuple[str, str] | None:
        """The namespace and owner that submissions are made for, where it is known on this side of the door."""
        ...


class SyncJobGateway(Protocol):
    """The same for code that can't await."""

    def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """Each one's answer or refusal, in order, once all are committed."""
        ...

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """How a run stands: when it has ended, or after so many seconds at most."""
        ...

    def cancel(self, run_id: str) -> None:
        """Asks a run to stop, or ends it where it has not started."""
        ...

    def caller(self) -> tuple[str, str] | None:
        """The namespace and owner that submissions are made for, where it is known on this side of the door."""
        ...
