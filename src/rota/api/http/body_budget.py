"""A budget for the memory of requests: those over it are refused before they are read.

A body counts from the moment its length is known until its request is answered, so submissions that wait for their
commit count too. Each byte counts twice (received and parsed), and each job adds the objects made from it.

A namespace gets at most half of the budget, so that it can't keep the others out. A request that is alone is never
refused, however large; nor is a namespace's only request while the other namespaces leave room for it.
"""

from __future__ import annotations

from typing import Self

from rota.errors import OverloadedError

MOST_BYTES = 128 * 1024 * 1024
BYTES_PER_BYTE = 2  # received, and parsed
BYTES_PER_JOB = 2048  # the objects between a request and its row


class BodyBudget:
    """Counts the memory of all requests."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.held = 0
        self.held_by: dict[str, int] = {}
        self.most_bytes = most_bytes

    def hold(self, namespace: str = "") -> Hold:
        """The memory of one request, held while it is entered."""
        return Hold(self, namespace)


class Hold:
    """The memory of one request."""

    __slots__ = ("_budget", "_namespace", "size")

    def __init__(self, budget: BodyBudget, namespace: str) -> None:
        self._budget = budget
        self._namespace = namespace
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.size:
            self._take(-self.size)

    def grow_by(self, size: int) -> None:
        """Takes `size` bytes more; raises OverloadedError if other requests hold too much."""
        budget = self._budget
        if budget.held > self.size and budget.held + size > budget.most_bytes:
            raise OverloadedError("too many large requests are being handled; try again in a moment")
        held = budget.held_by.get(self._namespace, 0)
        if held > self.size and held + size > budget.most_bytes // 2:
            raise OverloadedError("too many large requests of this namespace are being handled; try again in a moment")
        self._take(size)

    def grow_to(self, size: int) -> None:
        """Takes what is missing to `size` bytes in all."""
        if size > self.size:
            self.grow_by(size - self.size)

    def _take(self, size: int) -> None:
        budget, namespace = self._budget, self._namespace
        self.size += size
        budget.held += size
        held = budget.held_by.get(namespace, 0) + size
        if held:
            budget.held_by[namespace] = held
        else:
            del budget.held_by[namespace]
