"""How a worker that serves several namespaces divides its room among them.

Namespaces with work waiting share the worker by weight; what one doesn't use the others get (claim.sql fills the room).
Nothing that runs is preempted: if one namespace could fill a worker with long runs, another's first run would wait for
one of them to end. So each holds at most a part of what the worker can hold, even while no other has work.

Each worker decides alone, by what it holds itself. Of a pool's workers, all of which do so, no namespace gets more than
that part; and no claim counts what other workers hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from rota.broker.holdings import Holdings
from rota.store.claim import NamespaceShare


class NamespaceShares(Holdings):
    """Counts what a worker holds of each namespace, and says what each may have."""

    def __init__(self, weights: Mapping[str, int], *, most_share: float) -> None:
        super().__init__(weights)
        self._most_share = most_share

    def of(self, lanes: Mapping[str, list[int]], room: int) -> list[NamespaceShare]:
        """The shares of the namespaces with these lanes. A worker that can hold one run gives it to any."""
        most = max(1, int(self._most_share * (self.total + room)))
        return [
            NamespaceShare(namespace, lanes[namespace], self._held[namespace], self._weights[namespace], most)
            for namespace in lanes
        ]
