"""Alerts: what rules say, and how an alert goes from pending to firing to resolved.

An alert is one rule and one thing that it is about (its key: a pool, a job, a worker). Whether the rule's condition
holds is measured elsewhere; this module decides what follows. A condition must have held for `for_seconds` before the
alert fires, and must not have held for `resolve_seconds` before it is resolved, so that it does not flap. An alert
that is silenced changes as any other and is not told; when the silence ends and it still fires, it is told then.

Times are the database's. A clock that went back makes a time lie ahead: it then counts from now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from rota.errors import BadInputError

INSTALLATION = "*"  # instead of a namespace: the installation as a whole
MOST_KEYS = 100  # alerts of one rule in one namespace; what is beyond is counted in one more
MORE = "more"  # its key
Severity = Literal["critical", "warning", "info"]
Phase = Literal["pending", "firing", "resolved"]
AlertKind = Literal[
    "start_lag",
    "success_rate",
    "dead_letters",
    "oldest_queued",
    "no_worker",
    "schedule_overdue",
    "job_failures",
    "breaker_open",
    "worker_lost",
    "scheduler_lost",
    "disk",
    "clock_skew",
]
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
# How fast the budget of late starts may be used up over a long and a short window (seconds), before it is an alert.
BURN_RATES = ((14.4, _HOUR, 5 * _MINUTE), (6.0, 6 * _HOUR, 30 * _MINUTE))
LONGEST_BURN = timedelta(hours=6)
OVERDUE_AFTER = timedelta(seconds=60)  # a schedule that has not fired so long after its time


class KindOfAlert(NamedTuple):
    """Of a kind of rule: what a rule of it has if it does not say otherwise, and which filters it knows."""

    severity: Severity
    threshold: float
    bounds: tuple[float, float]  # of the threshold
    window_seconds: float | None = None  # None: it looks at the present
    longest_window: float = _DAY
    for_seconds: float = 0.0
    filters: tuple[str, ...] = ()
    runbook: str = "the-rest"
    is_share: bool = False  # of ends or starts: knows a least number of them
    is_global: bool = False  # about the installation: no namespace has a rule of it


_ANY = (0.0, 1e15)
_SHARE = (0.0, 1.0)
KINDS: dict[str, KindOfAlert] = {
    "start_lag": KindOfAlert("critical", 1.0, (0.001, _DAY), filters=("pool",), runbook="lag", is_share=True),
    "success_rate": KindOfAlert(
        "warning", 0.9, _SHARE, 15 * _MINUTE, 6 * _HOUR, filters=("pool",), runbook="bad-deploy", is_share=True
    ),
    "dead_letters": KindOfAlert(
        "warning", 10, (1, 1e9), 15 * _MINUTE, 7 * _DAY, filters=("task", "job"), runbook="dead-letters"
    ),
    "oldest_queued": KindOfAlert("warning", 5 * _MINUTE, _ANY, filters=("pool", "task"), runbook="lag"),
    "no_worker": KindOfAlert("critical", 30, _ANY, filters=("pool", "task"), runbook="lag"),
    "schedule_overdue": KindOfAlert(
        "critical",
        OVERDUE_AFTER.total_seconds(),
        _ANY,
        15 * _MINUTE,
        _DAY,
        filters=("pool", "task", "job"),
        runbook="lag",
    ),
    "job_failures": KindOfAlert(
        "warning", 3, (1, 100), _DAY, 30 * _DAY, filters=("task", "job"), runbook="dead-letters"
    ),
    "breaker_open": KindOfAlert("warning", 1, (1, 1)),
    "worker_lost": KindOfAlert(
        "warning", 1, (1, 1e6), 15 * _MINUTE, _HOUR, filters=("pool",), runbook="flapping-worker"
    ),
    "scheduler_lost": KindOfAlert("warning", 15, (1, _DAY), 15 * _MINUTE, _DAY, for_seconds=15, is_global=True),
    "disk": KindOfAlert("critical", 0.1, _SHARE, runbook="full-disk", is_global=True),
    "clock_skew": KindOfAlert("warning", 1.0, (0.001, _DAY), for_seconds=60, is_global=True),
}


class AlertSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rule says itself; None: as its kind."""

    severity: Severity | None = None
    threshold: float | None = None
    window_seconds: float | None = None
    for_seconds: float | None = None
    resolve_seconds: float = 30.0
    objective: float = 0.99  # start_lag: the share of starts that must be within the threshold
    minimum: int = 20  # start_lag, success_rate: fewer starts or ends in the window say nothing
    database_bytes: int | None = None  # disk: the largest database
    pool: str | None = None
    task: str | None = None
    job: str | None = None
    job_id: UUID | None = None
    destinations: tuple[str, ...] = ()


class AlertRule(msgspec.Struct, frozen=True):
    """A rule with everything that holds for it."""

    namespace: str
    name: str
    kind: str
    settings: AlertSettings
    enabled: bool = True

    @property
    def of_kind(self) -> KindOfAlert:
        return KINDS[self.kind]

    @property
    def severity(self) -> Severity:
        return self.settings.severity or self.of_kind.severity

    @property
    def threshold(self) -> float:
        own = self.settings.threshold
        return self.of_kind.threshold if own is None else own

    @property
    def window(self) -> timedelta:
        """How far back it looks."""
        return timedelta(seconds=self.settings.window_seconds or self.of_kind.window_seconds or 0.0)

    @property
    def hold(self) -> timedelta:
        """How long its condition must hold before it fires."""
        own = self.settings.for_seconds
        return timedelta(seconds=self.of_kind.for_seconds if own is None else own)

    @property
    def calm(self) -> timedelta:
        """How long its condition must not hold before it is resolved."""
        return timedelta(seconds=self.settings.resolve_seconds)


def check_rule(rule: AlertRule) -> None:
    """Raises BadInputError that names the fields which make no sense for the kind."""
    kind, given = rule.of_kind, rule.settings
    wrong = []
    least, most = kind.bounds
    if not least <= rule.threshold <= most:
        wrong.append(("threshold", f"of {rule.kind} must be from {least:g} to {most:g}"))
    if given.window_seconds is not None and kind.window_seconds is None:
        wrong.append(("windowSeconds", f"{rule.kind} has no window of its own"))
    elif given.window_seconds is not None and not _MINUTE <= given.window_seconds <= kind.longest_window:
        wrong.append(("windowSeconds", f"of {rule.kind} must be from {_MINUTE:g} to {kind.longest_window:g}"))
    wrong += [
        (name, f"{rule.kind} can't be limited to a {name}")
        for name in ("pool", "task", "job")
        if getattr(given, name) is not None and name not in kind.filters
    ]
    if given.job is not None and rule.namespace == INSTALLATION:
        wrong.append(("job", "belongs to a namespace: make a rule there"))
    if given.database_bytes is not None and rule.kind != "disk":
        wrong.append(("databaseBytes", f"says nothing for {rule.kind}"))
    if kind.is_global and rule.namespace != INSTALLATION:
        wrong.append(("kind", f"{rule.kind} is about the installation: make a rule with scope=installation"))
    if wrong:
        raise BadInputError.of(wrong)


class AlertFinding(msgspec.Struct, frozen=True):
    """Something for which a rule's condition holds now."""

    namespace: str  # whose it is; INSTALLATION: of none in particular
    key: str
    subject: str
    value: float
    threshold: float
    title: str
    act: str  # the next thing to do: a command
    job_id: UUID | None = None
    owner: str | None = None


class Measured(NamedTuple):
    """What a rule found. If not complete, there may be more, and what is missing may still hold."""

    findings: Sequence[AlertFinding]
    is_complete: bool = True


class AlertState(msgspec.Struct, frozen=True):
    """How an alert stands."""

    finding: AlertFinding  # as it was measured last
    phase: Phase
    since: datetime
    good_since: datetime | None = None
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    told: bool = False


class Step(NamedTuple):
    """Where an alert goes (None: it is forgotten), and what is told of it."""

    after: AlertState | None
    told: Literal["fired", "resolved"] | None = None


def advance(
    before: AlertState | None, finding: AlertFinding | None, rule: AlertRule, now: datetime, *, is_silenced: bool
) -> Step:
    """What becomes of an alert when its condition holds (or not: no finding) at this moment."""
    if before is None or before.phase == "resolved":
        if finding is None:
            return Step(before)
        before = AlertState(finding, "pending", now)
    if finding is None:
        return _calm_down(before, rule, now)
    after = msgspec.structs.replace(before, finding=finding, since=min(before.since, now), good_since=None)
    if after.phase == "pending":
        if now - after.since < rule.hold:
            return Step(after)
        after = msgspec.structs.replace(after, phase="firing", fired_at=now)
    if after.told or is_silenced:
        return Step(after)
    return Step(msgspec.structs.replace(after, told=True), "fired")


def _calm_down(before: AlertState, rule: AlertRule, now: datetime) -> Step:
    if before.phase == "pending":
        return Step(None)
    good_since = min(before.good_since or now, now)
    if rule.enabled and now - good_since < rule.calm:
        return Step(msgspec.structs.replace(before, good_since=good_since))
    return end(before, now)


def end(before: AlertState, now: datetime) -> Step:
    """Resolves an alert that fires, because its condition or its rule is gone."""
    after = msgspec.structs.replace(before, phase="resolved", good_since=None, resolved_at=now)
    return Step(after, "resolved" if before.told else None)


def bounded(findings: Iterable[AlertFinding], is_open: Iterable[tuple[str, str]], what: str) -> list[AlertFinding]:
    """At most MOST_KEYS findings of each namespace, those that are open already first, and one that counts the rest."""
    known = set(is_open)
    by_namespace: dict[str, list[AlertFinding]] = {}
    for finding in findings:
        by_namespace.setdefault(finding.namespace, []).append(finding)
    kept: list[AlertFinding] = []
    for namespace, some in by_namespace.items():
        some.sort(key=lambda each: (each.namespace, each.key) not in known)
        kept += some[:MOST_KEYS]
        rest = len(some) - MOST_KEYS
        if rest > 0:
            words = f"At least {rest} more alerts of rule {what}"
            kept.append(AlertFinding(namespace, MORE, words, rest, 0, words, "rota alerts"))
    return kept
