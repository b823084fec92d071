"""What gates remember and how they stand: who is first in line, how many are live, how many tokens are left.

Admission reads it under the locks of the gates; others only look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rota.domain.gates import (
    Bucket,
    Candidate,
    CircuitBreaker,
    Departure,
    Gate,
    GateKind,
    GateStates,
    OpenRun,
    OrderQueue,
    gates_by_kind,
)
from rota.domain.policies import decode_policies
from rota.store.depend.needs import read_needs
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements


def gate_of(row: Any) -> Gate:
    """The gate that a row names."""
    return Gate(row["namespace"], row["kind"], row["key"])


def gate_columns(gates: Iterable[Gate]) -> dict[str, Any]:
    """Gates as the columns that a statement takes."""
    return columns(((gate.namespace, gate.kind, gate.key) for gate in gates), "namespaces kinds keys")


def candidate_of(row: Any) -> Candidate:
    """A run at a gate, as a row of held_runs has it."""
    starts_a_time = row["cause"] == "schedule" and row["attempt"] == 0 and row["snoozes"] == 0
    policies = decode_policies(row["policies"])
    is_first = row["attempt"] == 0 and row["snoozes"] == 0
    depends = bool(policies.after) and row["cause"] in ("submit", "schedule") and is_first
    return Candidate(row["namespace"], row["id"], row["job_id"], policies, row["nominal_at"], starts_a_time, depends)


async def read_states(
    statements: Statements | Database,
    now: datetime,
    candidates: Sequence[Candidate],
    departures: Sequence[Departure] = (),
    woken: Sequence[Gate] = (),
) -> GateStates:
    """The states of the gates of these."""
    states = GateStates(now, {}, {}, {}, {}, {})
    by_kind = gates_by_kind(candidates, departures)
    if orders := by_kind.get("order"):
        for row in await read_orders(statements, orders):
            line = OrderQueue(row["head"], row["head_gate"], row["head_nominal_at"], row["holder"])
            states.lines[Gate(row["namespace"], "order", row["key"])] = line
    if limits := by_kind.get("limit"):
        for row in await statements.fetch("count_live_of_keys", **_names_and_keys(limits)):
            states.used[Gate(row["namespace"], "limit", row["key"])] = row["used"]
    if jobs := by_kind.get("overlap"):
        states.open_runs = {gate: [] for gate in jobs}
        for row in await read_overlaps(statements, [(gate.namespace, UUID(hex=gate.key)) for gate in jobs]):
            gate = Gate(row["namespace"], "overlap", row["job_id"].hex)
            states.open_runs[gate].append(OpenRun(row["id"], row["nominal_at"], row["gate"]))
    await _remember(statements, states, by_kind, woken)
    states.needs = await read_needs(statements, candidates)
    _let_into_line(candidates, states)
    return states


def _let_into_line(candidates: Iterable[Candidate], states: GateStates) -> None:
    """Runs that depend on other jobs are in line at their ordering key once all of these have succeeded."""
    for candidate in candidates:
        order, need = candidate.policies.order, states.needs.get(candidate.id)
        if order is not None and isinstance(need, tuple) and need[0].fate == "met":
            states.lines[Gate(candidate.namespace, "order", order)].meet(candidate.id, candidate.nominal_at, "new")


async def _remember(
    statements: Statements | Database, states: GateStates, by_kind: Mapping[GateKind, set[Gate]], woken: Sequence[Gate]
) -> None:
    """What buckets and breakers say; a new bucket is full, a new breaker closed."""
    rates, breakers = by_kind.get("rate", set()), by_kind.get("breaker", set())
    states.buckets = {gate: Bucket() for gate in rates}
    states.breakers = {gate: CircuitBreaker() for gate in breakers}
    if not (rates or breakers or woken):
        return
    for row in await read_gates(statements, {*rates, *breakers, *woken}):
        gate = gate_of(row)
        if gate.kind == "rate":
            tokens = 0.0 if row["tokens"] is None else row["tokens"]
            states.buckets[gate] = Bucket(tokens, row["counted_at"] or states.now, row["wakes_at"], row["full_at"])
        else:
            states.breakers[gate] = CircuitBreaker(
                row["state"] or "closed",
                row["failures"] or 0,
                row["probe"],
                row["probing"],
                row["until"],
                row["wakes_at"],
            )
    for gate in woken:
        # Its moment has come; runs that still wait there say when the next one is.
        if gate in states.buckets:
            states.buckets[gate].wakes_at = None
        elif gate in states.breakers:
            states.breakers[gate].wakes_at = None


async def read_gates(statements: Statements | Database, gates: Iterable[Gate]) -> list[Any]:
    """What these gates remember."""
    return await statements.fetch("read_gates", **gate_columns(gates))


async def read_orders(statements: Statements | Database, gates: Iterable[Gate]) -> list[Any]:
    """Who is first in line at each ordering key, and who has it."""
    return await statements.fetch("orders_of", **_names_and_keys(gates))


async def read_overlaps(statements: Statements | Database, jobs: Iterable[tuple[str, UUID]]) -> list[Any]:
    """The runs of these jobs, each with its namespace, that have not ended."""
    return await statements.fetch("overlaps_of", **columns(jobs, "namespaces job_ids"))


async def write_states(statements: Statements, states: GateStates) -> None:
    """Writes what buckets and breakers remember."""
    rows: list[tuple[Any, ...]] = []
    for gate, bucket in states.buckets.items():
        if not bucket.is_new:
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


async def call_gates(statements: Statements | Database, gates: Iterable[Gate]) -> None:
    """Has admission look at these gates."""
    if called := sorted(gates, key=lambda gate: (gate.namespace, gate.kind, gate.key)):
        await statements.fetch("call_gates", **gate_columns(called))


def _names_and_keys(gates: Iterable[Gate]) -> dict[str, Any]:
    return columns(((gate.namespace, gate.key) for gate in gates), "namespaces keys")
