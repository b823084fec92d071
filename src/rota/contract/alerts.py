"""Alerts: rules, how alerts stand, and silences."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from rota.contract.fields import In, JobRef, Moment, Name, Out, PoolName, Positive, Seconds, TaskName
from rota.domain.alerts import AlertKind, Phase, Severity

AlertRuleName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,100}(?!\n)$")]
AlertScope = Literal["namespace", "installation"]
Objective = Annotated[float, Meta(ge=0.5, le=0.9999)]
Minimum = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Bytes = Annotated[int, Meta(ge=1, le=1 << 60)]


class AlertRuleIn(In, kw_only=True):
    """A rule. What is not given is as usual for its kind."""

    kind: AlertKind
    """what it measures"""
    enabled: bool = True
    """false: it is not evaluated, and what it fires is resolved"""
    severity: Severity | None = None
    """how bad it is"""
    threshold: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    """from when on it is an alert; what it counts depends on the kind"""
    window_seconds: Seconds | None = None
    """how far back it looks"""
    for_seconds: Positive | None = None
    """how long the condition must hold before it fires"""
    resolve_seconds: Positive = 30.0
    """how long the condition must not hold before it is resolved"""
    objective: Objective = 0.99
    """of `start_lag`: the share of runs that should start within the threshold"""
    minimum: Minimum = 20
    """of `start_lag` and `success_rate`: with fewer runs in the window it says nothing"""
    database_bytes: _Bytes | None = None
    """of `disk`: also an alert when the database is larger than this"""
    pool: PoolName | None = None
    """only about this pool"""
    task: TaskName | None = None
    """only about this task"""
    job: JobRef | None = None
    """only about this job: its id"""
    destinations: Annotated[list[Name], Meta(max_length=20)] = field(default_factory=list)
    """the names of destinations it is sent to; none: to all that want alerts"""


class AlertRuleOut(Out, kw_only=True):
    """A rule with everything that holds for it."""

    name: str
    """its name"""
    scope: AlertScope
    """whose it is: the namespace's, or the installation's, which holds in namespaces without a rule of this name"""
    kind: str
    """what it measures"""
    enabled: bool
    """false: it is not evaluated"""
    severity: str
    """how bad it is"""
    threshold: float | None
    """from when on it is an alert"""
    window_seconds: float | None = None
    """how far back it looks"""
    for_seconds: float
    """how long the condition must hold before it fires"""
    resolve_seconds: float
    """how long the condition must not hold before it is resolved"""
    objective: float | None = None
    """of `start_lag`: the share of runs that should start within the threshold"""
    minimum: int | None = None
    """of `start_lag` and `success_rate`: with fewer runs in the window it says nothing"""
    database_bytes: int | None = None
    """of `disk`: the largest database"""
    pool: str | None = None
    """only about this pool"""
    task: str | None = None
    """only about this task"""
    job: str | None = None
    """only about this job"""
    destinations: list[str] = field(default_factory=list)
    """the destinations it is sent to"""
    error: str | None = None
    """why it could not be evaluated the last time"""
    error_time: datetime | None = None
    """since when"""
    runbook: str
    """the page of the documentation that says what to do"""
    changed_by: str
    """who changed it last"""
    changed_time: datetime
    """when it was changed last"""


class AlertRuleList(Out, kw_only=True):
    """A page of rules."""

    items: list[AlertRuleOut]
    """rules by name"""
    next_cursor: str | None


class AlertOut(Out, kw_only=True):
    """An alert: a rule, and what it is about."""

    rule: str
    """the name of the rule"""
    scope: AlertScope
    """whose rule it is"""
    kind: str
    """what the rule measures"""
    key: str
    """what it is about, for a silence"""
    state: Phase
    """`pending`: the condition holds and not for long enough yet; `firing`; `resolved`"""
    severity: str
    """how bad it is"""
    subject: str
    """the pool, job or process it is about"""
    title: str
    """what is the matter, in a sentence"""
    value: float
    """what was measured last"""
    threshold: float
    """from when on it is an alert"""
    since: datetime
    """since when the condition has held"""
    fired_time: datetime | None = None
    """when it fired"""
    resolved_time: datetime | None = None
    """when it was resolved"""
    silenced_until: datetime | None = None
    """it is not told until then"""
    job_id: str | None = None
    """the job it is about"""
    next_act: str
    """what to do next: a command"""
    runbook: str
    """the page of the documentation that says what to do"""


class AlertList(Out, kw_only=True):
    """Alerts."""

    items: list[AlertOut]
    """first those that are not resolved; in each part the latest first"""


class SilenceIn(In, kw_only=True):
    """Alerts that are not to be told for some time."""

    rule: AlertRuleName | None = None
    """only of this rule"""
    key: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    """only with this key"""
    until: Moment
    """when it ends; at most a year ahead"""
    reason: Name
    """why"""


class SilenceOut(Out, kw_only=True):
    """A silence."""

    silence_id: str
    """its id"""
    scope: AlertScope
    """what it is about: the namespace, or all of the installation"""
    rule: str | None = None
    """only of this rule"""
    key: str | None = None
    """only with this key"""
    until: datetime
    """when it ends"""
    reason: str
    """why"""
    created_by: str
    """who asked for it"""
    created_at: datetime
    """when it was created"""


class SilenceList(Out, kw_only=True):
    """Silences."""

    items: list[SilenceOut]
    """those that have not ended, the next to end first"""


class AlertTestOut(Out, kw_only=True):
    """A test of a rule."""

    rule: str
    """the rule that was tested"""
    title: str
    """what is told"""
    destinations: list[str] = field(default_factory=list)
    """where it is sent; none: to all destinations that want alerts"""
