"""Middleware: what surrounds submissions and runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rota.sdk.call import Call
from rota.task.context import Context


class Middleware:
    """Override what you need. Both are context managers: what the code inside raises goes through them."""

    @contextmanager
    def submitting(self, call: Call[Any]) -> Iterator[None]:  # noqa: ARG002 - for those who override it
        """Around a submission, in the program that submits. What is put into `call.headers` travels with the run."""
        yield

    @asynccontextmanager
    async def running(self, context: Context) -> AsyncIterator[None]:  # noqa: ARG002 - for those who override it
        """Around one attempt, in the process that runs it; `context.headers` has what came along. Context variables
        that are set here are seen by the task, in its thread as well."""
        yield
