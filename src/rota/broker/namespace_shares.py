"""How a worker that serves several namespaces divides its room among them.

Namespaces with work waiting share the worker by weight; room that one doesn't use goes to the others (claim.sql fills
it). Runs are never preempted: if one namespace could fill a worker with long runs, another's first run would wait for
one of them to end. So each namespace holds at most a part of the worker, even while no other has work.

Each worker decides alone, from its own claims. All workers of a pool do the same, so no namespace gets more than that
part of the pool, and no claim has to count what other workers hold.
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
