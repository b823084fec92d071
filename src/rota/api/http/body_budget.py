"""A budget for request bodies in memory: requests over it are refused before they are read.

A body counts from the moment its length is known until its request is answered, so submissions that wait for their
commit count too. A single request is never refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rota.errors import OverloadedError

MOST_BYTES = 32 * 1024 * 1024


class BodyBudget:
    """Counts the bytes of all request bodies in memory."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.held = 0
        self.most_bytes = most_bytes

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Wraps the handling of one request."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            self.held -= hold.size


class Hold:
    """The bytes of one request."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Takes what is missing to `size`; raises OverloadedError when others hold too much already."""
        budget, more = self._budget, size - self.size
        if more <= 0:
            return
        if budget.held > self.size and budget.held + more > budget.most_bytes:
            raise OverloadedError("too many large requests are being handled; try again in a moment")
        budget.held += more
        self.size = size
