"""Submits tasks and returns handles of runs and jobs. sender_sync.py is generated from this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from rota.clock import Deadline
from rota.contract.jobs import Submitted
from rota.domain.durations import Duration, seconds_of
from rota.domain.rights import Caller
from rota.errors import RotaError
from rota.gateway.protocol import RunSnapshot
from rota.gateway.transaction import given_connection, submit_within
from rota.sdk.call import (
    NOTHING,
    NOW,
    Call,
    Plan,
    When,
    after_delay,
    at_time,
    check_calls,
    longest_patience,
    recurring,
    seal,
)

# async only
from rota.sdk.nodes import MapCounts, Node, map_of, node_of

# end of async only
from rota.sdk.options import Calendar, SubmitOptions, known_options
from rota.sdk.results import WAIT_SECONDS, NotAcceptedError, value_of

# async only
from rota.sdk.sender_sync import SyncRecurrence, SyncSender

# end of async only

if TYPE_CHECKING:
    from rota.sdk.app import App
    from rota.sdk.task import Task

P = ParamSpec("P")
R = TypeVar("R")


class Run(Generic[R]):
    """A submitted run."""

    def __init__(self, task: Task[..., R], answer: Submitted) -> None:
        self._task = task
        self.job_id = answer.job_id
        self.id = answer.run_id or ""
        self.is_duplicate = bool(answer.duplicate)

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self._task.name}>"

    async def result(self, timeout: Duration | None = None) -> R:
        """Waits for the task's return value; raises TimeoutError, or RunFailedError if the run did not succeed."""
        deadline = Deadline(None if timeout is None else seconds_of(timeout))
        while True:
            outcome = await self._look(deadline.within(WAIT_SECONDS))
            if outcome.ended:
                return value_of(self._task, self.id, outcome)
            if deadline.is_over:
                raise TimeoutError(f"{self.id} has not ended within {deadline.seconds:g} s; it is {outcome.status}")

    async def status(self) -> str:
        """Its status: scheduled, blocked, queued, running, retrying, success, failed, cancelled, skipped."""
        return (await self._look(0)).status

    async def cancel(self) -> None:
        """Cancels it, or asks it to stop if it is running."""
        await self._task.app.gateways.open_async().cancel(self.id)

    async def _look(self, seconds: float) -> RunSnapshot:
        return await self._task.app.gateways.open_async().look(self.id, seconds)


class Job:
    """A submitted job with a schedule. Change, pause or cancel it with a client, by its id."""

    def __init__(self, task: Task[..., Any], answer: Submitted) -> None:
        self._task = task
        self.id = answer.job_id
        self.is_duplicate = bool(answer.duplicate)

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self._task.name}>"


class Sender(Generic[P, R]):
    """A task with options and a time: `.submit(...)` takes the task's own arguments."""

    def __init__(
        self, task: Task[P, R], when: When = NOW, options: Mapping[str, Any] = NOTHING, connection: Any = None
    ) -> None:
        self._task = task
        self._when = when
        self._options = options
        self._connection = connection
        self._plan_made: Plan | None = None

    @property
    def _plan(self) -> Plan:
        if self._plan_made is None:
            self._plan_made = Plan(self._task, self._when, self._options)
        return self._plan_made

    # async only
    @property
    def sync(self) -> SyncSender[P, R]:
        """The same for code that can't await."""
        return SyncSender(self._task, self._when, self._options, self._connection)

    # end of async only

    def with_options(self, **options: Unpack[SubmitOptions]) -> Sender[P, R]:
        """Adds options: retries, timeout, priority, keys, …"""
        return self._changed(options={**self._options, **known_options(options)})

    def within(self, connection: Any) -> Sender[P, R]:
        """Submits in the open transaction of a connection or session: the job appears on commit."""
        return self._changed(connection=given_connection(connection))

    def at(self, when: datetime) -> Sender[P, R]:
        """Runs at a time, which must have a time zone."""
        return self._changed(when=at_time(when))

    def after(self, delay: Duration) -> Sender[P, R]:
        """Runs after a delay: seconds, a timedelta or "15m"."""
        return self._changed(when=after_delay(delay))

    def every(self, interval: Duration, **calendar: Unpack[Calendar]) -> Recurrence[P]:
        """Runs at an interval, from now on."""
        when = recurring(calendar, every=interval)
        return Recurrence(self._task, when, self._options, self._connection)

    def cron(self, expression: str, **calendar: Unpack[Calendar]) -> Recurrence[P]:
        """Runs on a cron expression: 5 fields, or 6 with seconds first."""
        when = recurring(calendar, cron=expression)
        return Recurrence(self._task, when, self._options, self._connection)

    # async only
    def node(self, *arguments: P.args, **keywords: P.kwargs) -> Node[R]:
        """A node of the workflow whose `with` block this is in: it runs the task with these arguments.

        An argument can be another node, or a part of its result (`rows["count"]`): this node then runs after it.
        """
        return node_of(self._task, self._options, arguments, keywords)

    def map(
        self,
        items: Any,
        /,
        *,
        max_concurrency: int | None = None,
        tolerate_failures: int | str | None = None,
        stop_on_failure: bool | None = None,
        arguments: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Node[MapCounts]:
        """A node that runs the task once per item of a list, of a node's result, or of `flow.object(…)`.

        The item goes to the only parameter that is left, or to where `rota.item` or `rota.item["path"]` stands among
        the arguments. `arguments` has those whose names are options of `map` itself.
        """
        limits = {
            "max_concurrency": max_concurrency,
            "tolerate_failures": tolerate_failures,
            "stop_on_failure": stop_on_failure,
        }
        return map_of(self._task, self._options, items, limits, {**(arguments or {}), **keywords})

    # end of async only

    def call(self, *arguments: P.args, **keywords: P.kwargs) -> Call[R]:
        """The task with these arguments, for `submit_many`."""
        return Call(self._plan, arguments, keywords)

    async def submit(self, *arguments: P.args, **keywords: P.kwargs) -> Run[R]:
        """Submits it with these arguments; raises a RotaError if it is not accepted.

        If no server takes it in time, `submit_many(error.to_repeat)` repeats the call with its key.
        """
        call = Call[R](self._plan, arguments, keywords)
        return Run(self._task, await _send_one(call, self._connection))

    async def submit_many(self, calls: Iterable[Call[R]]) -> list[Run[R]]:
        """Submits many calls at once. If some are not accepted, the others are, and NotAcceptedError lists all.

        Calls that no server takes in time are in `error.to_repeat` with their keys: to submit these again makes no job
        twice.
        """
        wanted = list(calls)
        check_calls(wanted)
        answers = await _send(self._task, wanted, self._connection, self._options.get("patience"))
        runs = [
            answer if isinstance(answer, RotaError) else Run(call.task, answer)
            for call, answer in zip(wanted, answers, strict=True)
        ]
        accepted = [run for run in runs if isinstance(run, Run)]
        if len(accepted) < len(runs):
            raise NotAcceptedError(runs)
        return accepted

    def _changed(
        self, *, when: When | None = None, options: Mapping[str, Any] | None = None, connection: Any = None
    ) -> Sender[P, R]:
        return Sender(
            self._task,
            self._when if when is None else when,
            self._options if options is None else options,
            self._connection if connection is None else connection,
        )


class Recurrence(Generic[P]):
    """A task with a schedule: `.submit(...)` takes the task's own arguments, the same for each of its runs."""

    def __init__(self, task: Task[P, Any], when: When, options: Mapping[str, Any], connection: Any) -> None:
        self._task = task
        self._when = when
        self._options = options
        self._connection = connection

    # async only
    @property
    def sync(self) -> SyncRecurrence[P]:
        """The same for code that can't await."""
        return SyncRecurrence(self._task, self._when, self._options, self._connection)

    # end of async only

    def with_options(self, **options: Unpack[SubmitOptions]) -> Recurrence[P]:
        """Adds options."""
        return Recurrence(self._task, self._when, {**self._options, **known_options(options)}, self._connection)

    def within(self, connection: Any) -> Recurrence[P]:
        """Submits in the open transaction of a connection or session."""
        return Recurrence(self._task, self._when, self._options, given_connection(connection))

    async def submit(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Submits it with these arguments."""
        call = Call[Any](Plan(self._task, self._when, self._options), arguments, keywords)
        return Job(self._task, await _send_one(call, self._connection))


async def _send(
    task: Task[..., Any], calls: Sequence[Call[Any]], connection: Any, patience: Duration | None = None
) -> Sequence[Submitted | RotaError]:
    with task.app.submitting(calls):
        jobs = [call.finished() for call in calls]
        if connection is not None:
            app = task.app
            return await submit_within(connection, jobs, await _caller(app), app.now(), app.known_functions)
        gateway = task.app.gateways.open_async(longest_patience(calls, patience))
        try:
            answers = await gateway.submit(jobs)
        except RotaError as error:
            seal(calls, error)
            raise
    for call, answer in zip(calls, answers, strict=True):
        if isinstance(answer, RotaError):
            seal([call], answer)
    return answers


async def _send_one(call: Call[Any], connection: Any) -> Submitted:
    (answer,) = await _send(call.task, [call], connection)
    if isinstance(answer, RotaError):
        raise answer
    return answer


async def _caller(app: App) -> Caller:
    """The current run's caller, else the application's."""
    gateway = app.gateways.of_run_async()
    known = await gateway.caller() if gateway else None
    return Caller(*known) if known else app.caller
