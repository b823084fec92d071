"""How a worker that serves several pools divides its room among them, by weight.

A pool gets its share of what the worker holds, less what it already has. Room that a pool does not use is offered to
the others; the pool is then behind, and goes first the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class PoolShares:
    """Counts how many claims of each pool a worker holds."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._total = sum(weights.values())
        self._held = dict.fromkeys(weights, 0)
        self._pool_of: dict[int, str] = {}

    def split(self, room: int) -> list[tuple[str, int]]:
        """How much room each pool gets, the furthest behind first; never more than `room` in total."""
        whole = room + sum(self._held.values())
        behind = {pool: whole * weight / self._total - self._held[pool] for pool, weight in self._weights.items()}
        parts = []
        left = room
        for pool in sorted(behind, key=lambda pool: behind[pool] / self._weights[pool], reverse=True):
            part = min(left, max(0, round(behind[pool])))
            parts.append((pool, part))
            left -= part
        return parts

    def took(self, pool: str, claims: Iterable[int]) -> None:
        for claim in claims:
            self._pool_of[claim] = pool
            self._held[pool] += 1

    def gave(self, claims: Iterable[int]) -> None:
        for claim in claims:
            pool = self._pool_of.pop(claim, None)
            if pool is not None:
                self._held[pool] -= 1
