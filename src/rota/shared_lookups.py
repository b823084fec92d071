"""Questions that are asked at the same time share one look into the database.

One look runs at a time; a question that comes meanwhile is answered by the next look, so no answer is older than its
question. Under load a look answers many questions for hardly more than one costs, and however many are asked, one
connection is used. Tenants take turns: where more is asked than one look takes, no tenant waits for all of another's.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from rota.errors import DatabaseUnavailableError
from rota.service import Service

Question = TypeVar("Question", bound=Hashable)
Found = TypeVar("Found")


class SharedLookups(Service, Generic[Question, Found]):
    """Answers questions; one tick is one look."""

    interval_seconds = None
    full_round = 1
    most_per_look = 500

    def __init__(self) -> None:
        super().__init__()
        self._wanted: dict[
            str, dict[Question, asyncio.Future[Found | None]]
        ] = {}  # the next turn is the first tenant's

    @abstractmethod
    async def look(self, questions: Sequence[Question]) -> Mapping[Question, Found]:
        """Asks the database; leaves out what is not there."""

    async def ask(self, question: Question, *, tenant: str = "") -> Found | None:
        """What a look that begins from now on finds; raises what that look raises."""
        line = self._wanted.setdefault(tenant, {})
        if (waiting := line.get(question)) is None:
            waiting = line[question] = asyncio.get_running_loop().create_future()
            # No request may be left to see the exception.
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.wake()
        return await asyncio.shield(waiting)

    @property
    def is_asked(self) -> bool:
        """Whether questions wait for the next look."""
        return bool(self._wanted)

    async def tick(self) -> int:
        """Answers the questions that wait, up to as many as one look takes."""
        wanted = self._next()
        if wanted:
            await self._answer(wanted)
        return len(wanted)

    def _next(self) -> dict[Question, asyncio.Future[Found | None]]:
        """The questions of the next look: a tenant's share of it each, and those that are left come first next time."""
        share = (
            self.most_per_look if len(self._wanted) == 1 else max(1, self.most_per_look // max(1, len(self._wanted)))
        )
        chosen: dict[Question, asyncio.Future[Found | None]] = {}
        for tenant in list(self._wanted):
            if len(chosen) >= self.most_per_look:
                break
            line = self._wanted.pop(tenant)
            for question in list(line)[:share]:
                chosen[question] = line.pop(question)
            if line:
                self._wanted[tenant] = line  # behind the others
        return chosen

    async def _answer(self, wanted: dict[Question, asyncio.Future[Found | None]]) -> None:
        # If the look is cancelled, those that wait get this error, so that none waits for ever.
        failure: Exception | None = DatabaseUnavailableError("the server was stopped while it looked this up")
        try:
            found = await self.look(list(wanted))
            failure = None
        except Exception as error:  # noqa: BLE001 - raised in every request that waits for it
            failure = error
            return
        finally:
            if failure is not None:
                for waiting in wanted.values():
                    waiting.set_exception(failure)
        for question, waiting in wanted.items():
            waiting.set_result(found.get(question))
