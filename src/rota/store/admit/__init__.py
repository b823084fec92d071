"""Gates: the transaction in which admission looks and acts.

Many schedulers may look at one gate. Each gate has a lock (a number in PostgreSQL's advisory locks, held until the
transaction ends), and all take them in the order of their numbers, so they wait for each other and never in a circle.
What is counted is read in statements that begin after the locks are there, and so see everything that was decided
before.

No run is forgotten. A run that leaves its place is written down by the statement that moves it (departures). A
scheduler that takes such a note first takes the lock of its gates and only then looks which runs wait there: a run that
is being held at this moment, by a scheduler that still saw the other in its place, is under that lock. The note goes
with the transaction that acted on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.gates import (
    MOST_AT_A_GATE,
    Bucket,
    Candidate,
    CircuitBreaker,
    Departure,
    Gate,
    GateDecision,
    GateKind,
    GateStates,
    OpenRun,
    OrderQueue,
    called_gates,
    decide,
    gates_by_kind,
    gates_of,
    hear,
)
from rota.domain.policies import Policies, decode_policies
from rota.store.cancel import cancel_runs
from rota.store.events import Event, record_events
from rota.store.lease import leased
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.scan_positions import ScanPositions
from rota.store.schema.partitions import with_days

# A round is a transaction that holds a lock for each gate: bounded, so that it is short and the server has room.
_NOTES_PER_ROUND = 500
NEW_PER_ROUND = 600
_WAKING_PER_ROUND = 50
MOST_GATES = 2000
_ONE_KEY = (0,)
# Gates that are looked at again where more wait than were looked at.
_CALLED_AGAIN = ("limit", "rate", "breaker")

_RunKey = tuple[str, UUID]


class Admitted(msgspec.Struct):
    """What a round did: how much it looked at, what has to be woken, and whether there is more to do at once."""

    looked_at: int = 0
    admitted: int = 0
    pools: set[str] = msgspec.field(default_factory=set)
    workers: set[UUID] = msgspec.field(default_factory=set)
    events: list[Event] = msgspec.field(default_factory=list)
    more: bool = False


class _Found(msgspec.Struct):
    """Who may pass, and the gates whose locks are held."""

    runs: dict[_RunKey, list[Gate]] = msgspec.field(default_factory=dict)
    locked: set[Gate] = msgspec.field(default_factory=set)
    # Gates at which as many were found as were asked for: there may be more.
    full: dict[Gate, Policies] = msgspec.field(default_factory=dict)


class Gates:
    """Admission's statements. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._taken = ScanPositions()

    async def admit(self, owned: Mapping[int, int], limit: int) -> Admitted:
        """One round: looks which runs may pass, and decides and writes what becomes of each."""
        skipped: list[UUID] = []

        async def round_of_admission(statements: Statements) -> Admitted:
            try:
                return await self._round(statements, owned, limit, skipped)
            except BaseException:
                self._taken.forget()  # what was taken is there again
                raise

        try:
            done = await with_days(self._database, skipped, lambda: self._database.transact(round_of_admission))
        except BaseException:
            self._taken.forget()
            raise
        self._database.wake(pools=done.pools, workers=done.workers)
        return done

    async def next_due_in(self, owned: Mapping[int, int]) -> float | None:
        """In how many seconds there is something to do (0: now); None: nothing is known. Costs one statement."""
        begin = self._taken.begin(0)
        seconds: float | None = await self._database.fetch_value("next_candidate", shards=list(owned), begin_at=begin)
        return seconds

    async def _round(
        self, statements: Statements, owned: Mapping[int, int], limit: int, skipped: list[UUID]
    ) -> Admitted:
        done = Admitted()
        departures = await self._departures(statements)
        new = await statements.fetch(
            "new_candidates",
            **leased(self._scheduler_id, owned),
            limit=limit,
        )
        many = len(new) > NEW_PER_ROUND
        new = sorted(new, key=lambda row: row["run_at"])[:NEW_PER_ROUND] if many else new
        waking = await statements.fetch("waking_gates", limit=_WAKING_PER_ROUND)
        done.looked_at = len(departures) + len(new) + len(waking)
        done.more = many or len(departures) >= _NOTES_PER_ROUND or len(new) >= limit or len(waking) >= _WAKING_PER_ROUND
        if not done.looked_at:
            return done
        found = await self._find(statements, departures, new, waking)
        if not found.runs and not any(departure.policies.breaker for departure in departures):
            await _forget_waking(statements, waking)
            return done
        candidates, deferred, now = await _lock_candidates(statements, found)
        states = await _look_around(statements, now, candidates, departures, waking)
        done.events = [
            Event(departure.namespace, kind, departure.policies.breaker or "", detail, departure.job_id)
            for departure, kind, detail in hear(departures, states)
        ]
        verdicts = [(candidate, decide(candidate, states)) for candidate in candidates]
        skipped += [candidate.id for candidate, verdict in verdicts if verdict.fate == "skip"]
        skipped += [run_id for _, verdict in verdicts for run_id in verdict.cancel]
        await _write(statements, verdicts, deferred, states, found, done)
        return done

    async def _departures(self, statements: Statements) -> list[Departure]:
        with self._taken.look(_ONE_KEY) as look:
            rows = await statements.fetch("take_departures", limit=_NOTES_PER_ROUND, begin_at=look.begin_at[0])
            look.took((0, row["reached"]) for row in rows)
        departures = [
            Departure(
                row["namespace"],
                row["run_id"],
                row["job_id"],
                decode_policies(row["policies"]),
                row["outcome"],
                row["reached"],
            )
            for row in rows
        ]
        return sorted(departures, key=lambda departure: departure.left_at)

    async def _find(
        self, statements: Statements, departures: Sequence[Departure], new: Sequence[Any], waking: Sequence[Any]
    ) -> _Found:
        found = _Found()
        called = called_gates(departures, ((_gate_of(row), row["state"]) for row in waking))
        for row in new:
            found.runs[row["namespace"], row["id"]] = _gates_of_row(row)
        found.locked = {*called, *(gate for gates in found.runs.values() for gate in gates)}
        await statements.fetch("lock_gates", numbers=sorted({_number(gate) for gate in found.locked}))
        if called:
            await self._find_called(statements, called, found)
        return found

    async def _find_called(self, statements: Statements, called: Mapping[Gate, int], found: _Found) -> None:
        rows = await statements.fetch("called_candidates", **_gate_columns(called), rooms=list(called.values()))
        counts: dict[Gate, int] = {}
        others: set[Gate] = set()
        for row in rows:
            gate = _gate_of(row)
            counts[gate] = counts.get(gate, 0) + 1
            crowded = len(found.locked) + len(others) > MOST_GATES and gate.kind in _CALLED_AGAIN
            if counts[gate] >= called[gate] or crowded:
                found.full[gate] = decode_policies(row["policies"])
            if crowded:
                continue
            found.runs[row["namespace"], row["id"]] = gates = _gates_of_row(row)
            # Their other gates are only tried: to wait for them now would be out of order.
            others.update(gate for gate in gates if gate not in found.locked)
        if others:
            numbers = {_number(gate) for gate in others}
            had = {row["number"] for row in await statements.fetch("try_lock_gates", numbers=sorted(numbers))}
            found.locked |= {gate for gate in others if _number(gate) in had}


def _gate_of(row: Any) -> Gate:
    return Gate(row["namespace"], row["kind"], row["key"])


def _gates_of_row(row: Any) -> list[Gate]:
    return gates_of(row["namespace"], row["job_id"], decode_policies(row["policies"]))


def _number(gate: Gate) -> int:
    """The number of a gate's lock; two gates may share one, which costs a wait and nothing else."""
    text = f"{gate.namespace}\0{gate.kind}\0{gate.key}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def _gate_columns(gates: Iterable[Gate]) -> dict[str, Any]:
    return columns(((gate.namespace, gate.kind, gate.key) for gate in gates), "namespaces kinds keys")


async def _lock_candidates(statements: Statements, found: _Found) -> tuple[list[Candidate], list[_RunKey], datetime]:
    """The candidates, first in line first, all of whose gates are ours; those that another holds up; and the time."""
    keys = sorted(found.runs, key=lambda key: key[1])
    deferred = [key for key in keys if not found.locked.issuperset(found.runs[key])]
    held_up = set(deferred)
    rows = await statements.fetch(
        "lock_candidates", namespaces=[namespace for namespace, _ in keys], run_ids=[key[1] for key in keys]
    )
    candidates = []
    for row in rows:
        policies = decode_policies(row["policies"])
        key = (row["namespace"], row["id"])
        # Its policies may have changed since it was found; then its gates are not known to be ours.
        if key not in held_up and found.locked.issuperset(gates_of(row["namespace"], row["job_id"], policies)):
            starts_a_time = row["cause"] == "schedule" and row["attempt"] == 0 and row["snoozes"] == 0
            candidates.append(Candidate(*key, row["job_id"], policies, row["nominal_at"], starts_a_time))
    there = {(row["namespace"], row["id"]) for row in rows}
    ours = {(candidate.namespace, candidate.id) for candidate in candidates}
    candidates.sort(key=lambda candidate: (candidate.nominal_at, candidate.id))
    now = rows[-1]["database_time"] if rows else await statements.time()
    return candidates, [key for key in keys if key in there and key not in ours], now


async def _look_around(
    statements: Statements,
    now: datetime,
    candidates: Sequence[Candidate],
    departures: Sequence[Departure],
    waking: Sequence[Any],
) -> GateStates:
    """The states of the gates of these, now that no other transaction changes them."""
    states = GateStates(now, {}, {}, {}, {}, {})
    by_kind = gates_by_kind(candidates, departures)
    if orders := by_kind.get("order"):
        for row in await read_orders(statements, orders):
            states.lines[Gate(row["namespace"], "order", row["key"])] = OrderQueue(row["head"], row["holder"])
    if limits := by_kind.get("limit"):
        for row in await statements.fetch("count_live_of_keys", **_names_and_keys(limits)):
            states.used[Gate(row["namespace"], "limit", row["key"])] = row["used"]
    if jobs := by_kind.get("overlap"):
        states.open_runs = {gate: [] for gate in jobs}
        for row in await read_overlaps(statements, [(gate.namespace, UUID(hex=gate.key)) for gate in jobs]):
            gate = Gate(row["namespace"], "overlap", row["job_id"].hex)
            states.open_runs[gate].append(OpenRun(row["id"], row["nominal_at"], row["gate"]))
    await _remember(statements, states, by_kind, waking)
    return states


async def _remember(
    statements: Statements,
    states: GateStates,
    by_kind: Mapping[GateKind, Mapping[Gate, Policies]],
    waking: Sequence[Any],
) -> None:
    """What buckets and breakers say; a new bucket is full, a new breaker closed."""
    rates, breakers = by_kind.get("rate", {}), by_kind.get("breaker", {})
    states.buckets = {gate: Bucket(float(policies.burst), states.now) for gate, policies in rates.items()}
    states.breakers = {gate: CircuitBreaker() for gate in breakers}
    woken = [_gate_of(row) for row in waking]
    if not (rates or breakers or woken):
        return
    for row in await read_gates(statements, {*rates, *breakers, *woken}):
        gate = _gate_of(row)
        if gate.kind == "rate":
            states.buckets[gate] = Bucket(row["tokens"], row["counted_at"], row["wakes_at"], row["full_at"])
        else:
            states.breakers[gate] = CircuitBreaker(
                row["state"], row["failures"], row["probe"], row["probing"], row["until"], row["wakes_at"]
            )
    for gate in woken:
        # Its moment has come; runs that still wait there say when the next one is.
        if gate in states.buckets:
            states.buckets[gate].wakes_at = None
        elif gate in states.breakers:
            states.breakers[gate].wakes_at = None


async def read_gates(statements: Statements | Database, gates: Iterable[Gate]) -> list[Any]:
    """What these gates remember."""
    return await statements.fetch("read_gates", **_gate_columns(gates))


async def read_orders(statements: Statements | Database, gates: Iterable[Gate]) -> list[Any]:
    """Who is first in line at each ordering key, and who has it."""
    return await statements.fetch("orders_of", **_names_and_keys(gates))


async def read_overlaps(statements: Statements | Database, jobs: Iterable[tuple[str, UUID]]) -> list[Any]:
    """The runs of these jobs, each with its namespace, that have not ended."""
    return await statements.fetch("overlaps_of", **columns(jobs, "namespaces job_ids"))


def _names_and_keys(gates: Iterable[Gate]) -> dict[str, Any]:
    return columns(((gate.namespace, gate.key) for gate in gates), "namespaces keys")


async def _write(
    statements: Statements,
    verdicts: Sequence[tuple[Candidate, GateDecision]],
    deferred: Sequence[_RunKey],
    states: GateStates,
    found: _Found,
    done: Admitted,
) -> None:
    goes = [(c.namespace, c.id) for c, verdict in verdicts if verdict.fate == "go"]
    waits: list[tuple[str, UUID, str, str | None]] = [
        (c.namespace, c.id, v.gate.kind, v.gate.key) for c, v in verdicts if v.fate == "wait" and v.gate
    ]
    waits += [(namespace, run_id, "new", None) for namespace, run_id in deferred]
    skips = [(c.namespace, c.id, verdict.reason) for c, verdict in verdicts if verdict.fate == "skip"]
    done.admitted = len(goes)
    done.more = done.more or bool(deferred) or len(goes) >= MOST_AT_A_GATE
    if goes:
        rows = await statements.fetch("admit", **columns(sorted(goes, key=_by_id), "namespaces run_ids"))
        done.pools = {row["pool"] for row in rows}
    if waits:
        await statements.fetch("hold_at_gates", **columns(waits, "namespaces run_ids gates gate_keys"))
    if skips:
        await statements.fetch("skip_held", **columns(sorted(skips, key=_by_id), "namespaces run_ids reasons"))
    for candidate, verdict in verdicts:
        if verdict.cancel:
            reason = "replaced by a later run of its job"
            hit = await cancel_runs(statements, candidate.namespace, verdict.cancel, reason)
            done.workers |= {worker_id for worker_id in hit.values() if worker_id}
            done.more = True
    await record_events(statements, done.events)
    done.more |= states.look_again(found.full)
    await _write_gates(statements, states)
    await _call_again(statements, states, found)


async def _write_gates(statements: Statements, states: GateStates) -> None:
    """Writes what gates remember."""
    rows: list[tuple[Any, ...]] = []
    for gate, bucket in states.buckets.items():
        remembered = (bucket.tokens, bucket.counted_at, None, None, None, None, bucket.wakes_at, bucket.full_at)
        rows.append((gate.namespace, gate.kind, gate.key, *remembered))
    for gate, breaker in states.breakers.items():
        kept = (breaker.state, breaker.failures, breaker.probe, breaker.until, breaker.wakes_at)
        forget_at = states.now if breaker == CircuitBreaker() else None
        rows.append((gate.namespace, gate.kind, gate.key, None, None, *kept, forget_at))
    if rows:
        rows.sort(key=lambda row: row[:3])
        await statements.fetch(
            "write_gates",
            **columns(rows, "namespaces kinds keys tokens counted_at states failures probes until wakes_at full_at"),
        )


async def _call_again(statements: Statements, states: GateStates, found: _Found) -> None:
    """A limit that still has room, where more may wait than were looked at, is looked at again."""
    for gate, policies in found.full.items():
        if gate.kind == "limit" and states.used.get(gate, 0) < policies.most:
            await statements.fetch("recheck_limit", namespace=gate.namespace, key=gate.key)


async def _forget_waking(statements: Statements, waking: Sequence[Any]) -> None:
    """No run waits at these gates."""
    if waking:
        gates = [_gate_of(row) for row in waking]
        await statements.fetch("clear_gate_wake", **_gate_columns(gates))


def _by_id(row: tuple[Any, ...]) -> UUID:
    run_id: UUID = row[1]
    return run_id
