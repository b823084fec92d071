"""Announced defaults for jobs that are submitted in transactions of others: asked for there, and kept for a while.

Payloads are not checked against what workers announce: the library has checked them by the task's own types.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rota.gateway.known_tasks import KnownTask
from rota.gateway.protocol import OutgoingJob
from rota.telemetry import get_logger

_REMEMBERED_SECONDS = 10.0


class _Answer(msgspec.Struct):
    """What the database function says of a task."""

    defaults: dict[str, Any] | None = None
    computed: tuple[str, ...] | None = None


_answers = msgspec.json.Decoder(dict[str, msgspec.Raw])
_answer = msgspec.json.Decoder(_Answer)
_log = get_logger("tasks")


class TransactionTasks:
    """What an application has learned of its tasks' defaults. `is_told`: whether the database has the function; None:
    not asked yet."""

    is_told: bool | None = None

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, KnownTask | None]] = {}

    def find(self, namespace: str, task: str) -> KnownTask | None:
        """What is known of a task."""
        return self._known.get((namespace, task), (0.0, None))[1]

    def to_ask(self, jobs: Iterable[OutgoingJob], namespace: str) -> list[str]:
        """The tasks of these jobs of which nothing was asked lately."""
        if self.is_told is False:
            return []
        oldest = time.monotonic() - _REMEMBERED_SECONDS
        names = {job.template.job.task for job in jobs}
        return sorted(
            name for name in names if name and self._known.get((namespace, name), (oldest, None))[0] <= oldest
        )

    def learn(self, namespace: str, names: Sequence[str], text: str) -> None:
        """Remembers the database's answer about these tasks."""
        now, told = time.monotonic(), _answers.decode(text)
        for name in names:
            self._known[namespace, name] = (now, _read(name, told[name]) if name in told else None)


def _read(name: str, told: msgspec.Raw) -> KnownTask | None:
    """What workers say of a task; None if it makes no sense: that must not stop a submission."""
    try:
        said = _answer.decode(told)
    except msgspec.ValidationError as error:
        _log.warning("an announced task can't be read", task=name, error=str(error))
        return None
    return KnownTask(name, said.defaults or {}, said.computed or ())
