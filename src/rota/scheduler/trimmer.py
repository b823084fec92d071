"""Removes what is older than the retention policy of its namespace says: events, audit, dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.domain.retention import floor_of
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.archive import RetentionPolicies
from rota.store.collect import Leftovers
from rota.store.postgres.database import Database

_MANY = 1000


class Trimmer(ShardService):
    """Removes a few rows of each kind and namespace per round, in the scheduler that owns SWEEPING_SHARD."""

    interval_seconds = 600.0
    full_round = _MANY

    def __init__(self, *, database: Database, **shared: Any) -> None:
        super().__init__(**shared)
        self._policies = RetentionPolicies(database)
        self._leftovers = Leftovers(database)
        self._now = database.time

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many rows were removed."""
        if SWEEPING_SHARD not in owned:
            return 0
        removed = 0
        for namespace, policy in (await self._policies.all()).items():
            if policy.events is not None:
                removed += await self._leftovers.trim_events(namespace, policy.events)
            if policy.audit is not None:
                removed += await self._leftovers.trim_audit(namespace)
            if policy.dead_letters is not None:
                before = floor_of(policy.dead_letters, await self._now())
                removed += await self._leftovers.trim_dead_letters(namespace, policy.dead_letters, before)
        return removed
