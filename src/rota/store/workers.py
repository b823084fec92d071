"""Workers as the database knows them: registration, beats, claims, reports, and giving one up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.domain.application import Application, encode_schedules, release_of
from rota.domain.lag_histogram import STEPS
from rota.domain.run import Claim, Outcome, Verdict
from rota.errors import DataRejectedError, SetupError
from rota.store.postgres.batches import columns, or_nothing, with_days, write_each
from rota.store.postgres.database import Database
from rota.store.postgres.scan_positions import ScanPositions
from rota.telemetry import get_logger

_log = get_logger("workers")


PoolKey = tuple[str, str]  # namespace, pool


class Registration(msgspec.Struct, frozen=True):
    """What a worker says of itself when it starts."""

    id: UUID
    host: str
    pid: int
    namespaces: tuple[str, ...]
    pools: tuple[str, ...]
    tasks: tuple[str, ...]
    slots: int
    lease: timedelta
    application: Application | None = None


class Beat(NamedTuple):
    """A heartbeat as the database took it."""

    database_time: datetime
    number: int
    server_since: datetime
    database_id: int

    def follows(self, other: Beat) -> bool:
        """Whether the database is the one that took the other beat, and still knows of it."""
        same = (self.server_since, self.database_id) == (other.server_since, other.database_id)
        return same and self.number > other.number


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


class PoolActivity(msgspec.Struct):
    """What was done in one pool: attempts that started and how late, and how many ended in which way."""

    namespace: str
    pool: str
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    lags: list[int] = msgspec.field(default_factory=lambda: [0] * STEPS)


class LostClaim(msgspec.Struct, frozen=True):
    """A run still claimed by a worker that is gone."""

    namespace: str
    run_id: UUID
    claim: int
    options: str
    attempt: int
    losses: int
    pool: str
    gone_why: str
    started: float | None
    may_have_started: bool


class ClaimSize:
    """How many runs of each lane a claim looks at: enough to fill the room, not many more than it takes.

    With one busy lane that is the whole room; with many, a share of it, else each claim would lock the room once for
    every lane and use it once.
    """

    LEAST = 100
    WASTE = 2

    def __init__(self) -> None:
        self._most = 1 << 30

    def of(self, room: int) -> int:
        """The portion for this much room."""
        return min(room, self._most)

    def adapt(self, *, room: int, taken: int, locked: int) -> None:
        """Learns from a claim: smaller when much was locked in vain, larger when the room was not filled."""
        portion = self.of(room)
        if locked > self.WASTE * max(taken, self.LEAST):
            self._most = max(self.LEAST, portion // 2)
        elif portion <= taken < room // 2:
            self._most = portion * 2


class Workers:
    """The worker's side of the live runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._positions = ScanPositions()
        self._portion = ClaimSize()

    async def register(self, registration: Registration) -> dict[PoolKey, list[int]]:
        """Makes the worker known; returns the lanes it may claim from, by (namespace, pool).

        Raises SetupError when its database role is bound to others.
        """
        await self._check_binding(registration)
        lanes: dict[PoolKey, list[int]] = {}
        app = registration.application
        rows = await self._database.fetch(
            "register_worker",
            worker_id=registration.id,
            host=registration.host,
            pid=registration.pid,
            namespaces=registration.namespaces,
            pools=registration.pools,
            tasks=registration.tasks,
            slots=registration.slots,
            lease=registration.lease,
            app_namespace=app.namespace if app else None,
            app=app.name if app else None,
            version=app.version if app else None,
            schedules=encode_schedules(app.schedules) if app else None,
            release=release_of(app.version) if app else None,
        )
        for row in rows:
            lanes.setdefault((row["namespace"], row["pool"]), []).append(row["lane"])
        return lanes

    async def claim(self, worker_id: UUID, lanes: Sequence[int], room: int, lookahead: timedelta) -> list[Claim]:
        """Up to `room` ready runs, now this worker's. Large payloads are fetched along."""
        claims: list[Claim] = []
        while left := room - len(claims):
            portion = self._portion.of(left)
            with self._positions.look(lanes) as look:
                rows = await self._database.fetch(
                    "claim",
                    worker_id=worker_id,
                    lanes=lanes,
                    begin_at=look.begin_at,
                    room=left,
                    lookahead=lookahead,
                    portion=portion,
                )
                look.took((row[0], row[1]) for row in rows)
            claims += [Claim(*row[3:]) for row in rows]
            self._portion.adapt(room=left, taken=len(rows), locked=rows[0]["locked"] if rows else 0)
            if len(rows) < portion:
                break  # no lane had more
        if any(claim.payload_id for claim in claims):
            claims = await self._with_payloads(claims)
        return claims

    async def beat(
        self,
        worker_id: UUID,
        *,
        busy: int,
        fenced: int,
        draining: bool,
        ailing: str | None = None,
        done: Sequence[PoolActivity] = (),
        timeout: float | None = None,
    ) -> Beat | None:
        """One heartbeat, with what was done since the last; None when the worker was given up."""
        rows = await self._database.fetch(
            "beat_worker",
            worker_id=worker_id,
            busy=busy,
            fenced=fenced,
            draining=draining,
            ailing=ailing,
            **columns(
                map(msgspec.structs.astuple, done),
                "namespaces",
                "pools",
                "started",
                "succeeded",
                "failed",
                "retried",
                "lags",
            ),
            timeout=timeout,
        )
        return Beat(*rows[0]) if rows else None

    def look_anew(self) -> None:
        """The records may be other ones than those we have seen: the next claims begin at the very beginning."""
        self._positions.forget()

    async def signals(self, worker_id: UUID) -> tuple[list[tuple[int, bool]], frozenset[PoolKey]]:
        """(claim number, cancel?) of what the worker is asked, where not cancel means give back if not started; and
        the pools that are paused."""
        rows = await self._database.fetch("worker_signals", worker_id=worker_id)
        asked = [(row["claim"], row["cancel"]) for row in rows if row["pool"] is None]
        return asked, frozenset((row["namespace"], row["pool"]) for row in rows if row["pool"] is not None)

    async def claims_of(self, worker_id: UUID, made_within: timedelta | None = None) -> list[tuple[str, UUID, int]]:
        """What is claimed in its name: everything, or what was claimed this long ago at most."""
        rows = await self._database.fetch("claims_of_worker", worker_id=worker_id, made_within=made_within)
        return [(row["namespace"], row["id"], row["claim"]) for row in rows]

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

    async def leave(self, worker_id: UUID) -> None:
        """The worker stopped in good order."""
        await self._database.fetch("leave_worker", worker_id=worker_id)

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

    async def watched(self) -> tuple[list[tuple[UUID, int, timedelta]], bool]:
        """(id, beat, lease) of every worker that is not gone; and whether one that is may have left claims behind."""
        rows = await self._database.fetch("watched_workers")
        live = [(row["id"], row["beat"], row["lease"]) for row in rows if not row["gone"]]
        return live, len(live) < len(rows)

    async def give_up(self, worker_id: UUID, beat: int, why: str) -> bool:
        """Marks a worker gone unless it has beaten since. Its claims can't grow after that."""
        return bool(await self._database.fetch("mark_worker_gone", worker_id=worker_id, beat=beat, why=why))

    async def lost_claims(self, limit: int) -> list[LostClaim]:
        """What workers that are gone left behind."""
        return [LostClaim(*row) for row in await self._database.fetch("claims_of_gone_workers", limit=limit)]

    async def fleet(self, namespace: str | None = None) -> list[Any]:
        """The fleet, for people."""
        return await self._database.fetch("list_workers", namespace=namespace)

    async def waiting_for(self, namespace: str, pool: str, task: str) -> Any:
        """What the fleet offers to a run of this task in this pool."""
        return await self._database.fetch_row("workers_for_run", namespace=namespace, pool=pool, task=task)

    async def _check_binding(self, registration: Registration) -> None:
        """Says in words what the database would refuse in its own."""
        bound: Any = await self._database.fetch_row("role_binding")
        for what, wanted, may in (
            ("namespaces", registration.namespaces, bound["namespaces"]),
            ("pools", registration.pools, bound["pools"]),
        ):
            if may is not None and (others := [name for name in wanted if name not in may]):
                raise SetupError(
                    f"The database role {bound['role']} may serve the {what} {', '.join(may) or '(none)'} alone, not "
                    f"{', '.join(others)}: change ROTA_{what.upper()}, or its binding with `rota database-roles`."
                )

    async def _with_payloads(self, claims: list[Claim]) -> list[Claim]:
        wanted = [(claim.namespace, claim.payload_id) for claim in claims if claim.payload_id]
        rows = await self._database.fetch("payloads_of", **columns(wanted, "namespaces", "payload_ids"))
        found = {(row["namespace"], row["id"]): (row["body"], row["blob"]) for row in rows}

        def completed(claim: Claim) -> Claim:
            body, blob = found.get((claim.namespace, claim.payload_id), (None, None))
            return msgspec.structs.replace(claim, payload=body, payload_blob=blob)

        return [completed(claim) if claim.payload_id else claim for claim in claims]

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
