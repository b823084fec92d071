"""How alerts stand, written with the events that tell of it.

Two schedulers may evaluate at once: one that was paused, and the one that took its shards. The row of a rule decides
between them. A change of its alerts is made under its lock, and only if its revision is still the one that was read
before measuring; every change raises it. So of two that measured the same, one writes, and there is one event. What
was measured too long ago is dropped: nothing may have been written since, because all was well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from rota.domain.alerts import (
    INSTALLATION,
    KINDS,
    AlertFinding,
    AlertRule,
    AlertState,
    Measured,
    Step,
    advance,
    bounded,
)
from rota.domain.ids import show_job
from rota.store.events import Event, record_events
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements

STALE_AFTER = timedelta(seconds=30)
_KEPT = timedelta(days=7)
_COLUMNS = """
    namespaces keys phases subjects titles acts values thresholds job_ids owners since good_since fired_at resolved_at
    told"""
_KINDS = {"fired": "alert.fired", "resolved": "alert.resolved"}
_encoder = msgspec.json.Encoder()


class AlertStates:
    """What an evaluation reads and writes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rules(self) -> list[Any]:
        """Rows of the rules to evaluate."""
        return await self._database.fetch("rules_in_force")

    async def write(self, rule: AlertRule, row: Any, measured: Measured) -> int:
        """Takes the alerts of a rule, whose row was read before measuring, on; returns how many events that made."""

        async def take_on(statements: Statements) -> int:
            named: dict[str, Any] = {"namespace": rule.namespace, "name": rule.name}
            if not await statements.fetch("lock_alert_rule", **named, revision=row["revision"]):
                return 0  # it was changed, or another scheduler was faster
            now = await statements.time()
            if not timedelta() <= now - row["moment"] <= STALE_AFTER:
                return 0
            before = {
                (state.finding.namespace, state.finding.key): state
                for state in map(read_state, await statements.fetch("states_of_rule", **named))
            }
            silences = await statements.fetch("silences_in_force", rule=rule.name)
            steps = _steps(rule, before, measured, silences, now)
            return await _write(statements, rule, before, steps, now)

        told = await self._database.transact(take_on)
        if told:
            self._database.wake(events=True)
        return told

    async def note_error(self, row: Any, error: str | None) -> None:
        """Writes why a rule can't be evaluated; None: it can."""
        await self._database.fetch("note_rule_error", namespace=row["namespace"], name=row["name"], error=error)

    async def sweep(self) -> None:
        """Removes what is of no use any more."""
        await self._database.fetch("sweep_alerts", kept=_KEPT)


def _steps(
    rule: AlertRule,
    before: dict[tuple[str, str], AlertState],
    measured: Measured,
    silences: Sequence[Any],
    now: datetime,
) -> dict[tuple[str, str], Step]:
    is_open = [key for key, state in before.items() if state.phase != "resolved"]
    found = {(each.namespace, each.key): each for each in bounded(measured.findings, is_open, rule.name)}
    missing = [] if not measured.is_complete and rule.enabled else [key for key in is_open if key not in found]
    return {
        place: advance(
            before.get(place), found.get(place), rule, now, is_silenced=_is_silenced(silences, rule.name, *place)
        )
        for place in (*found, *missing)
    }


def _is_silenced(silences: Sequence[Any], rule: str, namespace: str, key: str) -> bool:
    return any(
        each["namespace"] in (namespace, INSTALLATION) and each["rule"] in (None, rule) and each["key"] in (None, key)
        for each in silences
    )


async def _write(
    statements: Statements,
    rule: AlertRule,
    before: dict[tuple[str, str], AlertState],
    steps: dict[tuple[str, str], Step],
    now: datetime,
) -> int:
    changed = {place: step for place, step in steps.items() if step.after != before.get(place)}
    if not changed:
        return 0
    named: dict[str, Any] = {"rule_namespace": rule.namespace, "rule": rule.name}
    states = [step.after for step in changed.values() if step.after is not None]
    if states:
        await statements.fetch(
            "write_alert_states",
            **named,
            kind=rule.kind,
            severity=rule.severity,
            **columns(map(_row_of, states), _COLUMNS),
        )
    if gone := [place for place, step in changed.items() if step.after is None]:
        await statements.fetch("forget_alert_states", **named, **columns(gone, "namespaces keys"))
    events = [
        event
        for step in changed.values()
        if step.after is not None and step.told is not None
        for event in _events(rule, step.after, step.told, now)
    ]
    await record_events(statements, events)
    await statements.fetch("note_alert_change", namespace=rule.namespace, name=rule.name)
    return len(events)


def _row_of(state: AlertState) -> tuple[Any, ...]:
    found = state.finding
    return (
        *(found.namespace, found.key, state.phase, found.subject, found.title, found.act, found.value),
        *(found.threshold, found.job_id, found.owner, state.since, state.good_since, state.fired_at),
        *(state.resolved_at, state.told),
    )


def read_state(row: Any) -> AlertState:
    """How an alert stands, from its row."""
    finding = AlertFinding(
        row["namespace"],
        row["key"],
        row["subject"],
        row["value"],
        row["threshold"],
        row["title"],
        row["act"],
        row["job_id"],
        row["owner"],
    )
    times = (row["since"], row["good_since"], row["fired_at"], row["resolved_at"])
    return AlertState(finding, row["phase"], *times, row["told"])


def _events(rule: AlertRule, state: AlertState, told: Literal["fired", "resolved"], now: datetime) -> list[Event]:
    """An alert about a schedule is also something that happened to the schedule."""
    events = [alert_event(rule, state, told, now)]
    if rule.kind == "schedule_overdue" and state.finding.job_id is not None:
        kind = "schedule.overdue" if told == "fired" else "schedule.recovered"
        events.append(msgspec.structs.replace(events[0], kind=kind))
    return events


def alert_event(rule: AlertRule, state: AlertState, told: Literal["fired", "resolved"], now: datetime) -> Event:
    """What is told of an alert, for people and for programs."""
    found = state.finding
    data = _data(rule, found, state.since)
    if told == "resolved":
        data["resolvedAt"] = now
    return Event(
        namespace=found.namespace,
        kind=_KINDS[told],
        subject=found.subject,
        detail=found.title,
        job_id=found.job_id,
        owner=found.owner,
        data=_encoder.encode(data).decode(),
    )


def show_rule_event(rule: AlertRule, namespace: str, asked_by: str) -> Event:
    """A test: as if the rule fired."""
    title = f"Test of the rule {rule.name}, asked for by {asked_by}"
    found = AlertFinding(namespace, "test", rule.name, rule.threshold, rule.threshold, title, "rota alerts rules")
    data = _data(rule, found, None) | {"test": True}
    return Event(namespace, "alert.fired", rule.name, title, data=_encoder.encode(data).decode())


def _data(rule: AlertRule, found: AlertFinding, since: datetime | None) -> dict[str, Any]:
    data = {
        "alert": rule.name,
        "rule": rule.kind,
        "severity": rule.severity,
        "subject": found.subject,
        "value": found.value,
        "threshold": found.threshold,
        "since": since,
        "key": key_of(rule.namespace, rule.name, found.namespace, found.key),
        "title": found.title,
        "nextAct": found.act,
        "runbook": runbook_of(rule.kind),
    }
    if found.job_id is not None:
        data["jobId"] = show_job(found.job_id)
    if rule.settings.destinations:
        data["destinations"] = rule.settings.destinations
    return data


def key_of(rule_namespace: str, rule: str, namespace: str, key: str) -> str:
    """What is the same for all events of an alert, and of no other alert."""
    return f"{rule_namespace}/{rule}/{namespace}/{key}"


def runbook_of(kind: str) -> str:
    """The page of the documentation that says what to do."""
    return f"runbook/{KINDS[kind].runbook if kind in KINDS else 'the-rest'}.md"
