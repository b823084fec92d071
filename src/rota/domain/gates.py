"""Admission: which runs pass their gates. Pure: decides by the waiting runs and the state of the gates.

A run passes all of its gates at once or none; otherwise it waits at the first that stops it, and takes nothing from the
others. When a run passes each gate, in the order in which they are checked:

- dependency  the runs of other jobs that it depends on have succeeded (domain/dependencies.py). If one never will, the
            run is skipped. Until then it is in no line: another run of its ordering key may be the one it waits for.
- overlap   no earlier run of its schedule is open (else skip, wait or replace).
- order     it is first by (nominal time, id) among those that are due, and no other run has the key.
- limit     fewer than `most` runs with the key are live.
- rate      a token is left; only a run that passes takes it.
- breaker   closed, or the run is the probe after the cool-down; the probe's outcome closes the breaker or opens it
            again. Asked last, because a run that asks after the cool-down becomes the probe.

Counts come from existing runs, never from a counter; only buckets and breakers keep state.

Nothing that is stored can make a decision fail for other runs: times are cut off at FAR_FUTURE, and a run whose
decision raises all the same is set aside with the reason (`decide_each`).

Jobs that share a rate key should give it the same rate. Where they differ, each run applies its own: it refills the
bucket at its own rate and cuts it to its own burst. A new bucket is full by the rule of the first run in line. So it
makes no difference whether runs come in one round or one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from rota.domain.dependencies import NeedState
from rota.domain.ids import show_run
from rota.domain.policies import Policies

GateKind = Literal["dependency", "overlap", "breaker", "order", "limit", "rate"]
# Outcomes that count as failures of the service behind the breaker.
_FAILURES = ("failed", "final", "timed_out")
_ALMOST = 1e-9
_CLEARLY = timedelta(seconds=1)
# A probe that no worker claims within this time is given up (also in read_gates.sql).
_PROBE_SECONDS = 10.0
# How many runs of a gate one round looks at.
MOST_AT_A_GATE = 20
# How many of those that wait for one run. All of them can be decided on when it has ended.
MOST_DEPENDENTS = 100
# Later moments all count as this one: a token per year and a burst of millions exceed the range of datetime.
FAR_FUTURE = datetime(9000, 1, 1, tzinfo=UTC)
UPCOMING = "upcoming"
_JOB_DIGITS = 32  # of a dependency's key
NO_RUN = UUID(int=0)  # a note that calls a gate, with no run that left
_MOST_FAILURES = 1_000_000_000  # counted no further: the column is an integer


class Gate(msgspec.Struct, frozen=True):
    """Where runs wait. The key of a dependency names the job and its run that they wait for; its lock is the job's."""

    namespace: str
    kind: GateKind
    key: str

    @property
    def lock(self) -> Gate:
        """The gate whose lock is taken."""
        return Gate(self.namespace, self.kind, self.key[:_JOB_DIGITS]) if self.kind == "dependency" else self


class Candidate(msgspec.Struct, frozen=True):
    """A run that may pass."""

    namespace: str
    id: UUID
    job_id: UUID
    policies: Policies
    nominal_at: datetime
    starts_a_time: bool  # first attempt of a scheduled run; the overlap rule applies only to these
    depends: bool = False  # first attempt of a run that was not started by hand: dependencies apply only to these


class Departure(msgspec.Struct, frozen=True):
    """A run with policies that left, and the outcome of its attempt if it had one."""

    namespace: str
    run_id: UUID
    job_id: UUID
    policies: Policies
    outcome: str | None
    left_at: float


class OrderQueue(msgspec.Struct):
    """An ordering key: which run is next and where it waits, and which run has the key."""

    head: UUID | None = None
    head_gate: str | None = None  # UPCOMING: it is due, and was not promoted yet
    head_nominal_at: datetime | None = None
    holder: UUID | None = None

    def meet_overdue(self, run_id: UUID, nominal_at: datetime) -> None:
        """Takes in a run of the key that is due and was not promoted yet."""
        self.meet(run_id, nominal_at, UPCOMING)

    def meet(self, run_id: UUID, nominal_at: datetime, gate: str) -> None:
        """Takes in a run of the key that was not in line, at its place."""
        if (
            self.head is None
            or self.head_nominal_at is None
            or (nominal_at, run_id) < (self.head_nominal_at, self.head)
        ):
            self.head, self.head_gate, self.head_nominal_at = run_id, gate, nominal_at


class Bucket(msgspec.Struct):
    """The state of a rate limit. A new one is full, whatever the burst of the run that looks at it first."""

    tokens: float = math.inf
    counted_at: datetime | None = None
    wakes_at: datetime | None = None
    full_at: datetime | None = None  # then the row can go

    @property
    def is_new(self) -> bool:
        """Whether no run has looked at it: there is nothing to remember."""
        return self.counted_at is None

    def refill(self, policies: Policies, now: datetime) -> None:
        """Adds the tokens since the last count; a clock that went back adds none."""
        elapsed = max(0.0, (now - (self.counted_at or now)).total_seconds())
        held = max(-1.0, self.tokens)  # also where no number was stored
        self.tokens = min(float(policies.burst), held + elapsed * policies.count / policies.per)
        self.counted_at = now

    def take(self, policies: Policies, now: datetime) -> None:
        """Takes a token. The row is kept until the bucket is full by the rule of each run that took one."""
        self.tokens -= 1.0
        full_at = _later(now, (policies.burst - self.tokens) * policies.per / policies.count)
        self.full_at = full_at if self.full_at is None else max(self.full_at, full_at)

    def next_token(self, policies: Policies, now: datetime) -> datetime:
        """When a whole token will be available."""
        missing = max(0.0, 1.0 - self.tokens)
        return _later(now, missing * policies.per / policies.count)


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
            self.failures = min(self.failures + 1, _MOST_FAILURES)
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
        self.until = self.wakes_at = _later(now, policies.cooldown)

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
    # Of runs that depend on other jobs: the first dependency that is not met and where it is waited for (None: all are
    # met), or why that can't be told.
    needs: dict[UUID, tuple[NeedState, Gate | None] | Exception] = msgspec.field(default_factory=dict)

    def wakes_at(self, gate: Gate) -> datetime | None:
        """When this gate is looked at again; None: when it is called."""
        remembered = self.buckets.get(gate) or self.breakers.get(gate)
        return remembered.wakes_at if remembered else None

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
    """A candidate goes on, waits at a gate, or is skipped or set aside for a reason.

    `cancel` names the runs that it replaces. One set aside keeps its place and is tried again later.
    """

    fate: Literal["go", "wait", "skip", "aside"]
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
    needed = [Gate(namespace, "dependency", key) for key in policies.after]
    return needed + [Gate(namespace, kind, key) for kind, key in keys.items() if key is not None]


def dependency_gate(namespace: str, job_id: UUID, run_id: UUID) -> Gate:
    """Where those wait that depend on this run of a job."""
    return Gate(namespace, "dependency", job_id.hex + run_id.hex)


def called_gates(departures: Iterable[Departure], woken: Iterable[tuple[Gate, str | None]]) -> dict[Gate, int]:
    """Gates where waiting runs may now pass, and how many to look at.

    `woken`: gates whose time has come, each with its breaker state.
    """
    called: dict[Gate, int] = {}
    for departure in departures:
        if departure.policies.awaited:
            called[dependency_gate(departure.namespace, departure.job_id, departure.run_id)] = MOST_DEPENDENTS
        for gate in gates_of(departure.namespace, departure.job_id, departure.policies):
            if gate.kind == "dependency":
                continue  # it waited there itself
            if departure.run_id == NO_RUN and gate.kind in ("limit", "rate"):
                called[gate] = MOST_AT_A_GATE
            elif gate.kind == "limit":
                # A few more than left: runs with another limit for the same key may come first.
                called[gate] = min(called.get(gate, 5) + 1, MOST_AT_A_GATE)
            elif gate.kind != "rate":
                called[gate] = 1
    for gate, state in woken:
        is_probing = gate.kind == "breaker" and state != "closed"
        called[gate] = 1 if is_probing else MOST_AT_A_GATE
    return called


def gates_by_kind(candidates: Iterable[Candidate], departures: Iterable[Departure]) -> dict[GateKind, set[Gate]]:
    """The gates of candidates, and the breakers of runs that left."""
    by_kind: dict[GateKind, set[Gate]] = {}
    for candidate in candidates:
        for gate in gates_of(candidate.namespace, candidate.job_id, candidate.policies):
            by_kind.setdefault(gate.kind, set()).add(gate)
    for departure in departures:
        if departure.policies.breaker is not None:
            by_kind.setdefault("breaker", set()).add(Gate(departure.namespace, "breaker", departure.policies.breaker))
    return by_kind


def hear(departures: Iterable[Departure], states: GateStates) -> list[tuple[Departure, str, str]]:
    """Passes outcomes to their breakers, in order. Returns, per change, (departure, event kind, detail).

    Raises nothing on account of what is stored: breakers are read with defaults, and times are cut off.
    """
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


def overlooked_gates(first: Mapping[Gate, Candidate], states: GateStates) -> set[Gate]:
    """Gates whose first waiting run would no longer be held there, or that are looked at again later than it could
    pass: the clock went back. Uses up the states."""
    before = {gate: states.wakes_at(gate) for gate in first}
    verdicts = decide_each(list(first.values()), states)
    passable = {
        gate
        for gate, (_, verdict) in zip(first, verdicts, strict=True)
        if verdict.fate != "wait" or verdict.gate != gate
    }
    return passable | {gate for gate, moment in before.items() if moment and _is_earlier(states.wakes_at(gate), moment)}


def _is_earlier(moment: datetime | None, than: datetime) -> bool:
    return moment is not None and moment < than - _CLEARLY


def uncalled_lines(states: GateStates, decided: AbstractSet[UUID]) -> tuple[set[Gate], set[Gate]]:
    """Ordering keys that nothing would call: no run has the key, and this round did not decide on the first in line.

    A run at an ordering key waits for the key's holder, which leaves a note when it goes, or for the first in line. If
    the first in line waits at the key itself, it must be called now (the first set). If it was not promoted yet, the
    key is looked at again in a moment (the second). At any other gate it is called there, and leaves a note when it
    goes.
    """
    free = {
        gate: line.head_gate
        for gate, line in states.lines.items()
        if line.holder is None and line.head is not None and line.head not in decided
    }
    return (
        {gate for gate, waits_at in free.items() if waits_at == "order"},
        {gate for gate, waits_at in free.items() if waits_at == UPCOMING},
    )


def decide_each(candidates: Sequence[Candidate], states: GateStates) -> list[tuple[Candidate, GateDecision]]:
    """Decides on each, in order. One whose decision raises is set aside with the reason; the others go on."""
    verdicts = []
    for candidate in candidates:
        try:
            verdict = decide(candidate, states)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one run must not stop the others
            verdict = GateDecision("aside", reason=f"{type(error).__name__}: {error}")
        verdicts.append((candidate, verdict))
    return verdicts


def decide(candidate: Candidate, states: GateStates) -> GateDecision:
    """Decides on a candidate, and takes what it needs from its gates if it goes on."""
    verdict = _dependency(candidate, states)
    if verdict.fate != "go":
        return verdict
    gates = gates_of(candidate.namespace, candidate.job_id, candidate.policies)
    gates = [gate for gate in gates if gate.kind != "dependency"]
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


def _dependency(candidate: Candidate, states: GateStates) -> GateDecision:
    if not candidate.depends:
        return _GO
    found = states.needs[candidate.id]
    if isinstance(found, Exception):
        raise found
    need, gate = found
    if need.fate == "never":
        return GateDecision("skip", reason=f"dependency: {need.words}")
    return _GO if need.fate == "met" else GateDecision("wait", gate)


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
        states.buckets[gate].take(candidate.policies, states.now)
    elif gate.kind == "overlap":
        states.open_runs[gate].append(OpenRun(candidate.id, candidate.nominal_at, None))


def _later(now: datetime, seconds: float) -> datetime:
    """That many seconds later, FAR_FUTURE at most."""
    left = (FAR_FUTURE - now).total_seconds()
    return now + timedelta(seconds=seconds) if seconds < left else max(now, FAR_FUTURE)
