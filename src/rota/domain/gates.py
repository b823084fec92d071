"""Admission: which runs pass their gates. Pure: decides by the waiting runs and the state of the gates.

A run passes all of its gates at once or none; otherwise it waits at the first that stops it, and takes nothing from the
others. When a run passes each gate, in the order in which they are checked:

- overlap   no earlier run of its schedule is open (else skip, wait or replace).
- order     it is first by (nominal time, id) among those that are due, and no other run has the key.
- limit     fewer than `most` runs with the key are live.
- rate      a token is left; only a run that passes takes it.
- breaker   closed, or the run is the probe after the cool-down; the probe's outcome closes the breaker or opens it
            again. Asked last, because a run that asks after the cool-down becomes the probe.

Counts come from existing runs, never from a counter; only buckets and breakers keep state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from rota.domain.ids import show_run
from rota.domain.policies import Policies

GateKind = Literal["overlap", "breaker", "order", "limit", "rate"]
# Outcomes that count as failures of the service behind the breaker.
_FAILURES = ("failed", "final", "timed_out")
_ALMOST = 1e-9
# A probe that no worker claims within this time is given up (also in read_gates.sql).
_PROBE_SECONDS = 10.0
# How many runs of a gate one round looks at.
MOST_AT_A_GATE = 20


class Gate(msgspec.Struct, frozen=True):
    namespace: str
    kind: GateKind
    key: str


class Candidate(msgspec.Struct, frozen=True):
    """A run that may pass."""

    namespace: str
    id: UUID
    job_id: UUID
    policies: Policies
    nominal_at: datetime
    starts_a_time: bool  # first attempt of a scheduled run; the overlap rule applies only to these


class Departure(msgspec.Struct, frozen=True):
    """A run with policies that left, and the outcome of its attempt if it had one."""

    namespace: str
    run_id: UUID
    job_id: UUID
    policies: Policies
    outcome: str | None
    left_at: float


class OrderQueue(msgspec.Struct):
    """An ordering key: which run is next, and which one has it."""

    head: UUID | None = None
    holder: UUID | None = None


class Bucket(msgspec.Struct):
    """The state of a rate limit."""

    tokens: float
    counted_at: datetime
    wakes_at: datetime | None = None
    full_at: datetime | None = None  # then the row can go

    def refill(self, policies: Policies, now: datetime) -> None:
        """Adds the tokens since the last count; a clock that went back adds none."""
        elapsed = max(0.0, (now - self.counted_at).total_seconds())
        self.tokens = min(float(policies.burst), self.tokens + elapsed * policies.count / policies.per)
        self.counted_at = now

    def next_token(self, policies: Policies, now: datetime) -> datetime:
        """When a whole token will be available."""
        missing = max(0.0, 1.0 - self.tokens)
        return now + timedelta(seconds=missing * policies.per / policies.count)


class CircuitBreaker(msgspec.Struct):
    """The state of a circuit breaker."""

    state: Literal["closed", "open", "half-open"] = "closed"
    failures: int = 0
    probe: UUID | None = None
    probing: bool = False  # whether the probe is still running
    until: datetime | None = None
    wakes_at: datetime | None = None

    def heard(self, policies: Policies, run_id: UUID, outcome: str | None, now: datetime) -> str | None:
        """Takes in the outcome of an attempt; returns 'opened' or 'closed' if that changed the state."""
        if outcome == "success":
            if self.state == "closed":
                self.failures = 0
            elif run_id == self.probe:  # a run from before the opening proves nothing
                self._close(now)
                return "closed"
            return None
        if outcome in _FAILURES:
            self.failures += 1
            tripped = self.state == "closed" and self.failures >= policies.failures
            if tripped or (self.state == "half-open" and run_id == self.probe):
                self._open(policies, now)
                return "opened"
        elif run_id == self.probe:
            self.probing = False  # no verdict; another run may try
            self.wakes_at = now
        return None

    def lets_through(self, candidate: Candidate, now: datetime) -> bool:
        """Whether the run may start; the first after the cool-down becomes the probe."""
        if self.state == "closed":
            return True
        if self.state == "open" and self.until is not None and now < self.until:
            self.wakes_at = self.until
            return False
        if self.state == "half-open" and self.probing:
            # The probe's outcome wakes us; if no worker claims it, another run may try.
            self.wakes_at = now + timedelta(seconds=_PROBE_SECONDS)
            return False
        self.state, self.probe, self.probing = "half-open", candidate.id, True
        self.wakes_at = now + timedelta(seconds=_PROBE_SECONDS)
        return True

    def look_again(self, now: datetime) -> None:
        """Sets when to look again if more runs wait here than were looked at."""
        is_over = self.state == "open" and self.until is not None and self.until <= now
        if self.state == "closed" or is_over:
            self.wakes_at = now  # look again at once: more may pass, or the candidate is now held at another gate

    def _open(self, policies: Policies, now: datetime) -> None:
        self.state, self.probe, self.probing = "open", None, False
        self.until = self.wakes_at = now + timedelta(seconds=policies.cooldown)

    def _close(self, now: datetime) -> None:
        self.wakes_at = now  # all waiting runs may go
        self.state, self.failures, self.probe, self.probing, self.until = "closed", 0, None, False, None


class OpenRun(msgspec.Struct, frozen=True):
    """A run of a job that has not ended; `gate` is the kind of gate it waits at."""

    id: UUID
    nominal_at: datetime
    gate: str | None


class GateStates(msgspec.Struct):
    """The gates' states. Each decision updates them, so the next candidate is judged with the previous one counted."""

    now: datetime
    lines: dict[Gate, OrderQueue]
    used: dict[Gate, int]
    buckets: dict[Gate, Bucket]
    breakers: dict[Gate, CircuitBreaker]
    open_runs: dict[Gate, list[OpenRun]]

    def look_again(self, crowded: Mapping[Gate, Policies]) -> bool:
        """Sets when to look again at crowded gates; returns whether a gate needs it now."""
        for gate, policies in crowded.items():
            bucket = self.buckets.get(gate)
            if bucket and bucket.wakes_at is None:
                bucket.wakes_at = bucket.next_token(policies, self.now)
            elif gate in self.breakers:
                self.breakers[gate].look_again(self.now)
        wakes = [bucket.wakes_at for bucket in self.buckets.values()]
        wakes += [breaker.wakes_at for breaker in self.breakers.values()]
        return any(moment is not None and moment <= self.now for moment in wakes)


class GateDecision(msgspec.Struct, frozen=True):
    """A candidate goes on, waits at a gate, or is skipped for a reason. `cancel` names the runs that it replaces."""

    fate: Literal["go", "wait", "skip"]
    gate: Gate | None = None
    reason: str | None = None
    cancel: tuple[UUID, ...] = ()


_GO = GateDecision("go")


def gates_of(namespace: str, job_id: UUID, policies: Policies) -> list[Gate]:
    """The gates of a run with these policies, in the order in which they are checked."""
    keys: dict[GateKind, str | None] = {
        "overlap": None if policies.overlap == "allow" else job_id.hex,
        "order": policies.order,
        "limit": policies.limit,
        "rate": policies.rate,
        "breaker": policies.breaker,
    }
    return [Gate(namespace, kind, key) for kind, key in keys.items() if key is not None]


def called_gates(departures: Iterable[Departure], woken: Iterable[tuple[Gate, str | None]]) -> dict[Gate, int]:
    """Gates where waiting runs may now pass, and how many to look at.

    `woken`: gates whose time has come, each with its breaker state.
    """
    called: dict[Gate, int] = {}
    for departure in departures:
        for gate in gates_of(departure.namespace, departure.job_id, departure.policies):
            if gate.kind == "limit":
                # A few more than left: runs with another limit for the same key may come first.
                called[gate] = min(called.get(gate, 5) + 1, MOST_AT_A_GATE)
            elif gate.kind != "rate":
                called[gate] = 1
    for gate, state in woken:
        is_probing = gate.kind == "breaker" and state != "closed"
        called[gate] = 1 if is_probing else MOST_AT_A_GATE
    return called


def gates_by_kind(
    candidates: Iterable[Candidate], departures: Iterable[Departure]
) -> dict[GateKind, dict[Gate, Policies]]:
    """The gates of candidates, and the breakers of runs that left."""
    by_kind: dict[GateKind, dict[Gate, Policies]] = {}
    for candidate in candidates:
        for gate in gates_of(candidate.namespace, candidate.job_id, candidate.policies):
            by_kind.setdefault(gate.kind, {})[gate] = candidate.policies
    for departure in departures:
        if departure.policies.breaker is not None:
            gate = Gate(departure.namespace, "breaker", departure.policies.breaker)
            by_kind.setdefault("breaker", {}).setdefault(gate, departure.policies)
    return by_kind


def hear(departures: Iterable[Departure], states: GateStates) -> list[tuple[Departure, str, str]]:
    """Passes outcomes to their breakers, in order. Returns, per change, (departure, event kind, detail)."""
    heard = []
    for departure in departures:
        key = departure.policies.breaker
        if key is None:
            continue
        breaker = states.breakers[Gate(departure.namespace, "breaker", key)]
        change = breaker.heard(departure.policies, departure.run_id, departure.outcome, states.now)
        if change == "opened":
            detail = f"{breaker.failures} attempts failed in a row; open until {breaker.until:%Y-%m-%d %H:%M:%S} UTC"
            heard.append((departure, "breaker.opened", detail))
        elif change == "closed":
            heard.append((departure, "breaker.closed", "an attempt succeeded"))
    return heard


def decide(candidate: Candidate, states: GateStates) -> GateDecision:
    """Decides on a candidate, and takes what it needs from its gates if it goes on."""
    gates = gates_of(candidate.namespace, candidate.job_id, candidate.policies)
    for gate in gates:
        if gate.kind == "overlap":
            verdict = _overlap(candidate, gate, states)
            if verdict.fate != "go":
                return verdict
        elif not _passes(candidate, gate, states):
            return GateDecision("wait", gate)
    for gate in gates:
        _take(candidate, gate, states)
    return _GO


def _overlap(candidate: Candidate, gate: Gate, states: GateStates) -> GateDecision:
    if not candidate.starts_a_time:
        return _GO
    mine = (candidate.nominal_at, candidate.id)
    others = [run for run in states.open_runs[gate] if run.id != candidate.id]
    # A started run blocks whatever its time, because jitter can change the order.
    earlier = [run for run in others if run.gate is None or (run.nominal_at, run.id) < mine]
    if not earlier:
        return _GO
    first = show_run(earlier[0].id)
    if candidate.policies.overlap == "skip":
        return GateDecision("skip", reason=f"overlap: {first}, an earlier run of the job, had not ended")
    if candidate.policies.overlap == "queue":
        waiting = [run for run in earlier if run.gate == "overlap"]
        if waiting:
            return GateDecision("skip", reason=f"overlap: {show_run(waiting[0].id)} of the job was waiting already")
    states.open_runs[gate].append(OpenRun(candidate.id, candidate.nominal_at, "overlap"))
    replaced = candidate.policies.overlap == "replace"
    return GateDecision("wait", gate, cancel=tuple(run.id for run in earlier) if replaced else ())


def _passes(candidate: Candidate, gate: Gate, states: GateStates) -> bool:
    if gate.kind == "order":
        line = states.lines[gate]
        return line.head == candidate.id and line.holder is None
    if gate.kind == "limit":
        return states.used[gate] < candidate.policies.most
    if gate.kind == "rate":
        return _has_token(candidate, gate, states)
    return states.breakers[gate].lets_through(candidate, states.now)


def _has_token(candidate: Candidate, gate: Gate, states: GateStates) -> bool:
    bucket = states.buckets[gate]
    bucket.refill(candidate.policies, states.now)
    if bucket.tokens >= 1.0 - _ALMOST:
        return True
    # Jobs may give one key different rates: wake at the earliest of their next tokens.
    wakes_at = bucket.next_token(candidate.policies, states.now)
    bucket.wakes_at = wakes_at if bucket.wakes_at is None else min(bucket.wakes_at, wakes_at)
    return False


def _take(candidate: Candidate, gate: Gate, states: GateStates) -> None:
    if gate.kind == "order":
        states.lines[gate].holder = candidate.id
    elif gate.kind == "limit":
        states.used[gate] += 1
    elif gate.kind == "rate":
        bucket = states.buckets[gate]
        bucket.tokens -= 1.0
        missing = candidate.policies.burst - bucket.tokens
        bucket.full_at = states.now + timedelta(seconds=missing * candidate.policies.per / candidate.policies.count)
    elif gate.kind == "overlap":
        states.open_runs[gate].append(OpenRun(candidate.id, candidate.nominal_at, None))
