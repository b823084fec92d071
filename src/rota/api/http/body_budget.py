"""A budget for the memory of requests: those over it are refused before they are read.

A body counts from the moment its length is known until its request is answered, so submissions that wait for their
commit count too. Each byte counts twice (received and parsed), and each job adds the objects made from it.

A namespace gets at most half of the budget, so that it can't keep the others out. A request that is alone is never
refused, however large; nor is a namespace's only request while the other namespaces leave room for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rota.errors import OverloadedError

MOST_BYTES = 128 * 1024 * 1024
BYTES_PER_BYTE = 2  # received, and parsed
BYTES_PER_JOB = 2048  # the objects between a request and its row


class BodyBudget:
    """Counts the memory of all requests."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.held = 0
        self.held_by: Counter[str] = Counter()
        self.most_bytes = most_bytes

    @contextmanager
    def hold(self, namespace: str = "") -> Iterator[Hold]:
        """Wraps the handling of one request."""
        hold = Hold(self, namespace)
        try:
            yield hold
        finally:
            self.take(namespace, -hold.size)
            if not self.held_by[namespace]:
                del self.held_by[namespace]

    def take(self, namespace: str, size: int) -> None:
        self.held += size
        self.held_by[namespace] += size


class Hold:
    """The memory of one request."""

    __slots__ = ("_budget", "_namespace", "size")

    def __init__(self, budget: BodyBudget, namespace: str) -> None:
        self._budget = budget
        self._namespace = namespace
        self.size = 0

    def grow_by(self, size: int) -> None:
        """Takes `size` bytes more; raises OverloadedError if other requests hold too much."""
        budget = self._budget
        for held, most, whose in (
            (budget.held, budget.most_bytes, ""),
            (budget.held_by[self._namespace], budget.most_bytes // 2, " of this namespace"),
        ):
            if held > self.size and held + size > most:
                raise OverloadedError(f"too many large requests{whose} are being handled; try again in a moment")
        budget.take(self._namespace, size)
        self.size += size

    def grow_to(self, size: int) -> None:
        """Takes what is missing to `size` bytes in all."""
        if size > self.size:
            self.grow_by(size - self.size)
