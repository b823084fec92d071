"""How a program submits jobs and follows runs: over HTTP, through its worker, or straight into the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rota.contract.jobs import BatchJobIn, Submitted
from rota.domain.run import ENDED_STATUSES
from rota.errors import RotaError


class RunSnapshot(msgspec.Struct, frozen=True):
    """The state of a run: its status, and its outcome when it has ended."""

    status: str
    result: Any = None
    error: str | None = None
    reason: str | None = None
    traceback: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED_STATUSES


class JobGateway(Protocol):
    """Every call may raise RotaError."""

    async def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """The answer or refusal of each job, in order, once all are committed."""
        ...

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The state of a run, once it has ended or `wait_seconds` are over."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Ends a run that has not started; asks a running one to stop."""
        ...

    async def caller(self) -> tuple[str, str] | None:
        """The namespace and owner of submissions; None where only the server knows."""
        ...


class SyncJobGateway(Protocol):
    """The same for code that can't await."""

    def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]: ...
    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot: ...
    def cancel(self, run_id: str) -> None: ...
    def caller(self) -> tuple[str, str] | None: ...
