"""What an application puts around the runs of its tasks, as a worker sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from rota.domain.run import Claim
from rota.task.context import Context, Transaction


class Around(Protocol):
    """Goes around one attempt."""

    def running(self, context: Context) -> AbstractAsyncContextManager[None]:
        """Entered before the task begins, left when it has ended."""
        ...


class Transactions(Protocol):
    """Opens transactions for tasks that are transactional."""

    def begin(self, claim: Claim, *, plain: bool) -> AbstractAsyncContextManager[Transaction]:
        """Committed when it is left, rolled back when something is raised. `plain`: for a function in a thread."""
        ...

    def check_plain(self, task: str) -> None:
        """Raises SetupError where a function in a thread can't have one."""
        ...


@asynccontextmanager
async def surrounded(around: Sequence[Around], context: Context) -> AsyncIterator[None]:
    """All of them around one attempt, the first outermost."""
    async with AsyncExitStack() as stack:
        for one in around:
            await stack.enter_async_context(one.running(context))
        yield
