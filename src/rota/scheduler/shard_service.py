"""The base of services that work on the shards their scheduler owns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from rota.scheduler.lease_keeper import LeaseKeeper
from rota.service import Service


class ShardService(Service):
    """Runs `serve` over the shards that its scheduler owns, if there are any."""

    def __init__(self, *, leases: LeaseKeeper) -> None:
        super().__init__()
        self._leases = leases

    async def tick(self) -> int:
        owned = self._leases.owned
        return await self.serve(owned) if owned else 0

    @abstractmethod
    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round over these shards (with their epochs); returns how many things it did."""
