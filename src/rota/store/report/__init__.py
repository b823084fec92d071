"""Reports: how attempts ended, and how they are getting on. Every one is fenced by its claim number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.domain.run import Outcome, Verdict
from rota.errors import DataRejectedError
from rota.store.postgres.batches import columns, or_nothing, write_each
from rota.store.postgres.database import Database
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

_log = get_logger("reports")


class Success(NamedTuple):
    """An attempt that succeeded: the hot case. Times are seconds since the epoch."""

    namespace: str
    run_id: UUID
    claim: int
    started: float
    ended: float
    result: str | None
    result_blob: str | None = None


class Ended(msgspec.Struct, frozen=True):
    """An attempt that ended in any other way, with the verdict on it."""

    namespace: str
    run_id: UUID
    claim: int
    outcome: Outcome
    verdict: Verdict
    started: float | None
    ended: float
    error: str | None = None
    traceback: str | None = None
    checkpoint: str | None = None


class Settled(msgspec.Struct):
    """What became of a batch of reports: how many were written; by claim number, which changed nothing
    because their claim was not current, and which could not be stored; who has to be told."""

    written: int = 0
    fenced: set[int] = msgspec.field(default_factory=set)
    rejected: dict[int, DataRejectedError] = msgspec.field(default_factory=dict)
    ready_pools: set[str] = msgspec.field(default_factory=set)
    held: bool = False
    gated: bool = False


class Note(msgspec.Struct, frozen=True):
    """The start or progress of a run that outlasts a beat."""

    namespace: str
    run_id: UUID
    claim: int
    started: float
    progress: float | None
    note: str | None
    checkpoint: str | None = None


class Reports:
    """Writes reports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def succeed(self, successes: Sequence[Success]) -> Settled:
        """Records runs that succeeded, each fenced by its claim number; safe to repeat."""
        settled = Settled()

        async def reject(success: Success, error: DataRejectedError) -> None:
            settled.rejected[success.claim] = error

        for some in _each_run_once(successes):
            for row in await write_each(some, self._succeed, reject):
                settled.written += row["written"]
                settled.gated |= bool(row["gated"])
        if settled.written + len(settled.rejected) < len(successes):
            settled.fenced = await self._find_fenced(successes, settled)
        return settled

    async def settle(self, reports: Sequence[Ended]) -> Settled:
        """Records how other attempts ended, each fenced by its claim number; safe to repeat."""
        settled = Settled()

        async def reject(report: Ended, error: DataRejectedError) -> None:
            settled.rejected[report.claim] = error

        ordered = sorted(reports, key=_by_run)
        rows = await write_each(ordered, self._settle, reject)
        settled.written = len(rows)
        settled.ready_pools = {row["pool"] for row in rows if row["fate"] == "ready"}
        settled.held = any(row["fate"] == "hold" for row in rows)
        settled.gated = any(row["gated"] for row in rows)
        if settled.written + len(settled.rejected) < len(ordered):
            written = {row["claim"] for row in rows}
            settled.fenced = await self._find_fenced(ordered, settled) - written
        return settled

    async def note(self, notes: Sequence[Note]) -> None:
        """Writes starts and progress, in the order in which reports are written: the two meet at the same runs."""

        async def write(some: Sequence[Note]) -> list[Any]:
            return await self._database.fetch(
                "update_progress",
                **columns(
                    map(msgspec.structs.astuple, some),
                    "namespaces",
                    "run_ids",
                    "claims",
                    "started",
                    "progress",
                    "notes",
                    "checkpoints",
                ),
            )

        async def reject(note: Note, error: DataRejectedError) -> None:
            _log.warning("progress was refused", run_id=str(note.run_id), error=str(error))

        await write_each(sorted(notes, key=_by_run), write, reject)

    async def _succeed(self, successes: Sequence[Success]) -> list[Any]:
        namespaces, run_ids, claims, started, ended, results, blobs = zip(*successes, strict=True)
        return await with_days(
            self._database,
            run_ids,
            lambda: self._database.fetch(
                "report_success",
                namespaces=list(set(namespaces)),
                run_ids=run_ids,
                claims=claims,
                started=started,
                ended=ended,
                results=or_nothing(results),
                result_blobs=or_nothing(blobs),
            ),
        )

    async def _settle(self, reports: Sequence[Ended]) -> list[Any]:
        verdicts = [report.verdict for report in reports]
        return await with_days(
            self._database,
            [report.run_id for report in reports],
            lambda: self._database.fetch(
                "report_other",
                **_identity_columns(reports),
                dispositions=[verdict.disposition for verdict in verdicts],
                charged=[verdict.charged for verdict in verdicts],
                losses=[verdict.loss for verdict in verdicts],
                delays=[verdict.delay_seconds for verdict in verdicts],
                started=[report.started for report in reports],
                ended=[report.ended for report in reports],
                outcomes=[report.outcome for report in reports],
                errors=[report.error for report in reports],
                tracebacks=[report.traceback for report in reports],
                checkpoints=[report.checkpoint for report in reports],
            ),
        )

    async def _find_fenced(self, reports: Sequence[Success | Ended], settled: Settled) -> set[int]:
        """A report that moved nothing was either recorded before, its answer lost, or is not current any more."""
        missing = [report for report in reports if report.claim not in settled.rejected]
        rows = await self._database.fetch("recorded_reports", **_identity_columns(missing))
        recorded = {row["claim"] for row in rows}
        return {report.claim for report in missing} - recorded


def _identity_columns(reports: Sequence[Success | Ended]) -> dict[str, Any]:
    rows = ((report.namespace, report.run_id, report.claim) for report in reports)
    return columns(rows, "namespaces", "run_ids", "claims")


def _each_run_once(successes: Sequence[Success]) -> Iterator[list[Success]]:
    """In the order of runs; a run that is there twice, under two claims, goes into another round."""
    while successes:
        first = {success.run_id: success for success in successes}
        yield sorted(first.values(), key=_by_run)
        if len(first) == len(successes):
            return
        successes = [success for success in successes if success is not first[success.run_id]]


def _by_run(report: Success | Ended | Note) -> UUID:
    return report.run_id
