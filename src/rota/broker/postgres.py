"""The broker that works directly on live_runs.

Lost transactions. A database that was restored, or a replica that took over without the last transactions, knows less
than its workers do. Claim numbers are still never given twice (claim.sql). A beat that does not follow the one before,
or that another server answers, puts the records in doubt: the worker compares them with what it holds, releases what it
does not hold and stops what is not on record. Runs on which both agree go on.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from rota.broker.attempt_metrics import AttemptMetrics
from rota.broker.namespace_shares import NamespaceShares
from rota.broker.pool_shares import PoolShares
from rota.broker.pool_tally import PoolTally
from rota.broker.protocol import ReportReceipt, Signal, SignalKind
from rota.domain.fleet import NAMESPACE_SHARE, WorkerProfile
from rota.domain.run import LOOKAHEAD, Claim, Disposition, LogChunk, Progress, Report
from rota.errors import DatabaseUnavailableError
from rota.metrics.catalogue import Metrics
from rota.service import Service
from rota.store.claim import Beat, Claims, PoolKey
from rota.store.logs import Logs
from rota.store.postgres.database import STATEMENT_SECONDS, Database
from rota.store.postgres.listener import Listener
from rota.store.postgres.scan_positions import FullScanBudget
from rota.store.postgres.wakeups import AWAITED, READY, WORKER
from rota.store.report import ClaimKey, Recorded, Reports
from rota.telemetry import get_logger
from rota.time_limits import time_limit

# How often a worker polls. With LISTEN, polls only catch lost wake-ups: every second while it has work, or had some in
# the last _CALM_SECONDS.
_POLL_LISTENING_SECONDS = 1.0
_POLL_IDLE_SECONDS = 4.5
_CALM_SECONDS = 5.0
_POLL_BLIND_SECONDS = 0.2
# A beat must be answered well within a lease, or be sent again on another connection.
_BEAT_TIMEOUT_SHARE = 0.3
# Looks at our claims overlap by this much, because a claim is stamped with the start of its transaction.
_OVERLAP = timedelta(seconds=5)
# A server may still carry out a claim that was not answered.
_DOUBT_SECONDS = 2 * STATEMENT_SECONDS
_log = get_logger("broker")


class PostgresBroker:
    """Implements `Broker` for one worker."""

    def __init__(
        self,
        *,
        database: Database,
        listen_url: str | None,
        lease_seconds: float,
        lookahead: timedelta = LOOKAHEAD,
        namespace_share: float = NAMESPACE_SHARE,
        metrics: Metrics | None = None,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._lookahead = lookahead
        self._namespace_share = namespace_share
        self._wake_ups = database.wake
        self._claims = Claims(database)
        self._reports = Reports(database)
        self._logs = Logs(database)
        self._listener = Listener(listen_url, (READY, WORKER, AWAITED), self._heard) if listen_url else None
        self._polled_at = -math.inf
        self._active_at = -math.inf  # when there was work, or a hint that there might be some
        self._id = uuid4()
        self._lanes: dict[PoolKey, list[int]] = {}
        self._paused: frozenset[PoolKey] = frozenset()
        self._shares: PoolShares | None = None
        self._namespaces: NamespaceShares | None = None  # None: it serves one
        self._whole_looks = FullScanBudget()
        self._in_doubt_until = -math.inf
        self._reconciled_at = time.monotonic()
        self._last_beat: Beat | None = None
        self._doubted = 0  # how often the records were in doubt, and how many of these doubts are settled
        self._compared = 0
        self._lost: frozenset[int] = frozenset()
        self._pools: frozenset[str] = frozenset()
        self._hints: asyncio.Queue[SignalKind] = asyncio.Queue(maxsize=16)
        self._tally = PoolTally()
        self._metrics = AttemptMetrics(metrics) if metrics else None

    @property
    def services(self) -> Sequence[Service]:
        return (self._listener,) if self._listener else ()

    async def join(self, profile: WorkerProfile) -> UUID:
        """Registers under a new id; ids are never reused."""
        self._id = uuid4()
        self._last_beat = None
        self._whole_looks = FullScanBudget()
        self._in_doubt_until = -math.inf
        self._reconciled_at = time.monotonic()
        self._pools = frozenset(profile.pools)
        if self._metrics:
            self._metrics.expect(profile)
        pools, namespaces = profile.pool_weights, profile.namespace_weights
        self._shares = PoolShares(pools) if len(pools) > 1 else None
        several = len(namespaces) > 1
        self._namespaces = NamespaceShares(namespaces, most_share=self._namespace_share) if several else None
        self._lanes = await self._claims.register(self._id, profile, timedelta(seconds=self.lease_seconds))
        _, self._paused = await self._claims.signals(self._id)
        return self._id

    async def claim(self, room: int) -> list[Claim]:
        """Claims from all pools, or from each by its weight."""
        try:
            if self._shares is None:
                claims = await self._claim_from(self._pools, room)
            else:
                claims = await self._claim_by_weight(self._shares, room)
        except BaseException:
            self._in_doubt_until = time.monotonic() + _DOUBT_SECONDS
            raise
        if claims:
            self._active_at = time.monotonic()
        return claims

    async def _claim_from(self, pools: Collection[str], room: int) -> list[Claim]:
        lanes: dict[str, list[int]] = {}
        for (namespace, pool), some in self._lanes.items():
            if pool in pools and (namespace, pool) not in self._paused:
                lanes.setdefault(namespace, []).extend(some)
        if not lanes or not room:
            return []
        if self._namespaces is None:
            (all_lanes,) = lanes.values()
            return await self._claims.claim(self._id, all_lanes, room, self._lookahead)
        shares = self._namespaces.of(lanes, room)
        claims = await self._claims.claim(self._id, (), room, self._lookahead, shares)
        for claim in claims:
            self._namespaces.took(claim.namespace, (claim.number,))
        return claims

    async def _claim_by_weight(self, shares: PoolShares, room: int) -> list[Claim]:
        """Claims each pool's share, then gives the remaining room to pools that filled theirs."""
        claims: list[Claim] = []
        had_more = []
        for pool, part in shares.split(room):
            some = await self._claim_from((pool,), part)
            shares.took(pool, (claim.number for claim in some))
            claims += some
            if len(some) == part:
                had_more.append(pool)
        for pool in had_more:
            some = await self._claim_from((pool,), room - len(claims))
            shares.took(pool, (claim.number for claim in some))
            claims += some
        return claims

    async def report(self, reports: Sequence[Report]) -> ReportReceipt:
        """Records the reports in at most two statements, and counts them."""
        recorded = await self._reports.record(reports)
        rejected = {claim: str(error) for claim, error in recorded.rejected.items()}
        for report in reports:
            number = report.claim.number
            if number not in recorded.fenced and number not in rejected:
                disposition = recorded.dispositions.get(number, Disposition.succeed)
                self._tally.ended(report, disposition)
        self._gave([report.claim.number for report in reports if report.claim.number not in rejected])
        self._tally.forget(recorded.fenced)
        if self._metrics:
            self._count(self._metrics, reports, recorded, rejected)
        return ReportReceipt(frozenset(recorded.fenced), rejected)

    def _count(
        self, metrics: AttemptMetrics, reports: Sequence[Report], recorded: Recorded, rejected: Collection[int]
    ) -> None:
        metrics.ended(reports, recorded.dispositions, {*recorded.fenced, *rejected})
        metrics.forget(recorded.fenced)
        metrics.fenced(len(recorded.fenced))

    async def beat(self, *, busy: int, fenced: int, draining: bool, ailing: str | None = None) -> datetime | None:
        """Beats, and writes the activity since the last beat."""
        if busy:
            self._active_at = time.monotonic()
        done, timeout = self._tally.take(whole=draining), self.lease_seconds * _BEAT_TIMEOUT_SHARE
        try:
            beat = await self._claims.beat(
                self._id, busy=busy, fenced=fenced, draining=draining, ailing=ailing, done=done, timeout=timeout
            )
        except DatabaseUnavailableError:
            self._tally.give_back(done)
            raise
        if beat and self._last_beat and not beat.follows(self._last_beat):
            self._doubt()
        self._last_beat = beat
        return beat.database_time if beat else None

    def _gave(self, claims: Collection[int]) -> None:
        for holdings in (self._shares, self._namespaces):
            if holdings:
                holdings.gave(claims)

    def _doubt(self) -> None:
        _log.warning("the database was replaced, restarted or restored: reconciling claims with its records")
        self._in_doubt_until = time.monotonic() + _DOUBT_SECONDS
        self._claims.look_anew()
        self._doubted += 1
        self._heard(WORKER, "")

    async def update(self, notes: Sequence[Progress]) -> None:
        """Records starts and progress, fenced by claim."""
        for note in notes:
            self._tally.goes_on(note.claim, note.started)
            if self._metrics:
                self._metrics.goes_on(note.claim, note.started)
        await self._reports.update(notes)

    async def write_logs(self, chunks: Sequence[LogChunk]) -> None:
        await self._logs.add(chunks)

    async def reconcile(self, held: frozenset[int]) -> int:
        """Must not overlap with a claim of the same worker: an answer in flight would look lost."""
        doubted = self._doubted
        claimed = await self._claimed()
        if doubted > self._compared:
            self._lost |= held - {number for _, _, number in claimed}
            self._compared = doubted
            self._heard(WORKER, "")
        strays = [row for row in claimed if row[2] not in held]
        if strays:
            await self._reports.release(strays)
            self._gave([claim for _, _, claim in strays])
            _log.info("released claims whose answer was lost", runs=len(strays))
        return len(strays)

    async def signals(self, wait_seconds: float) -> list[Signal]:
        """Waits for LISTEN hints where possible, and polls at bounded intervals in any case."""
        loop = asyncio.get_running_loop()
        poll_at = self._polled_at + self._poll_seconds
        hint = await self._hint(min(wait_seconds, max(0.0, poll_at - loop.time())))
        signals = []
        # Wake-ups for work must not keep us from polling for other signals.
        if hint is SignalKind.cancel or loop.time() >= poll_at:
            self._polled_at = loop.time()
            signals = [*self._doubts(), *await self._asked()]
        elif hint is None:
            return []
        return signals if hint is SignalKind.cancel else [*signals, Signal(SignalKind.work)]

    @property
    def _poll_seconds(self) -> float:
        if self._listener is None or not self._listener.connected:
            return _POLL_BLIND_SECONDS
        is_idle = time.monotonic() > self._active_at + _CALM_SECONDS
        return _POLL_IDLE_SECONDS if is_idle else _POLL_LISTENING_SECONDS

    async def leave(self) -> None:
        await self._claims.leave(self._id)

    async def _claimed(self) -> list[ClaimKey]:
        """Our claims: all of them in doubt, for a while after an unanswered claim, or if affordable; else new ones."""
        began = time.monotonic()
        claimed: list[ClaimKey] = []
        if self._doubted > self._compared or began < self._in_doubt_until or self._whole_looks.affordable():
            with self._whole_looks.measured(lambda: len(claimed)):
                claimed = await self._claims.claims_of(self._id)
        else:
            since = timedelta(seconds=began - self._reconciled_at) + _OVERLAP
            with self._whole_looks.compared(lambda: len(claimed)):
                claimed = await self._claims.claims_of(self._id, since)
        self._reconciled_at = began
        return claimed

    def _heard(self, channel: str, payload: str) -> None:
        if channel == AWAITED:
            if payload:  # else the listener has just connected
                self._wake_ups.note_awaited()
            return
        if channel == READY and (not payload or payload in self._pools):
            hint = SignalKind.work
        elif channel == WORKER and (not payload or payload == str(self._id)):
            hint = SignalKind.cancel
        else:
            return
        self._active_at = time.monotonic()
        if not self._hints.full():
            self._hints.put_nowait(hint)

    async def _hint(self, pause: float) -> SignalKind | None:
        """The next hint, or None when it is time to poll."""
        try:
            async with time_limit(pause):
                return await self._hints.get()
        except TimeoutError:
            return None

    def _doubts(self) -> list[Signal]:
        lost, self._lost = self._lost, frozenset()
        signals = [Signal(SignalKind.lost, number) for number in lost]
        return [*signals, Signal(SignalKind.doubt)] if self._doubted > self._compared else signals

    async def _asked(self) -> list[Signal]:
        try:
            asked, paused = await self._claims.signals(self._id)
        except DatabaseUnavailableError:
            return []
        resumed, self._paused = self._paused - paused, paused
        signals = [Signal(SignalKind.cancel if cancel else SignalKind.recall, claim) for claim, cancel in asked]
        return [*signals, Signal(SignalKind.work)] if resumed else signals
