"""Claims: how a worker joins, takes runs, keeps its lease, hears what it is asked, and leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.clock import WallClock
from rota.domain.application import encode_schedules, release_of
from rota.domain.fleet import WorkerProfile
from rota.domain.lag_histogram import STEPS
from rota.domain.run import Claim
from rota.errors import SetupError
from rota.store.announce import Announcements
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database
from rota.store.postgres.scan_positions import ScanPositions

PoolKey = tuple[str, str]  # namespace, pool


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


class AttemptCounts(msgspec.Struct):
    """What was done in one pool, or of one task: attempts that started and how late, how many ended in which way, and
    how long they took."""

    namespace: str
    name: str  # of the pool or task
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    lags: list[int] = msgspec.field(default_factory=lambda: [0] * STEPS)
    durations: list[int] = msgspec.field(default_factory=lambda: [0] * STEPS)
    run_seconds: float = 0.0

    def add(self, other: AttemptCounts) -> None:
        self.started += other.started
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.retried += other.retried
        self.lags = [mine + its for mine, its in zip(self.lags, other.lags, strict=True)]
        self.durations = [mine + its for mine, its in zip(self.durations, other.durations, strict=True)]
        self.run_seconds += other.run_seconds


class Done(NamedTuple):
    """What a worker did, by pool, and by task for a longer time at once."""

    pools: Sequence[AttemptCounts] = ()
    tasks: Sequence[AttemptCounts] = ()


NOTHING = Done()


class NamespaceShare(msgspec.Struct):
    """One of several namespaces that share a worker: what it holds there, its weight, and the most it may hold."""

    namespace: str
    lanes: list[int]
    held: int
    weight: int
    most: int


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
        """Learns from a claim: look at fewer runs if many were locked for nothing, at more if room was left."""
        portion = self.of(room)
        if locked > self.WASTE * max(taken, self.LEAST):
            self._most = max(self.LEAST, portion // 2)
        elif portion <= taken < room // 2:
            self._most = portion * 2


class Claims:
    """What a worker asks of the live runs and of its own row."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._positions = ScanPositions()
        self._portion = ClaimSize()
        self._announcements = Announcements(database)
        self._wall_clock = WallClock()

    async def register(self, worker_id: UUID, profile: WorkerProfile, lease: timedelta) -> dict[PoolKey, list[int]]:
        """Makes the worker known; returns the lanes it may claim from, by (namespace, pool).

        Raises SetupError when its database role is bound to others.
        """
        await self._check_binding(profile)
        lanes: dict[PoolKey, list[int]] = {}
        app = profile.application
        announced = await self._announcements.announce(app) if app else None
        rows = await self._database.fetch(
            "register_worker",
            worker_id=worker_id,
            host=profile.host,
            pid=profile.pid,
            namespaces=profile.namespaces,
            pools=profile.pools,
            tasks=profile.tasks,
            slots=profile.slots,
            lease=lease,
            app_namespace=app.namespace if app else None,
            app=app.name if app else None,
            version=app.version if app else None,
            schedules=encode_schedules(app.schedules) if app else None,
            workflows=app.workflows if app else None,
            release=release_of(app.version) if app else None,
            announced=announced,
        )
        for row in rows:
            lanes.setdefault((row["namespace"], row["pool"]), []).append(row["lane"])
        self._database.wake(schedules=app is not None, tasks=app is not None, events=True)
        return lanes

    async def claim(
        self,
        worker_id: UUID,
        lanes: Sequence[int],
        room: int,
        lookahead: timedelta,
        shares: Sequence[NamespaceShare] = (),
    ) -> list[Claim]:
        """Up to `room` ready runs, now this worker's. Large payloads are fetched along.

        With `shares`, their lanes are meant, and their namespaces divide the room.
        """
        claims: list[Claim] = []
        while left := room - len(claims):
            portion = self._portion.of(left)
            asked: dict[str, Any] = _by_lane(shares) if shares else {"lanes": lanes}
            if not asked["lanes"]:
                break  # every namespace holds as much as it may
            asked |= {"worker_id": worker_id, "room": left, "lookahead": lookahead, "portion": portion}
            with self._positions.look(asked["lanes"]) as look:
                if shares:
                    rows = await self._database.fetch("claim_shared", begin_at=look.begin_at, **asked)
                else:
                    rows = await self._database.fetch("claim", begin_at=look.begin_at, **asked)
                look.took((row[0], row[1]) for row in rows)
            some = [Claim(*row[3:]) for row in rows]
            claims += some
            for share in shares:
                share.held += sum(claim.namespace == share.namespace for claim in some)
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
        done: Done = NOTHING,
        timeout: float | None = None,
    ) -> Beat | None:
        """One heartbeat, with what was done since the last; None when the worker was given up."""
        skew = self._wall_clock.skew
        self._wall_clock.ask()
        rows = await self._database.fetch(
            "beat_worker",
            worker_id=worker_id,
            busy=busy,
            fenced=fenced,
            draining=draining,
            ailing=ailing,
            **columns(
                map(msgspec.structs.astuple, done.pools),
                "namespaces pools started succeeded failed retried lags durations run_seconds",
            ),
            **columns(
                map(msgspec.structs.astuple, done.tasks),
                "task_namespaces tasks task_started task_succeeded task_failed task_retried task_lags task_durations"
                " task_run_seconds",
            ),
            clock_skew=skew,
            timeout=timeout,
        )
        if not rows:
            return None
        beat = Beat(*rows[0])
        self._wall_clock.answered(beat.database_time)
        return beat

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
        """The worker's claims: all, or only those made at most this long ago."""
        rows = await self._database.fetch("claims_of_worker", worker_id=worker_id, made_within=made_within)
        return [(row["namespace"], row["id"], row["claim"]) for row in rows]

    async def leave(self, worker_id: UUID) -> None:
        """The worker stopped in good order."""
        await self._database.fetch("leave_worker", worker_id=worker_id)
        self._database.wake(events=True)

    async def _check_binding(self, profile: WorkerProfile) -> None:
        """Says in words what the database would refuse in its own."""
        bound: Any = await self._database.fetch_row("role_binding")
        for what, wanted, may in (
            ("namespaces", profile.namespaces, bound["namespaces"]),
            ("pools", profile.pools, bound["pools"]),
        ):
            if may is not None and (others := [name for name in wanted if name not in may]):
                raise SetupError(
                    f"The database role {bound['role']} may serve the {what} {', '.join(may) or '(none)'} alone, not "
                    f"{', '.join(others)}: change ROTA_{what.upper()}, or its binding with `rota database-roles`."
                )

    async def _with_payloads(self, claims: list[Claim]) -> list[Claim]:
        wanted = [(claim.namespace, claim.payload_id) for claim in claims if claim.payload_id]
        rows = await self._database.fetch("payloads_of", **columns(wanted, "namespaces payload_ids"))
        found = {(row["namespace"], row["id"]): (row["body"], row["blob"]) for row in rows}

        def completed(claim: Claim) -> Claim:
            body, blob = found.get((claim.namespace, claim.payload_id), (None, None))
            return msgspec.structs.replace(claim, payload=body, payload_blob=blob)

        return [completed(claim) if claim.payload_id else claim for claim in claims]


def _by_lane(shares: Iterable[NamespaceShare]) -> dict[str, Any]:
    """A row for each lane of the namespaces that may hold more."""
    rows = (
        (lane, number, share.held, share.weight, share.most)
        for number, share in enumerate(shares)
        if share.held < share.most
        for lane in share.lanes
    )
    return columns(rows, "lanes tenants held weights most")
