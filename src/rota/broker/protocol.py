"""The protocol between a worker and its broker.

A claim is the right to one attempt, under a number that never repeats. Every report names its claim; a report for a
claim that is no longer current changes nothing. All brokers decide by the rules of `rota.domain.run` where a run goes
next.
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
    """The claims whose reports were fenced and changed nothing, and those that could not be stored, with the reason."""

    fenced: frozenset[int] = frozenset()
    rejected: dict[int, str] = msgspec.field(default_factory=dict)


class SignalKind(StrEnum):
    """What a broker can signal to a worker."""

    work = "work"  # there may be runs in one of its pools
    cancel = "cancel"  # stop this run
    recall = "recall"  # release this run if it has not started
    doubt = "doubt"  # the records may be older than what the worker knows: reconcile now
    lost = "lost"  # this claim is not on record: stop the run, another worker may have it


class Signal(msgspec.Struct, frozen=True):
    """A signal about one claim, or none; it may be repeated."""

    kind: SignalKind
    claim: int | None = None


class Broker(Protocol):
    """Every call can raise DatabaseUnavailableError; it is then unknown whether it took effect."""

    lease_seconds: float

    @property
    def services(self) -> Sequence[Service]:
        """Services that run as long as the worker does."""

    async def join(self, profile: WorkerProfile) -> UUID:
        """Registers the worker under a new random id."""

    async def claim(self, room: int) -> list[Claim]:
        """Claims up to `room` runs: due ones first, then those due within the lookahead."""

    async def report(self, reports: Sequence[Report]) -> ReportReceipt:
        """Records how attempts ended; safe to repeat until it answers."""

    async def beat(self, *, busy: int, fenced: int, draining: bool, ailing: str | None = None) -> datetime | None:
        """Renews the lease; returns the broker's time, or None if the worker has lost its lease and claims.

        `ailing` describes what is wrong with a worker that beats but does not work.
        """

    async def update(self, notes: Sequence[Progress]) -> None:
        """Records start, progress and checkpoints of running attempts."""

    async def write_logs(self, chunks: Sequence[LogChunk]) -> None:
        """Appends to run logs; safe to repeat until it answers. The chunks of an attempt come in order."""

    async def reconcile(self, held: frozenset[int]) -> int:
        """Releases, uncharged, runs claimed in the worker's name that are not in `held`; returns how many.

        If the records were in doubt, signals follow for claims in `held` that are not on record.
        """

    async def signals(self, wait_seconds: float) -> list[Signal]:
        """Waits up to this long for signals and returns them. A worker calls this in a loop."""

    async def leave(self) -> None:
        """Records that the worker has stopped in good order."""
