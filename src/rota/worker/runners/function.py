"""Registered Python functions: async ones run on the event loop, the others in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from rota.errors import EndedByTaskError, SetupError
from rota.task.arguments import Arguments, ArgumentsError
from rota.task.context import Context, Final, NotBegunError, PlainError, Snooze, Transaction
from rota.task.middleware import Around, Transactions, surrounded
from rota.task.retry_rule import RetryRule, kinds_of

Box = list[tuple[Any, BaseException | None]]


class TaskEscapedError(Exception):
    """A function raised something that can't cross a thread: SystemExit, StopIteration, CancelledError."""


class _SnoozedError(Exception):
    """Rolls back the writes of a task that snoozes."""


class FunctionRunner:
    """Calls a function with the payload's fields as keyword arguments."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        threads: int,
        around: Sequence[Around] = (),
        transactional: Collection[str] = (),
        transactions: Transactions | None = None,
        rules: Mapping[str, RetryRule | None] | None = None,
    ) -> None:
        if transactional and transactions is None:
            raise SetupError(f"{', '.join(sorted(transactional))}: this worker's broker has no transactions to share")
        self._around = around
        self._transactional = frozenset(transactional)
        self._transactions = transactions
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="rota-task")
        known = rules or {}
        self._calls = {name: TaskFunction(function, known.get(name)) for name, function in functions.items()}
        for name in transactional:
            if transactions and not self._calls[name].is_async:
                transactions.check_plain(name)
        # Calls that have not returned; a process that must exit can't wait for them.
        self.stuck: set[Future[Any]] = set()

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._calls)

    async def run(self, task: str, payload: Any, context: Context) -> Any:
        """Calls the function; a synchronous one can be asked to stop but not made to."""
        call = self._calls[task]
        arguments = call.arguments(payload, context)
        if not self._around and task not in self._transactional:
            return await self._call(call, arguments, context)
        transactions = self._transactions if task in self._transactional else None
        # The transaction completes the run's own row at its end: nothing else may change that row meanwhile.
        context.quiet = transactions is not None
        async with surrounded(self._around, context):
            if transactions:
                return await self._in_transaction(transactions, call, arguments, context)
            return await self._call(call, arguments, context)
        if transactions and not context.recorded:
            raise PlainError("the task's transaction was rolled back: a middleware swallowed the exception")
        return None

    async def _call(self, call: TaskFunction, arguments: dict[str, Any], context: Context) -> Any:
        if call.is_async:
            context.begin()
        try:
            if call.is_async:
                return await call.function(**arguments)
            return await self._in_thread(call.function, arguments, context)
        except Exception as problem:
            if call.rule and not isinstance(problem, TaskEscapedError):
                context.is_final = call.rule.is_final(kinds_of(problem))
            raise

    async def _in_transaction(
        self, transactions: Transactions, call: TaskFunction, arguments: dict[str, Any], context: Context
    ) -> Any:
        """Commits the task's writes and the run's success together, or neither."""
        value: Any = None
        try:
            async with transactions.begin(context.claim, plain=not call.is_async) as transaction:
                context.attach_transaction(transaction)
                value = await self._attempt(call, arguments, context, transaction)
                if isinstance(value, Snooze):
                    raise _SnoozedError  # noqa: TRY301 - a snooze leaves no writes
                if context.must_not_succeed:
                    raise asyncio.CancelledError
                result, blob = (None, None) if value is None else await context.store_result(value)
                await transaction.complete(context.started, result, blob)
        except _SnoozedError:
            return value
        except EndedByTaskError as error:
            raise Final(str(error)) from error  # its writes may be committed: another attempt could repeat them
        finally:
            context.attach_transaction(None)
        context.recorded = True
        return value

    async def _attempt(
        self, call: TaskFunction, arguments: dict[str, Any], context: Context, transaction: Transaction
    ) -> Any:
        try:
            return await self._call(call, arguments, context)
        except Exception as problem:
            if transaction.is_over:
                raise EndedByTaskError from problem
            raise

    async def _in_thread(self, function: Callable[..., Any], arguments: dict[str, Any], context: Context) -> Any:
        # Outcomes come in a box: futures are part of reference cycles, and would keep what they carry alive.
        box: Box = []
        future = self._threads.submit(copy_context().run, _call, function, arguments, box, context)
        self.stuck.add(future)
        future.add_done_callback(self.stuck.discard)
        waiting = asyncio.wrap_future(future)
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                if future.cancel():
                    raise
                # The thread can't be stopped: it was asked to; wait for its outcome.
        waiting.result()
        value, problem = box.pop()
        if problem is None:
            return value
        try:
            if isinstance(problem, NotBegunError) or (
                isinstance(problem, Exception) and not isinstance(problem, StopIteration)
            ):
                raise problem
            raise TaskEscapedError(f"{type(problem).__name__}: {problem}") from problem
        finally:
            # The traceback holds this frame: if the frame held the error, both would stay alive.
            del problem


def _call(function: Callable[..., Any], arguments: dict[str, Any], box: Box, context: Context) -> None:
    """Runs in the thread. Exceptions come back as values, because some can't pass through a future."""
    try:
        # The timeout counts from here, not from when it waited for a thread; and a process that was paused can wake up
        # here, with a lease that is over.
        context.begin()
        box.append((function(**arguments), None))
    except BaseException as problem:  # noqa: BLE001 - it is the outcome, and goes to the caller
        box.append((None, problem))


class TaskFunction:
    """A function and how to call it."""

    def __init__(self, function: Callable[..., Any], rule: RetryRule | None = None) -> None:
        self.function = function
        self.rule = rule
        self.is_async = inspect.iscoroutinefunction(function)
        self._arguments = Arguments(function)

    def arguments(self, payload: Any, context: Context) -> dict[str, Any]:
        """The keyword arguments for one call; raises Final when the payload does not fit."""
        try:
            arguments = self._arguments.decode(payload)
        except ArgumentsError as error:
            raise Final(f"the payload does not fit the task's parameters: {error}") from None
        if self._arguments.context_name:
            arguments[self._arguments.context_name] = context
        return arguments
