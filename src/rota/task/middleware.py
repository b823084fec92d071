"""An application's middleware and transactions, as a worker sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from rota.domain.run import Claim
from rota.task.context import Context, Transaction


class Around(Protocol):
    """Middleware around one attempt."""

    def running(self, context: Context) -> AbstractAsyncContextManager[None]:
        """Entered before the task begins, left when it has ended."""


class Transactions(Protocol):
    """Opens transactions for transactional tasks."""

    def begin(self, claim: Claim, *, plain: bool) -> AbstractAsyncContextManager[Transaction]:
        """Commits on exit, rolls back on an exception. `plain`: for a function in a thread."""

    def check_plain(self, task: str) -> None:
        """Raises SetupError if a function in a thread can't have one."""


@asynccontextmanager
async def surrounded(around: Sequence[Around], context: Context) -> AsyncIterator[None]:
    """Enters all of them around one attempt, the first outermost."""
    async with AsyncExitStack() as stack:
        for one in around:
            await stack.enter_async_context(one.running(context))
        yield
