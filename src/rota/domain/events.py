"""Events: the kinds there are, how severe they are, and which of them are chosen by a filter or a destination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

INSTALLATION = "*"  # the namespace of events that concern no namespace in particular
Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
ALERTS = "alert."

# Every kind, and what happened. docs/reference/events.md says what each carries.
KINDS: Mapping[str, str] = {
    "alert.fired": "the condition of an alert rule holds",
    "alert.resolved": "the condition of an alert rule no longer holds",
    "breaker.closed": "a circuit breaker lets runs start again",
    "breaker.opened": "a circuit breaker stopped runs of a key",
    "destination.test": "you asked for a test message; sent to one destination and not recorded",
    "operation.aborted": "a backfill, replay or bulk act was aborted, and its runs have ended",
    "operation.completed": "a backfill, replay or bulk act is done",
    "operation.stopped": "a backfill, replay or bulk act stopped because too much of it failed",
    "pool.paused": "a pool was paused",
    "pool.resumed": "a pool was resumed",
    "run.buried": "runs of a task failed for good and are dead letters",
    "schedule.changed": "a schedule declared in code was changed by a new version",
    "schedule.declared": "a schedule was declared in code",
    "schedule.overdue": "a schedule has not fired in time",
    "schedule.recovered": "a schedule that was overdue fires again",
    "schedule.undeclared": "a schedule is no longer declared in code and was paused",
    "scheduler.lost": "a scheduler fell silent and others took its shards",
    "scheduler.returned": "a scheduler that was lost is back",
    "scheduler.started": "a scheduler started",
    "scheduler.stopped": "a scheduler stopped in good order",
    "scheduler.takeover": "a scheduler took the shards of one that was lost",
    "worker.joined": "a worker joined",
    "worker.left": "a worker stopped in good order",
    "worker.lost": "a worker fell silent and was declared lost",
    "workflow.changed": "a workflow declared in code was changed by a new version",
    "workflow.declared": "a workflow was declared in code",
    "workflow.failed": "a workflow run failed",
    "workflow.undeclared": "a workflow is no longer declared in code and was paused",
}


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are read: what the caller may see, and what they ask for."""

    namespace: str
    owner: str | None = None  # events about this owner's jobs; None: all
    sees_all: bool = False  # also what concerns the installation
    kinds: tuple[str, ...] = ()  # as `is_of` takes them; none: all
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def admits(self, row: Any) -> bool:
        """Whether an event (a row of rota.events) is meant, whenever it happened."""
        if self.sees_all and (row["is_copy"] or row["namespace"] == INSTALLATION):
            in_sight = not row["is_copy"]  # the same is told to them under the installation
        else:
            in_sight = row["namespace"] == self.namespace and self.owner in (None, row["owner"])
        of_kind = not self.kinds or is_of(row["kind"], self.kinds)
        return in_sight and of_kind and self.subject in (None, row["subject"])


class Subscription(msgspec.Struct, frozen=True):
    """Which events a destination gets: of its namespace ('*': of all), of these kinds, from this severity on."""

    namespace: str
    name: str
    kinds: Sequence[str]
    least_severity: Severity | None = None

    def wants(self, row: Any) -> bool:
        """Whether an event (a row of rota.events) goes there."""
        if self.namespace == INSTALLATION:
            if row["is_copy"]:
                return False
        elif row["namespace"] != self.namespace:
            return False
        if not is_of(row["kind"], self.kinds):
            return False
        data = data_of(row)
        named = data.get("destinations")
        if isinstance(named, list) and named and self.name not in named:
            return False
        return self.least_severity is None or rank_of(data) >= SEVERITIES.index(self.least_severity)


def is_of(kind: str, chosen: Iterable[str]) -> bool:
    """Whether a kind is among these; one with a dot at its end stands for all that begin with it."""
    return any(kind == one or (one.endswith(".") and kind.startswith(one)) for one in chosen)


def rank_of(data: Mapping[str, Any]) -> int:
    """How severe an event is, as a place in SEVERITIES; one that says nothing is `info`."""
    severity = data.get("severity")
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def data_of(row: Any) -> dict[str, Any]:
    """What an event carries for programs; empty if that is nothing, or can't be read."""
    try:
        return msgspec.json.decode(row["data"] or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
