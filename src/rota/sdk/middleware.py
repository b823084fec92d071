"""Middleware around submissions and runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rota.sdk.call import Call
from rota.task.context import Context


class Middleware:
    """Override what you need. Both methods are context managers, and see the errors raised inside."""

    @contextmanager
    def submitting(self, call: Call[Any]) -> Iterator[None]:  # noqa: ARG002 - for those who override it
        """Around a submission, in the submitting program. Headers in `call.headers` travel with the run."""
        yield

    @asynccontextmanager
    async def running(self, context: Context) -> AsyncIterator[None]:  # noqa: ARG002 - for those who override it
        """Around an attempt, in the process that runs it; `context.headers` has the headers of the submission.

        The task sees context variables that are set here, also in a thread.
        """
        yield
