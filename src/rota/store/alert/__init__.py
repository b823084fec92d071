"""Rules of alerts, and silences: what people say about being told."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec

from rota.domain.alerts import INSTALLATION, AlertRule, AlertSettings, AlertState, end
from rota.errors import ConflictError
from rota.store.alert.states import alert_event, read_state, show_rule_event
from rota.store.events import Event, record_events
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import transact_soon

MOST_RULES = 100  # of one namespace
MOST_SILENCES = 200
_encoder = msgspec.json.Encoder()


def rule_of(row: Any) -> AlertRule:
    """The rule in a row; raises a msgspec.MsgspecError for one that this release can't read."""
    settings = msgspec.json.decode(row["settings"], type=AlertSettings)
    return AlertRule(row["namespace"], row["name"], row["kind"], settings, row["enabled"])


class AlertRules:
    """The rules and silences of namespaces, and of the installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, namespace: str, name: str) -> Any | None:
        return await self._database.fetch_row("find_alert_rule", namespace=namespace, name=name)

    async def find_page(self, namespace: str, after: str | None, limit: int) -> list[Any]:
        """Rules of the namespace and of the installation, by name."""
        namespaces = [namespace, INSTALLATION]
        return await self._database.fetch("list_alert_rules", namespaces=namespaces, after=after, limit=limit)

    async def put(self, rule: AlertRule, changed_by: str) -> Any:
        """Creates or replaces a rule; raises ConflictError if there are too many."""
        row = await self._database.fetch_row(
            "put_alert_rule",
            namespace=rule.namespace,
            name=rule.name,
            kind=rule.kind,
            enabled=rule.enabled,
            settings=_encoder.encode(rule.settings).decode(),
            changed_by=changed_by,
            most=MOST_RULES,
        )
        if row is None:
            raise ConflictError(f"there are {MOST_RULES} rules already; delete one first")
        return row

    async def delete(self, namespace: str, name: str) -> Any | None:
        """The rule as it was, None if there was none. What it fires is resolved: no one would do it later."""

        async def delete_it(statements: Statements) -> Any | None:
            locked = await statements.fetch("lock_alert_rule", namespace=namespace, name=name, revision=None)
            if not locked:
                return None
            row = await statements.fetch_row("find_alert_rule", namespace=namespace, name=name)
            states = [
                read_state(each) for each in await statements.fetch("states_of_rule", namespace=namespace, name=name)
            ]
            events = _resolutions(row, [state for state in states if state.phase == "firing"], await statements.time())
            await record_events(statements, events)
            await statements.fetch("delete_alert_rule", namespace=namespace, name=name)
            return row

        return await transact_soon(self._database, delete_it)

    async def test(self, rule: AlertRule, namespace: str, asked_by: str) -> Event:
        """Records that a rule fires, so that its destinations can be tried out."""
        event = show_rule_event(rule, namespace, asked_by)

        async def record(statements: Statements) -> None:
            await record_events(statements, [event])

        await self._database.transact(record)
        self._database.wake(events=True)
        return event

    async def alerts(self, namespaces: list[str], phases: list[str], owner: str | None, limit: int) -> list[Any]:
        """How alerts about these namespaces stand: first those that are not resolved, latest first."""
        return await self._database.fetch("list_alerts", namespaces=namespaces, phases=phases, owner=owner, limit=limit)

    async def silences(self, namespaces: list[str], limit: int) -> list[Any]:
        return await self._database.fetch("list_silences", namespaces=namespaces, limit=limit)

    async def silence(
        self, namespace: str, *, rule: str | None, key: str | None, until: datetime, reason: str, created_by: str
    ) -> Any:
        """Adds a silence; raises ConflictError if there are too many."""
        row = await self._database.fetch_row(
            "add_silence",
            namespace=namespace,
            id=uuid4(),
            rule=rule,
            key=key,
            until=until,
            reason=reason,
            created_by=created_by,
            most=MOST_SILENCES,
        )
        if row is None:
            raise ConflictError(f"there are {MOST_SILENCES} silences already; end one first")
        return row

    async def end_silence(self, namespace: str, silence: UUID) -> Any | None:
        """The silence as it was; None if there is none."""
        return await self._database.fetch_row("end_silence", namespace=namespace, id=silence)


def _resolutions(row: Any, firing: list[AlertState], now: datetime) -> list[Event]:
    told: list[Literal["fired", "resolved"] | None] = [end(state, now).told for state in firing]
    try:
        rule = rule_of(row)
    except msgspec.MsgspecError:  # of a newer release: its alerts are resolved all the same
        rule = AlertRule(row["namespace"], row["name"], row["kind"], AlertSettings())
    return [alert_event(rule, state, kind, now) for state, kind in zip(firing, told, strict=True) if kind]
