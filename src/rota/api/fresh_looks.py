"""Answers that are kept for a moment: a hundred open screens cost as much as one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

_MOST_LOOKS = 1000
Question = TypeVar("Question", bound=Hashable)
Found = TypeVar("Found")


class FreshLooks(Generic[Question, Found]):
    """Looks once for all who ask the same within some seconds."""

    def __init__(
        self,
        look: Callable[[Question], Awaitable[Found]],
        *,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._seconds = seconds
        self._monotonic = monotonic
        self._looks: dict[Question, tuple[float, asyncio.Task[Found]]] = {}

    async def of(self, question: Question) -> Found:
        """What was found at most some seconds ago; raises what that look raised."""
        now = self._monotonic()
        found = self._looks.get(question)
        if found is None or now - found[0] > self._seconds:
            if len(self._looks) >= _MOST_LOOKS:
                self._looks = {key: look for key, look in self._looks.items() if now - look[0] <= self._seconds}
            found = self._looks[question] = (now, asyncio.create_task(self._begin(question)))
        return await asyncio.shield(found[1])

    async def _begin(self, question: Question) -> Found:
        return await self._look(question)
