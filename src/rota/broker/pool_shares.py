"""Shares: how a worker that serves several pools divides its room among them.

By weight: a pool gets its share of what the worker holds, less what it has already. What one pool leaves is offered to
the others, so nothing stands idle; when its turn comes again it is behind, and goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Shares:
    """What a worker holds of each pool."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._total = sum(weights.values())
        self._held = dict.fromkeys(weights, 0)
        self._pool_of: dict[int, str] = {}

    def split(self, room: int) -> list[tuple[str, int]]:
        """How much of the room each pool gets, the one that is furthest behind first; together at most the room."""
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
        """These claims are of that pool."""
        for claim in claims:
            self._pool_of[claim] = pool
            self._held[pool] += 1

    def gave(self, claims: Iterable[int]) -> None:
        """These claims are done with."""
        for claim in claims:
            pool = self._pool_of.pop(claim, None)
            if pool is not None:
                self._held[pool] -= 1
