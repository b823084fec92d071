"""Statuses of jobs: many clients poll for them, so all that ask at the same time are answered by one statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rota.shared_lookups import SharedLookups
from rota.store.read.jobs import Jobs


class StatusLookups(SharedLookups[tuple[str, UUID], Any]):
    """Finds what the status of a job needs, by namespace and id."""

    def __init__(self, jobs: Jobs, *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._jobs = jobs
        self._now = now

    async def look(self, questions: Sequence[tuple[str, UUID]]) -> Mapping[tuple[str, UUID], Any]:
        return await self._jobs.statuses(questions, self._now())
