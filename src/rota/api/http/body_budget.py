"""How much of requests may be in memory at a time: what would be more is refused before it is read.

A body is held from the moment its length is known until its request is answered, so submissions that wait for their
commit count as well. One request alone is never refused, however large it is within its own limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rota.errors import OverloadedError

MOST_BYTES = 32 * 1024 * 1024


class BodyBudget:
    """Counts the bytes of all bodies that are held."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.held = 0
        self.most_bytes = most_bytes

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Goes around a request."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            self.held -= hold.size


class Hold:
    """What one request holds."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Takes what is missing to `size`; raises OverloadedError when others hold too much already."""
        more = size - self.size
        if more <= 0:
            return
        budget = self._budget
        if budget.held > self.size and budget.held + more > budget.most_bytes:
            raise OverloadedError("too many large requests are being handled; try again in a moment")
        budget.held += more
        self.size = size
