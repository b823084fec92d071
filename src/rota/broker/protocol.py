"""What a worker may ask of a broker, and what it may be told.

A claim is a right to one attempt under a number that never repeats. Every report names the claim it is for; a report
for a claim that is no longer current changes nothing. A broker decides with the rules of `rota.domain.run` where a
run goes next, so that all brokers agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

import msgspec

from rota.domain.fleet import WorkerProfile
from rota.domain.run import Claim, LogChunk, Progress, Report
from rota.service import Service


class ReportReceipt(msgspec.Struct, frozen=True):
    """What became of reports, by claim number: written or recorded before need nothing more; fenced ones changed
    nothing; rejected ones could not be stored as they are, and say why."""

    fenced: frozenset[int] = frozenset()
    rejected: dict[int, str] = msgspec.field(default_factory=dict)


class SignalKind(StrEnum):
    """What a broker may tell a worker at any time."""

    work = "work"  # runs are waiting in one of its pools, or may be
    cancel = "cancel"  # stop this run
    recall = "recall"  # give this run back if it has not started
    doubt = "doubt"  # the records may be older than what the worker knows: reconcile now
    lost = "lost"  # this claim is not on record: stop the run, others may have it


class Signal(msgspec.Struct, frozen=True):
    """One signal, of one claim or of none in particular; may come more than once."""

    kind: SignalKind
    claim: int | None = None


class Broker(Protocol):
    """The protocol. Every call may raise DatabaseUnavailableError: nothing is known of what it did then."""

    lease_seconds: float

    @property
    def services(self) -> Sequence[Service]:
        """What has to run as long as the worker does."""
        ...

    async def join(self, profile: WorkerProfile) -> UUID:
        """Makes the worker known under a new random id."""
        ...

    async def claim(self, room: int) -> list[Claim]:
        """Up to `room` runs: due ones first, then those due within the lookahead."""
        ...

    async def report(self, reports: Sequence[Report]) -> ReportReceipt:
        """Records how attempts ended; safe to repeat until it answers."""
        ...

    async def beat(self, *, busy: int, fenced: int, draining: bool, ailing: str | None = None) -> datetime | None:
        """Keeps the lease; the broker's time, or None when the worker was given up and its claims with it.

        `ailing` says in words what is wrong with a worker that beats and yet does not work.
        """
        ...

    async def update(self, notes: Sequence[Progress]) -> None:
        """Start, progress and checkpoints of runs that go on."""
        ...

    async def write_logs(self, chunks: Sequence[LogChunk]) -> None:
        """Adds to the logs of runs; safe to repeat until it answers. Chunks of one attempt come in their order."""
        ...

    async def reconcile(self, held: frozenset[int]) -> int:
        """Gives back, uncharged, what is claimed in the worker's name and not in `held`; returns how many.

        When the records were in doubt, signals follow for what is in `held` and not on record.
        """
        ...

    async def signals(self, wait_seconds: float) -> list[Signal]:
        """Waits up to so long for something to tell, and tells it. A worker asks again and again."""
        ...

    async def leave(self) -> None:
        """The worker has stopped in good order."""
        ...
