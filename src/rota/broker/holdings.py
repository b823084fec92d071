"""What a worker holds, counted by name (of a pool, or of a namespace)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Holdings:
    """Counts claims by name, from taking them until their report is answered."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._held = dict.fromkeys(weights, 0)
        self._name_of: dict[int, str] = {}

    @property
    def total(self) -> int:
        return len(self._name_of)

    def took(self, name: str, claims: Iterable[int]) -> None:
        for claim in claims:
            self._name_of[claim] = name
            self._held[name] += 1

    def gave(self, claims: Iterable[int]) -> None:
        for claim in claims:
            name = self._name_of.pop(claim, None)
            if name is not None:
                self._held[name] -= 1
