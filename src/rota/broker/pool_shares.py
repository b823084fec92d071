"""How a worker that serves several pools divides its room among them, by weight.

A pool gets its share of what the worker holds, less what it already has. Room that a pool does not use is offered to
the others; the pool is then behind, and goes first the next time.
"""

from __future__ import annotations

from rota.broker.holdings import Holdings


class PoolShares(Holdings):
    """Counts what a worker holds of each pool, and divides its room."""

    def split(self, room: int) -> list[tuple[str, int]]:
        """How much room each pool gets, the furthest behind first; never more than `room` in total."""
        whole, weights = room + self.total, sum(self._weights.values())
        behind = {pool: whole * weight / weights - self._held[pool] for pool, weight in self._weights.items()}
        parts = []
        left = room
        for pool in sorted(behind, key=lambda pool: behind[pool] / self._weights[pool], reverse=True):
            part = min(left, max(0, round(behind[pool])))
            parts.append((pool, part))
            left -= part
        return parts
