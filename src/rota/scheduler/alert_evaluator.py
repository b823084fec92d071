"""Evaluates the rules of alerts, in the scheduler that owns SWEEPING_SHARD.

A rule that can't be evaluated is noted with its error, and the others go on. If nothing is wrong anywhere, the next
round comes later: an idle installation is not kept busy. What makes two schedulers at once harmless is in
store/alert/states.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.clock import Deadline
from rota.domain.alerts import INSTALLATION, AlertRule, Measured
from rota.errors import DatabaseUnavailableError
from rota.scheduler.alert_findings import AlertFindings
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.alert import rule_of
from rota.store.alert.measures import AlertMeasures
from rota.store.alert.states import AlertStates
from rota.telemetry import get_logger

ALERT_SECONDS = 10.0
_CALM_FACTOR = 3  # rounds are so much rarer while no alert is open
_SWEEP_SECONDS = 3600.0
_log = get_logger("alerts")


class AlertEvaluator(ShardService):
    """Measures what each rule asks for, and takes its alerts on."""

    def __init__(
        self,
        *,
        states: AlertStates,
        measures: AlertMeasures,
        home: Path | None = None,
        seconds: float = ALERT_SECONDS,
        **shared: Any,
    ) -> None:
        """`home`: the directory whose disk is looked at; `seconds`: between rounds while an alert is open."""
        super().__init__(**shared)
        self._states = states
        self._measures = measures
        self._home = home
        self._seconds = seconds
        self._next_sweep = Deadline(0.0)
        self.interval_seconds = seconds

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many events were recorded."""
        if SWEEPING_SHARD not in owned:
            return 0
        if self._next_sweep.is_over:
            await self._states.sweep()
            self._next_sweep = Deadline(_SWEEP_SECONDS)
        rows = await self._states.rules()
        own = {(row["namespace"], row["name"]) for row in rows}
        findings = AlertFindings(self._measures, self._home)
        told, is_calm = 0, True
        for row in rows:
            done = await self._evaluate(row, findings, own)
            is_calm &= done is not None and not row["open"] and not done
            told += done or 0
        self.interval_seconds = self._seconds * (_CALM_FACTOR if is_calm else 1)
        return told

    async def _evaluate(self, row: Any, findings: AlertFindings, own: set[tuple[str, str]]) -> int | None:
        """How many events a rule made; None: it is about to fire, or can't be evaluated."""
        if not row["enabled"] and not row["open"]:
            return 0
        try:
            rule = rule_of(row)
            measured = _concerning(rule, await findings.of(rule), own) if rule.enabled else Measured([])
            told = await self._states.write(rule, row, measured) if measured.findings or row["open"] else 0
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - one bad rule must not stop the others
            await self._note_error(row, f"{type(error).__name__}: {error}")
            return None
        if row["error"] is not None:
            await self._states.note_error(row, None)
        return told if told or not measured.findings else None

    async def _note_error(self, row: Any, error: str) -> None:
        if row["error"] != error:
            _log.error("a rule can't be evaluated", namespace=row["namespace"], rule=row["name"], error=error)
            await self._states.note_error(row, error)


def _concerning(rule: AlertRule, measured: Measured, own: set[tuple[str, str]]) -> Measured:
    """What is about the rule's namespace; for a rule of the installation, about those without a rule of this name."""
    if rule.namespace != INSTALLATION:
        found = [each for each in measured.findings if each.namespace == rule.namespace]
    else:
        found = [
            each
            for each in measured.findings
            if each.namespace == INSTALLATION or (each.namespace, rule.name) not in own
        ]
    return measured._replace(findings=found)
