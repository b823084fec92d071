"""A budget for the memory of requests: those over it are refused before they are read.

A body counts from the moment its length is known until its request is answered, so submissions that wait for their
commit count too: each byte as it came and as it is read, and each job with what is made of it.

A namespace gets half of the budget, so that none can keep all others out. A single request is never refused: the first
of a namespace that holds nothing, if the others leave half of the budget; any request if it is alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rota.errors import OverloadedError

MOST_BYTES = 128 * 1024 * 1024
BYTES_PER_BYTE = 2  # as it came, and as it is read
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
        """Takes as much more; raises OverloadedError when other requests hold too much already."""
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
        """Takes what is missing to `size`."""
        if size > self.size:
            self.grow_by(size - self.size)
