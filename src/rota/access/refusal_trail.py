"""Refused changes in the audit trail.

A caller can be refused any number of times, so the trail must not grow with each refusal. The first refusal of an
actor, action and outcome is recorded at once; those of the next minute become one entry with their count. Refusals are
recorded in a namespace where the actor has a role. So a caller can't write into the trail of another tenant, and that
tenant's admins don't see foreign names and addresses. If the process dies, counts that were not yet recorded are lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from rota.access.audit import Auditor
from rota.errors import DatabaseUnavailableError, RotaError
from rota.service import Service
from rota.store.access.audit_trail import AuditEntry
from rota.telemetry import get_logger

WINDOW_SECONDS = 60.0
MOST_KINDS = 10_000  # of actor, action and outcome, in memory
_Kind = tuple[str, str, str, int]
_log = get_logger("audit")


class _Repeats(msgspec.Struct):
    """Refusals of one kind: the latest, when counting began, and how many are not recorded yet."""

    latest: AuditEntry
    since: float
    count: int = 0


class RefusalTrail(Service):
    """Records refusals; one tick writes what was counted."""

    interval_seconds = 10.0

    def __init__(self, auditor: Auditor, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._auditor = auditor
        self._monotonic = monotonic
        self._repeats: dict[_Kind, _Repeats] = {}

    async def record(self, action: str, call: Any, status: int) -> None:
        """Records a refusal, or counts it if one like it has just been recorded."""
        entry = self._auditor.entry_of(action, call)
        kind = (entry.namespace, entry.actor, action, status)
        if known := self._repeats.get(kind):
            known.count += 1
            known.latest = entry
            return
        if len(self._repeats) >= MOST_KINDS:
            _log.warning("a refusal was not recorded: too many kinds at once", actor=entry.actor, action=action)
            return
        self._repeats[kind] = _Repeats(entry, self._monotonic())
        try:
            await self._auditor.record(entry, status)
        except RotaError:
            del self._repeats[kind]  # the next one is the first
            raise

    async def tick(self) -> int:
        """Records the refusals counted in the last minute, and forgets kinds without new ones."""
        over = self._monotonic() - WINDOW_SECONDS
        return await self._flush([kind for kind, repeats in self._repeats.items() if repeats.since <= over])

    async def close(self) -> None:
        await self._flush(list(self._repeats))

    async def _flush(self, kinds: list[_Kind]) -> int:
        written = 0
        for kind in kinds:
            repeats = self._repeats[kind]
            if not repeats.count:
                del self._repeats[kind]
                continue
            count, repeats.count = repeats.count, 0
            try:
                await self._auditor.record(self._auditor.repeated(repeats.latest, count), kind[-1])
            except DatabaseUnavailableError:
                repeats.count += count
                raise
            except RotaError as error:
                _log.error("could not record refusals", actor=kind[1], action=kind[2], count=count, error=str(error))
            repeats.since = self._monotonic()
            written += 1
        return written
