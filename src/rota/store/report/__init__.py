"""Reports: how attempts ended, and how they are getting on. Every one is fenced by its claim number.

The domain judges a report (`Report.verdict`); here it is written. Rows are locked in the order of run ids, so that
two batches, or a batch of reports and one of progress, can't deadlock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.run import SUCCESS, Disposition, Outcome, Progress, Report
from rota.errors import DataRejectedError
from rota.store.postgres.batches import columns, or_nothing, write_each
from rota.store.postgres.database import Database
from rota.store.postgres.wakeups import SOON_SECONDS
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

_log = get_logger("reports")
ClaimKey = tuple[str, UUID, int]  # namespace, run id, claim number
_ENDING = ("bury", "cancel", "skip")  # fates of report_other.sql


class Recorded(msgspec.Struct):
    """The results of reports, and which services to wake."""

    written: int = 0  # how many changed their run
    fenced: set[int] = msgspec.field(default_factory=set)  # claim numbers that were no longer current
    # By claim number: why a report could not be stored, and how one that is not a success was judged.
    rejected: dict[int, DataRejectedError] = msgspec.field(default_factory=dict)
    dispositions: dict[int, Disposition] = msgspec.field(default_factory=dict)
    ready_pools: set[str] = msgspec.field(default_factory=set)  # a run is ready again: wake their workers
    held: bool = False  # a run went to held: wake schedulers
    gated: bool = False  # a run left a gate: wake schedulers
    flows: bool = False  # the run of a node ended: wake schedulers
    ended: list[tuple[str, UUID]] = msgspec.field(default_factory=list)  # runs that ended without success
    soon: bool = False  # a run is due again in a moment: wake schedulers
    buried: bool = False  # runs were buried: that is an event


class Reports:
    """Writes reports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, reports: Sequence[Report]) -> Recorded:
        """Judges reports and writes them in at most two statements; safe to repeat.

        What a task has recorded itself is not written again: if the database lost it, the run has to be run again.
        """
        recorded = Recorded()
        if successes := [report for report in reports if report.outcome is SUCCESS and not report.recorded]:
            await self._record_successes(successes, recorded)
        if others := [_judged(report) for report in reports if report.outcome is not SUCCESS]:
            await self._record_others(others, recorded)
        self._wake(recorded, self._ended(reports, recorded))
        return recorded

    async def release(self, claims: Iterable[ClaimKey]) -> None:
        """Gives back claims that the database records but the worker doesn't know of: ready again, uncharged."""
        recorded = Recorded()
        ended = time.time()  # an uncharged release keeps no times
        rest = (Disposition.release, False, False, 0.0, None, ended, Outcome.released, None, None, None)
        await self._record_others([(*claim, *rest) for claim in claims], recorded)
        self._wake(recorded)

    def _ended(self, reports: Sequence[Report], recorded: Recorded) -> list[tuple[str, UUID]]:
        """The runs that these reports ended, if clients wait for some."""
        if not self._database.wake.ends_are_awaited:
            return []
        left_out = recorded.fenced | recorded.rejected.keys()
        ended = (it.claim for it in reports if it.outcome is SUCCESS and it.claim.number not in left_out)
        return [*((claim.namespace, claim.run_id) for claim in ended), *recorded.ended]

    def _wake(self, recorded: Recorded, ended: Sequence[tuple[str, UUID]] = ()) -> None:
        self._database.wake(
            pools=recorded.ready_pools,
            gates=recorded.gated,
            flows=recorded.flows,
            schedules=recorded.held,
            soon=recorded.soon,
            events=recorded.buried,
            ended=ended,
        )

    async def update(self, notes: Sequence[Progress]) -> None:
        """Writes starts, progress and checkpoints of runs that go on."""

        async def write(some: Sequence[Progress]) -> list[Any]:
            rows = [
                (
                    it.claim.namespace,
                    it.claim.run_id,
                    it.claim.number,
                    it.started,
                    it.progress,
                    it.message,
                    it.checkpoint,
                )
                for it in some
            ]
            return await self._database.fetch(
                "update_progress",
                **columns(rows, "namespaces run_ids claims started progress notes checkpoints"),
            )

        async def reject(note: Progress, error: DataRejectedError) -> None:
            _log.warning("progress was refused", run_id=str(note.claim.run_id), error=str(error))

        await write_each(sorted(notes, key=_by_run), write, reject)

    async def _record_successes(self, successes: Sequence[Report], recorded: Recorded) -> None:
        async def reject(report: Report, error: DataRejectedError) -> None:
            recorded.rejected[report.claim.number] = error

        written = 0
        for some in _each_run_once(successes):
            for row in await write_each(some, self._write_successes, reject):
                written += row["written"]
                recorded.gated |= bool(row["gated"])
                recorded.flows |= bool(row["flows"])
        if written + len(recorded.rejected) < len(successes):
            keys = [(it.claim.namespace, it.claim.run_id, it.claim.number) for it in successes]
            recorded.fenced |= await self._find_fenced(keys, recorded)
        recorded.written += written

    async def _write_successes(self, successes: Sequence[Report]) -> list[Any]:
        claims = [report.claim for report in successes]
        run_ids = [claim.run_id for claim in claims]
        return await with_days(
            self._database,
            run_ids,
            lambda: self._database.fetch(
                "report_success",
                namespaces=list({claim.namespace for claim in claims}),
                run_ids=run_ids,
                claims=[claim.number for claim in claims],
                started=[it.ended if it.started is None else it.started for it in successes],
                ended=[it.ended for it in successes],
                results=or_nothing([it.result for it in successes]),
                result_blobs=or_nothing([it.result_blob for it in successes]),
            ),
        )

    async def _record_others(self, others: list[tuple[Any, ...]], recorded: Recorded) -> None:
        """Writes rows made by `_judged`."""
        rejected: dict[int, DataRejectedError] = {}

        async def reject(row: tuple[Any, ...], error: DataRejectedError) -> None:
            rejected[row[2]] = error

        others.sort(key=lambda row: row[1])
        rows = await write_each(others, self._write_others, reject)
        recorded.written += len(rows)
        recorded.rejected |= rejected
        recorded.dispositions |= {row[2]: row[3] for row in others}
        recorded.ready_pools |= {row["pool"] for row in rows if row["fate"] == "ready"}
        recorded.held |= any(row["fate"] == "hold" for row in rows)
        recorded.gated |= any(row["gated"] for row in rows)
        recorded.flows |= any(row["flows"] for row in rows)
        recorded.buried |= any(row["fate"] == "bury" for row in rows)
        recorded.ended += [(row["namespace"], row["id"]) for row in rows if row["fate"] in _ENDING]
        delays = {row[2]: row[6] for row in others}
        recorded.soon |= any(row["fate"] == "wait" and delays[row["claim"]] <= SOON_SECONDS for row in rows)
        if len(rows) + len(rejected) < len(others):
            written = {row["claim"] for row in rows}
            recorded.fenced |= await self._find_fenced([row[:3] for row in others], recorded) - written

    async def _write_others(self, others: Sequence[tuple[Any, ...]]) -> list[Any]:
        return await with_days(
            self._database,
            [row[1] for row in others],
            lambda: self._database.fetch(
                "report_other",
                **columns(
                    others,
                    "namespaces run_ids claims dispositions charged losses delays started ended outcomes"
                    " errors tracebacks checkpoints",
                ),
            ),
        )

    async def _find_fenced(self, keys: Sequence[tuple[Any, ...]], recorded: Recorded) -> set[int]:
        """A report that moved no run was recorded before (its answer was lost), or its claim is no longer current."""
        missing = [key for key in keys if key[2] not in recorded.rejected]
        if not missing:
            return set()
        ids = [run_id for _, run_id, _ in missing]
        rows = await self._database.fetch(
            "recorded_reports", **columns(missing, "namespaces run_ids claims"), first=min(ids), last=max(ids)
        )
        return {number for _, _, number in missing} - {row["claim"] for row in rows}


def _judged(report: Report) -> tuple[Any, ...]:
    """What report_other writes of it, in the order of _write_others."""
    claim, verdict = report.claim, report.verdict()
    return (
        claim.namespace,
        claim.run_id,
        claim.number,
        verdict.disposition,
        verdict.charged,
        verdict.loss,
        verdict.delay_seconds,
        report.started,
        report.ended,
        report.outcome,
        report.error,
        report.traceback,
        report.checkpoint,
    )


def _each_run_once(successes: Sequence[Report]) -> Iterator[list[Report]]:
    """Batches in the order of run ids in which no run occurs twice.

    A run reported under two claims goes into two batches.
    """
    while successes:
        one_each = {report.claim.run_id: report for report in successes}
        yield sorted(one_each.values(), key=_by_run)
        if len(one_each) == len(successes):
            return
        successes = [report for report in successes if report is not one_each[report.claim.run_id]]


def _by_run(it: Report | Progress) -> UUID:
    return it.claim.run_id
