"""Gates: the transaction in which admission looks and acts.

Many schedulers may look at one gate. Each gate has a lock (a number in PostgreSQL's advisory locks, held until the
transaction ends), and all take them in the order of their numbers, so they can't deadlock.
Counts are read by statements that begin after the locks are held, so they see every earlier decision.

No run is forgotten. When a run leaves its place, the statement that moves it writes a note (departures). A scheduler
that takes a note first locks the gates and only then looks which runs wait there. So if another scheduler is just now
holding a run, because it still saw the first run in its place, that scheduler has the lock. The note is deleted by the
transaction that acted on it. A run that is held at an ordering key waits for the key's holder or for the first in line;
if that one waits at the key as well, the same transaction leaves a note that calls it (`uncalled_lines`). A slow
complete look finds any run that is still missed (overlooked.py).

No round waits for a row. Runs that another transaction holds are passed over and their gates looked at again in a
moment: a program that keeps its transaction open delays the runs it holds and those behind them in their key, and no
others. A run that can't be decided on, or that the database refuses, is set aside: it stays 'new' with the reason as
its gate_key, holds its place, and is tried again later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.gates import (
    MOST_AT_A_GATE,
    MOST_DEPENDENTS,
    Candidate,
    Departure,
    Gate,
    GateDecision,
    GateStates,
    called_gates,
    decide_each,
    dependency_gate,
    gates_of,
    hear,
    uncalled_lines,
)
from rota.domain.misfire import MISSED_AFTER
from rota.domain.policies import Policies, decode_policies
from rota.errors import DataRejectedError
from rota.store.admit.gate_states import (
    call_gates,
    candidate_of,
    gate_columns,
    gate_of,
    read_states,
    write_states,
)
from rota.store.cancel import cancel_runs
from rota.store.depend.needs import forget_dependents
from rota.store.events import Event, record_events
from rota.store.lease import leased
from rota.store.postgres.batches import columns, write_each
from rota.store.postgres.database import Database, MissingDayError, Statements
from rota.store.postgres.scan_positions import FullScanBudget, ScanPositions
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

# A round is a transaction that holds a lock for each gate: bounded, so that it is short and the server has room.
_NOTES_PER_ROUND = 500
NEW_PER_ROUND = 600
_WAKING_PER_ROUND = 50
_AGAIN_PER_ROUND = 100
MOST_GATES = 2000
_ONE_KEY = (0,)
# Gates that say themselves that more wait there than were looked at.
_CALLED_AGAIN = ("limit", "rate", "breaker")
# How many of a gate that is looked at again are looked at; of others the first.
_ROOMS = {"limit": MOST_AT_A_GATE, "rate": MOST_AT_A_GATE, "dependency": MOST_DEPENDENTS}
# How soon a gate is looked at again where a run was passed over because another transaction held it.
AGAIN_SECONDS = 0.2
_MOST_AGAIN = 10_000
# How many overdue runs per shard a round looks at, oldest first; if that is slow, only those of the last minute.
_OVERDUE_PER_SHARD = 100
_OVERDUE = timedelta(minutes=1)
_REASON_CHARACTERS = 500
_log = get_logger("admission")

_RunKey = tuple[str, UUID]


class Admitted(msgspec.Struct):
    """The result of a round: how many runs it looked at, which pools to wake, and whether there is more to do now."""

    looked_at: int = 0
    admitted: int = 0
    pools: set[str] = msgspec.field(default_factory=set)
    workers: set[UUID] = msgspec.field(default_factory=set)
    flows: bool = False  # whether workflow runs were opened
    events: list[Event] = msgspec.field(default_factory=list)
    aside: list[tuple[str, UUID, str]] = msgspec.field(default_factory=list)  # namespace, run, why
    again: set[Gate] = msgspec.field(default_factory=set)  # to be looked at again in a moment
    more: bool = False


class _Found(msgspec.Struct):
    """Who may pass, and the gates whose locks are held."""

    runs: dict[_RunKey, list[Gate]] = msgspec.field(default_factory=dict)
    locked: set[Gate] = msgspec.field(default_factory=set)
    # Where those wait that were found at a gate that was called.
    waits_at: dict[_RunKey, Gate] = msgspec.field(default_factory=dict)
    # Gates at which as many were found as were asked for: there may be more.
    full: dict[Gate, Policies] = msgspec.field(default_factory=dict)
    # Gates that were called and where another transaction holds one of the first runs.
    held_up: set[Gate] = msgspec.field(default_factory=set)
    # Gates that were called and had no room left in this round.
    left_out: set[Gate] = msgspec.field(default_factory=set)
    more: bool = False  # whether runs that are new were left for the next round


class _Line(msgspec.Struct):
    """Candidates of a round, by what can be said of them before any decision."""

    now: datetime
    candidates: list[Candidate] = msgspec.field(default_factory=list)  # first in line first; all their gates are ours
    deferred: list[_RunKey] = msgspec.field(default_factory=list)  # another scheduler holds one of their gates
    early: list[_RunKey] = msgspec.field(default_factory=list)  # the clock went back: not due any more
    passed_over: list[_RunKey] = msgspec.field(default_factory=list)  # gone, or held by another transaction


class Gates:
    """Admission's statements. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._taken = ScanPositions()
        self._again: dict[Gate, float] = {}  # when, on the monotonic clock
        self._overdue_looks = FullScanBudget()

    async def admit(self, owned: Mapping[int, int], limit: int) -> Admitted:
        """One round: looks which runs may pass, and decides and writes what becomes of each."""
        skipped: list[UUID] = []
        again = self._due_again()
        round_of = _Round(self, owned, limit, again, skipped)

        async def round_of_admission(statements: Statements) -> Admitted:
            try:
                return await round_of.run(statements)
            except BaseException:
                self._taken.forget()  # what was taken is there again
                raise

        async def attempt() -> Admitted:
            return await with_days(self._database, skipped, lambda: self._database.transact(round_of_admission))

        try:
            done = await self._carefully(round_of, attempt)
        except BaseException:
            self._taken.forget()
            raise
        self._look_later(again, done.again)
        for namespace, run_id, reason in done.aside:
            _log.error("a run can't be admitted and is set aside", namespace=namespace, run_id=str(run_id), why=reason)
        self._database.wake(pools=done.pools, workers=done.workers, flows=done.flows, events=bool(done.events))
        return done

    async def next_due_in(self, owned: Mapping[int, int], *, whole: bool = False) -> tuple[bool, float]:
        """Whether something is due now, and in how many seconds the next known moment comes. Costs one statement.

        `whole`: looks at all notes of runs that left, not only at those after our position.
        """
        now = time.monotonic()
        begin_at = -math.inf if whole else self._taken.begin(0)
        row = await self._database.fetch_row("next_candidate", shards=list(owned), begin_at=begin_at)
        moments = [moment - now for moment in self._again.values()]
        if row is not None and row["next_in"] is not None:
            moments.append(row["next_in"])
        is_due = bool(row and row["is_due"]) or any(seconds <= 0 for seconds in moments)
        return is_due, min((seconds for seconds in moments if seconds > 0), default=math.inf)

    async def _carefully(self, round_of: _Round, attempt: Callable[[], Awaitable[Admitted]]) -> Admitted:
        """If the database refuses what a round writes, it is written run by run, and the guilty are set aside."""
        try:
            return await attempt()
        except MissingDayError:
            raise
        except DataRejectedError as error:
            _log.warning("a round of admission was refused; its runs are tried one by one", error=str(error))
            round_of.careful = True
            return await attempt()

    def _due_again(self) -> list[Gate]:
        now = time.monotonic()
        return [gate for gate, moment in self._again.items() if moment <= now][:_AGAIN_PER_ROUND]

    def _look_later(self, looked_at: Sequence[Gate], again: set[Gate]) -> None:
        for gate in looked_at:
            self._again.pop(gate, None)
        moment = time.monotonic() + AGAIN_SECONDS
        for gate in again:
            if len(self._again) < _MOST_AGAIN:  # the slow look finds the others
                self._again.setdefault(gate, moment)

    async def departures(self, statements: Statements) -> list[Departure]:
        """Takes notes, oldest first. Those whose gates are too many for one round are put back."""
        with self._taken.look(_ONE_KEY) as look:
            rows = await statements.fetch("take_departures", limit=_NOTES_PER_ROUND, begin_at=look.begin_at[0])
            look.took((0, row["reached"]) for row in rows)
        rows.sort(key=lambda row: row["left_at"])
        departures: list[Departure] = []
        gates: set[Gate] = set()
        for number, row in enumerate(rows):
            policies = decode_policies(row["policies"])
            gates.update(gates_of(row["namespace"], row["job_id"], policies))
            if policies.awaited:
                gates.add(dependency_gate(row["namespace"], row["job_id"], row["run_id"]))
            if len(gates) > MOST_GATES // 2 and departures:
                await _put_back(statements, rows[number:])
                self._taken.forget()
                break
            departures.append(
                Departure(row["namespace"], row["run_id"], row["job_id"], policies, row["outcome"], row["reached"])
            )
        return departures

    async def new_candidates(self, statements: Statements, owned: Mapping[int, int], limit: int) -> list[Any]:
        """Runs that came to their gates, oldest first."""
        rows = await statements.fetch("new_candidates", **leased(self._scheduler_id, owned), limit=limit)
        return sorted(rows, key=lambda row: row["run_at"])

    async def meet_overdue(self, statements: Statements, states: GateStates, candidates: Sequence[Candidate]) -> None:
        """Puts runs that are due and were not promoted yet where they belong in the line of their key."""
        ids = {candidate.id for candidate in candidates}
        if not any(line.holder is None and line.head in ids for line in states.lines.values()):
            return
        whole = self._overdue_looks.affordable()
        begin_at = -math.inf if whole else (states.now - _OVERDUE).timestamp()
        rows: list[Any] = []
        with (self._overdue_looks.measured if whole else self._overdue_looks.compared)(lambda: len(rows)):
            rows += await statements.fetch(
                "overdue_of_keys", begin_at=begin_at, missed_after=MISSED_AFTER, limit=_OVERDUE_PER_SHARD
            )
        for row in rows:
            if line := states.lines.get(Gate(row["namespace"], "order", row["key"])):
                line.meet_overdue(row["id"], row["nominal_at"])


class _Round:
    """One round of admission, in a transaction that may be tried more than once."""

    def __init__(
        self, gates: Gates, owned: Mapping[int, int], limit: int, again: Sequence[Gate], skipped: list[UUID]
    ) -> None:
        self._gates = gates
        self._owned = owned
        self._limit = limit
        self._again = again
        self._skipped = skipped
        self.careful = False

    async def run(self, statements: Statements) -> Admitted:
        done = Admitted()
        departures = await self._gates.departures(statements)
        new = await self._gates.new_candidates(statements, self._owned, self._limit)
        waking = await statements.fetch("waking_gates", limit=_WAKING_PER_ROUND)
        woken = [gate_of(row) for row in waking]
        done.looked_at = len(departures) + len(new) + len(waking) + len(self._again)
        done.more = len(departures) >= _NOTES_PER_ROUND or len(new) >= self._limit or len(waking) >= _WAKING_PER_ROUND
        if not done.looked_at:
            return done
        found = _Found()
        called = called_gates(departures, zip(woken, (row["state"] for row in waking), strict=True))
        for gate in self._again:
            called.setdefault(gate, _ROOMS.get(gate.kind, 1))
        await _find(statements, called, new, found)
        done.more |= found.more
        done.again |= found.held_up
        await call_gates(statements, found.left_out)
        if not found.runs and not any(departure.policies.breaker for departure in departures):
            await _forget_waking(statements, woken)
            return done
        line = await _lock_candidates(statements, found)
        states = await read_states(statements, line.now, line.candidates, departures, woken)
        await self._gates.meet_overdue(statements, states, line.candidates)
        done.events = [
            Event(departure.namespace, kind, departure.policies.breaker or "", detail, departure.job_id)
            for departure, kind, detail in hear(departures, states)
        ]
        verdicts = decide_each(line.candidates, states)
        self._skipped += [candidate.id for candidate, verdict in verdicts if verdict.fate == "skip"]
        self._skipped += [run_id for _, verdict in verdicts for run_id in verdict.cancel]
        await self._write(statements, verdicts, line, done)
        await forget_dependents(statements, [one for one, verdict in verdicts if verdict.fate in ("go", "skip")])
        left = {
            found.waits_at.get((one.namespace, one.id)) for one, verdict in verdicts if verdict.fate in ("go", "skip")
        }
        # More may wait for a run that has ended than were looked at; if none of them went, it has not.
        more = {gate for gate in found.full if gate.kind == "dependency" and gate in left}
        await call_gates(statements, more)
        done.more |= bool(more)
        done.again |= {found.waits_at[key] for key in line.passed_over if key in found.waits_at}
        await self._write_gates(statements, line, states, found, done)
        return done

    async def _write(
        self,
        statements: Statements,
        verdicts: Sequence[tuple[Candidate, GateDecision]],
        line: _Line,
        done: Admitted,
    ) -> None:
        """Writes what becomes of the runs."""
        goes = [(c.namespace, c.id) for c, verdict in verdicts if verdict.fate == "go"]
        waits: list[tuple[Any, ...]] = [
            (c.namespace, c.id, v.gate.kind, v.gate.key) for c, v in verdicts if v.fate == "wait" and v.gate
        ]
        waits += [(*key, "new", None) for key in (*line.deferred, *line.early)]
        skips = [(c.namespace, c.id, verdict.reason) for c, verdict in verdicts if verdict.fate == "skip"]
        done.aside = [(c.namespace, c.id, verdict.reason or "") for c, verdict in verdicts if verdict.fate == "aside"]
        rows = await self._move(statements, sorted(goes, key=_by_id), _admit, done)
        done.pools = {row["pool"] for row in rows if not row["opens"]}
        done.flows = any(row["opens"] for row in rows)
        done.admitted = len(goes)
        done.more = done.more or bool(line.deferred) or len(goes) >= MOST_AT_A_GATE
        await self._move(statements, waits, _hold, done)
        await self._move(statements, sorted(skips, key=_by_id), _skip, done)
        replaces = [(c.namespace, c.id, verdict.cancel, verdict.gate) for c, verdict in verdicts if verdict.cancel]
        await self._move(statements, replaces, partial(_replace, done), done)
        asides = [(namespace, run_id, "new", why[:_REASON_CHARACTERS]) for namespace, run_id, why in done.aside]
        await _hold(statements, asides)

    async def _move(
        self,
        statements: Statements,
        rows: Sequence[tuple[Any, ...]],
        write: Callable[[Statements, Sequence[tuple[Any, ...]]], Awaitable[list[Any]]],
        done: Admitted,
    ) -> list[Any]:
        """Writes rows, each of which begins with a run's key; if need be one by one, setting aside what is refused."""
        if not rows or not self.careful:
            return await write(statements, rows)

        async def attempt(some: Sequence[tuple[Any, ...]]) -> list[Any]:
            async with statements.savepoint():
                return await write(statements, some)

        async def reject(row: tuple[Any, ...], error: DataRejectedError) -> None:
            if isinstance(error, MissingDayError):
                raise error  # the day is made, and the round tried again
            done.aside.append((row[0], row[1], f"the database refused it: {error}"))

        return await write_each(rows, attempt, reject)

    async def _write_gates(
        self, statements: Statements, line: _Line, states: GateStates, found: _Found, done: Admitted
    ) -> None:
        """Writes what gates remember, and calls those that would not be called otherwise."""
        await record_events(statements, done.events)
        done.more |= states.look_again(found.full)
        await write_states(statements, states)
        decided = {candidate.id for candidate in line.candidates} | {run_id for _, run_id in line.deferred}
        passed_over = {run_id for _, run_id in line.passed_over}
        uncalled, unpromoted = uncalled_lines(states, decided)
        held_up = {gate for gate in uncalled if states.lines[gate].head in passed_over}
        done.again |= held_up | unpromoted
        # A limit that still has room, where more may wait than were looked at.
        roomy = {
            gate
            for gate, policies in found.full.items()
            if gate.kind == "limit" and states.used.get(gate, 0) < policies.most
        }
        await call_gates(statements, (uncalled - held_up) | roomy)
        done.more |= bool(uncalled - held_up)


async def _find(statements: Statements, called: Mapping[Gate, int], new: Sequence[Any], found: _Found) -> None:
    """Locks the gates that were called and those of runs that are new, and finds who may pass."""
    found.locked = {*called, *(gate.lock for gate in called)}
    for row in new[:NEW_PER_ROUND]:
        gates = _gates_of_row(row)
        # Half is left for the other gates of runs that were called; one run at least goes on in every round.
        if found.runs and len(found.locked) + len(gates) > MOST_GATES * 3 // 4:
            break
        found.runs[row["namespace"], row["id"]] = gates
        found.locked.update(gates)
    found.more = len(found.runs) < len(new)
    await statements.fetch("lock_gates", numbers=sorted({_number(gate) for gate in found.locked}))
    if called:
        await _find_called(statements, called, found)


async def _find_called(statements: Statements, called: Mapping[Gate, int], found: _Found) -> None:
    rows = await statements.fetch("called_candidates", **gate_columns(called), rooms=list(called.values()))
    counts: dict[Gate, int] = {}
    others: set[Gate] = set()
    for row in rows:
        gate = gate_of(row)
        if not row["free"]:
            continue
        gates = _gates_of_row(row)
        counts[gate] = counts.get(gate, 0) + 1
        unlocked = {other for other in gates if other not in found.locked}
        crowded = bool(unlocked) and len(found.locked) + len(others | unlocked) > MOST_GATES
        if gate.kind == "dependency" and counts[gate] >= called[gate]:
            found.full[gate] = decode_policies(row["policies"])
        if gate.kind in _CALLED_AGAIN and (counts[gate] >= called[gate] or crowded):
            found.full[gate] = decode_policies(row["policies"])
        elif crowded:
            found.left_out.add(gate)
        if crowded:
            continue
        key = (row["namespace"], row["id"])
        found.runs[key] = gates
        found.waits_at[key] = gate
        # Their other gates are only tried: to wait for them now would be out of order.
        others |= unlocked
    free = {row["id"] for row in rows if row["free"]}
    found.held_up = {gate_of(row) for row in rows if row["id"] not in free}
    if others:
        numbers = {_number(gate) for gate in others}
        had = {row["number"] for row in await statements.fetch("try_lock_gates", numbers=sorted(numbers))}
        found.locked |= {gate for gate in others if _number(gate) in had}


def _gates_of_row(row: Any) -> list[Gate]:
    return gates_of(row["namespace"], row["job_id"], decode_policies(row["policies"]))


def _number(gate: Gate) -> int:
    """The number of a gate's lock; two gates may share one, which costs a wait and nothing else."""
    text = f"{gate.namespace}\0{gate.kind}\0{gate.lock.key}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


async def _lock_candidates(statements: Statements, found: _Found) -> _Line:
    """Takes the runs that are there and held by no other transaction."""
    keys = sorted(found.runs, key=_by_id)
    rows = await statements.fetch("lock_candidates", **columns(keys, "namespaces run_ids"))
    line = _Line(rows[-1]["database_time"] if rows else await statements.time())
    for row in rows:
        key = (row["namespace"], row["id"])
        candidate = candidate_of(row)
        # Its policies may have changed since it was found; then its gates are not known to be ours.
        gates = {*found.runs[key], *gates_of(candidate.namespace, candidate.job_id, candidate.policies)}
        if not row["due"]:
            line.early.append(key)
        elif found.locked >= gates:
            line.candidates.append(candidate)
        else:
            line.deferred.append(key)
    there = {(row["namespace"], row["id"]) for row in rows}
    line.passed_over = [key for key in keys if key not in there]
    line.candidates.sort(key=lambda candidate: (candidate.nominal_at, candidate.id))
    return line


async def _admit(statements: Statements, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    return await statements.fetch("admit", **columns(rows, "namespaces run_ids")) if rows else []


async def _hold(statements: Statements, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    return (
        await statements.fetch("hold_at_gates", **columns(rows, "namespaces run_ids gates gate_keys")) if rows else []
    )


async def _skip(statements: Statements, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    return await statements.fetch("skip_held", **columns(rows, "namespaces run_ids reasons")) if rows else []


async def _replace(done: Admitted, statements: Statements, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Cancels the runs that candidates replace; those that another transaction holds, in a moment."""
    for namespace, _, runs, gate in rows:
        locked = await statements.fetch("lock_open_runs", namespace=namespace, run_ids=sorted(runs))
        ours = [row["id"] for row in locked]
        if ours:
            hit = await cancel_runs(statements, namespace, ours, "replaced by a later run of its job")
            done.workers |= {worker_id for worker_id in hit.values() if worker_id}
            done.more = True
        if len(ours) < len(runs):
            done.again.add(gate)
    return []


async def _put_back(statements: Statements, rows: Sequence[Any]) -> None:
    names = ("left_at", "namespace", "run_id", "job_id", "policies", "outcome")
    kept = [tuple(row[name] for name in names) for row in rows]
    await statements.fetch(
        "put_back_departures", **columns(kept, "left_at namespaces run_ids job_ids policies outcomes")
    )


async def _forget_waking(statements: Statements, woken: Sequence[Gate]) -> None:
    """No run waits at these gates."""
    if woken:
        await statements.fetch("clear_gate_wake", **gate_columns(woken))


def _by_id(row: tuple[Any, ...]) -> UUID:
    run_id: UUID = row[1]
    return run_id
