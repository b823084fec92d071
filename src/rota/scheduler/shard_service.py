"""The shape of services that work on the shards their scheduler owns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from rota.scheduler.lease_keeper import LeaseKeeper
from rota.service import Service
from rota.store.postgres.listener import GATE, READY
from rota.store.postgres.wakeups import Notifier
from rota.store.promote import Promoted


class ShardService(Service):
    """Does nothing while it owns nothing; else one round over what it owns."""

    def __init__(self, *, leases: LeaseKeeper, notifier: Notifier) -> None:
        super().__init__()
        self._leases = leases
        self._notifier = notifier

    async def tick(self) -> int:
        """One round; returns how many things it did."""
        owned = self._leases.owned
        return await self.serve(owned) if owned else 0

    @abstractmethod
    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round over these shards (with their epochs)."""

    def tell_pools(self, pools: Iterable[str]) -> None:
        """Hints to workers that runs became ready."""
        for pool in pools:
            self._notifier.hint(READY, pool)

    def tell_promoted(self, promoted: Promoted) -> None:
        """Hints to workers, and to schedulers where some came to their gates."""
        self.tell_pools(promoted.pools)
        if promoted.gated:
            self.tell_gates()

    def tell_gates(self) -> None:
        """Hints to schedulers that runs came to their gates, or left their place."""
        self._notifier.hint(GATE)
