"""The kit: an application on its own engine, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from rota.contract.jobs import Submitted
from rota.contract.workflows import WorkflowRunOut
from rota.domain.ids import show_workflow_run
from rota.domain.job import show_job_of
from rota.domain.rights import Caller
from rota.domain.run import Outcome
from rota.errors import BadInputError, RotaError, SetupError
from rota.sdk.app import App
from rota.sdk.gateways import Gateways
from rota.sdk.task import Task
from rota.sdk.workflow import Workflow
from rota.sdk.workflow_runs import WorkflowRun
from rota.sdk.workflow_runs_sync import SyncWorkflowRun
from rota.task.arguments import encode
from rota.testing.assertions import matches, name_of, tell_failures, tell_found, tell_missing
from rota.testing.engine import Engine
from rota.testing.kit_gateway import KitGateway, SyncKitGateway
from rota.testing.records import RunRecord, Submission, run_of, submission_of

AnyTask = Task[..., Any] | str
_OPERATOR = "operator"
_FAILED = (Outcome.failed, Outcome.final, Outcome.timed_out)


class Kit:
    """Runs due jobs and moves time, only when called.

    Call it in the event loop that opened it. Runs start one after the other: in order of time, then of priority, then
    of submission. Calls that run jobs return the ended runs in the order in which they started.
    """

    def __init__(self, engine: Engine, database_url: str) -> None:
        self.database_url = database_url
        self._engine = engine
        self._bindings = ExitStack()
        self._bindings.enter_context(_barred())
        self._known: set[UUID] = set()  # ended runs already returned
        self._submitted: dict[str, int] = {}  # their order: many have the same time

    # Time

    @property
    def now(self) -> datetime:
        """The time in UTC, until the test moves it."""
        return self._engine.clock.now_datetime()

    async def travel_to(self, moment: datetime) -> None:
        """Sets the time, forward or back, at the start of a test; raises SetupError once there are jobs."""
        _check_zone(moment)
        if not (await self._engine.fetch("is_untouched"))[0][0]:
            words = "travel_to() is for the start of a test: there are jobs already, and it would skip their due times."
            raise SetupError(f"{words} Use advance_to().")
        await self._engine.set_clock(moment)

    async def advance(
        self,
        by: timedelta = timedelta(0),
        /,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> list[RunRecord]:
        """Moves time. Everything that becomes due on the way runs on time, retries included."""
        way = by + timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        return await self.advance_to(self.now + way)

    async def advance_to(self, moment: datetime) -> list[RunRecord]:
        """Moves time to this moment, as `advance`."""
        _check_zone(moment)
        if moment < self.now:
            raise BadInputError(f"time can't go back: it is {self.now.isoformat()}", field="moment")
        await self._engine.advance(moment)
        await self._engine.settle()
        return await self._newly_ended()

    # Running

    async def run_until_idle(self, *, retries: bool = False, raise_errors: bool = False) -> list[RunRecord]:
        """Runs everything that is due now, and what that submits, until nothing is left.

        A failed attempt waits for its backoff; with `retries=True` time moves far enough for all retries. With
        `raise_errors=True` it raises AssertionError with the tracebacks if a run failed.
        """
        moments = await self._engine.settle()
        while retries and moments.retry_at:
            await self._engine.advance(moments.retry_at)
            moments = await self._engine.settle()
        ended = await self._newly_ended()
        if raise_errors:
            await self.assert_no_failures()
        return ended

    # Looking

    async def runs(self, task: AnyTask | None = None, *, status: str | None = None) -> list[RunRecord]:
        """All runs, ended or waiting, in order of time."""
        return await self._read_runs(None, _name(task), status)

    async def workflow_runs(
        self, workflow: Workflow | str | None = None, *, status: str | None = None
    ) -> list[WorkflowRunOut]:
        """Workflow runs with their nodes, in the order of their start."""
        name = workflow if workflow is None or isinstance(workflow, str) else workflow.name
        rows = await self._engine.fetch("workflow_runs_in_test", name=name, status=status)
        workflows = self._engine.gateway.workflows
        return [
            await workflows.show_run(show_workflow_run(row["id"]), Caller(row["namespace"], row["owner"]))
            for row in rows
        ]

    async def approve(
        self, run: WorkflowRun | SyncWorkflowRun | str, node: str, *, by: str | None = None, comment: str | None = None
    ) -> None:
        """Approves what a node waits for, as the person `by`; as an operator if not given."""
        await self._decide(run, node, by, comment, approve=True)

    async def reject(
        self, run: WorkflowRun | SyncWorkflowRun | str, node: str, *, by: str | None = None, comment: str | None = None
    ) -> None:
        """Rejects what a node waits for, as `approve`."""
        await self._decide(run, node, by, comment, approve=False)

    async def _decide(
        self,
        run: WorkflowRun | SyncWorkflowRun | str,
        node: str,
        by: str | None,
        comment: str | None,
        *,
        approve: bool,
    ) -> None:
        run_id = run if isinstance(run, str) else run.id
        (found,) = [
            one
            for one in await self._engine.fetch("workflow_runs_in_test", name=None, status=None)
            if show_workflow_run(one["id"]) == run_id
        ]
        await self._engine.gateway.workflows.decide(
            run_id,
            node,
            Caller(found["namespace"], by or _OPERATOR),
            only=by,
            approve=approve,
            comment=comment,
        )

    async def failures(self) -> list[RunRecord]:
        """Runs that failed for good or wait for a retry (`retrying`), with errors and tracebacks."""
        found = await self._read_runs(None, None, None)
        return [run for run in found if run.status == "failed" or (run.status == "retrying" and run.error)]

    async def submitted(self, task: AnyTask | None = None) -> list[Submission]:
        """All submissions in order, without schedules declared in code."""
        rows = await self._engine.fetch("read_submissions", task=_name(task))
        last = len(self._submitted)
        rows.sort(key=lambda row: (row["created_at"], self._submitted.get(_shown_id(row), last), row["job_id"]))
        return [submission_of(row, await self._text(row["payload"], row["payload_blob"])) for row in rows]

    async def assert_submitted(
        self, task: AnyTask, /, *, count: int | None = None, **arguments: Any
    ) -> list[Submission]:
        """Asserts that the task was submitted with at least these arguments, at least once or `count` times.

        Returns the matching submissions.
        """
        everything = await self.submitted()
        found = [one for one in everything if matches(one, task, arguments)]
        if count is None and not found:
            raise AssertionError(tell_missing(task, arguments, everything))
        if count is not None and len(found) != count:
            raise AssertionError(tell_missing(task, arguments, everything, count=count, found=len(found)))
        return found

    async def assert_not_submitted(self, task: AnyTask, /, **arguments: Any) -> None:
        """Asserts that the task was never submitted with these arguments."""
        if found := [one for one in await self.submitted() if matches(one, task, arguments)]:
            raise AssertionError(tell_found(task, arguments, found))

    async def assert_no_failures(self) -> None:
        """Asserts that no run failed or waits for a retry; shows the tracebacks."""
        if failures := await self.failures():
            raise AssertionError(tell_failures(failures))

    # Surroundings

    async def put_object(self, name: str, items: Iterable[Any], *, namespace: str = "default") -> None:
        """Puts an object into the test's storage, with one item per line, for a map over `flow.object(name)`."""
        await self._engine.blobs.put(f"inputs/{namespace}/{name}", b"".join(encode(item) + b"\n" for item in items))

    async def use(self, app: App) -> None:
        """Serves an application: runs its tasks, takes its submissions and, from the next call, its schedules."""
        outside = self._engine.gateway.for_caller(app.caller)
        engine = self._engine
        gateway = KitGateway(
            outside,
            settle=engine.settle,
            status_ahead=engine.status_ahead,
            note=self._note,
            declare=engine.declare,
        )
        self._bindings.enter_context(app.using(gateway, SyncKitGateway(gateway), self._engine.clock.now_datetime))
        await self._engine.use(app)

    def limit(self, *, patience_seconds: float | None = None, most_runs: int | None = None) -> None:
        """Sets how long a run can take while nothing else happens, and how many runs one call can make."""
        self._engine.patience_seconds = patience_seconds or self._engine.patience_seconds
        self._engine.most_runs = most_runs or self._engine.most_runs

    def errors(self) -> list[str]:
        """The tracebacks of all failed attempts, with their tasks; can be called from any thread."""
        failed = [report for report in self._engine.reports if report.outcome in _FAILED]
        return [f"{report.claim.task}: {report.traceback or report.error}" for report in failed]

    def unbind(self) -> None:
        """Restores the applications' own gateways."""
        self._bindings.close()

    def _note(self, answers: Iterable[Submitted | RotaError]) -> None:
        for answer in answers:
            if isinstance(answer, Submitted):
                self._submitted.setdefault(answer.job_id, len(self._submitted))

    async def _newly_ended(self) -> list[RunRecord]:
        ended = {row["id"] for row in await self._engine.fetch("finished_in_test")} - self._known
        self._known |= ended
        return await self._read_runs(list(ended), None, None) if ended else []

    async def _read_runs(self, ids: Sequence[UUID] | None, task: str | None, status: str | None) -> list[RunRecord]:
        rows = await self._engine.fetch("read_runs", ids=ids, task=task, status=status)
        turns = self._engine.turns
        last = len(turns)
        rows.sort(
            key=lambda row: (
                row["started_at"] or row["run_at"],
                turns.get(row["claim"], last),
                row["job_id"],
                row["id"],
            )
        )
        return [
            run_of(
                row,
                await self._text(row["payload"], row["payload_blob"]),
                await self._text(row["result"], row["result_blob"]),
            )
            for row in rows
        ]

    async def _text(self, text: str | None, blob: str | None) -> str | None:
        return (await self._engine.blobs.get(blob)).decode() if blob else text


@asynccontextmanager
async def running(*apps: App, database_url: str) -> AsyncIterator[Kit]:
    """A kit for these applications, on a database of `databases()` or of the fixture `rota_database_url`."""
    moment = datetime.now(UTC).replace(microsecond=0)
    async with Engine.open(database_url, moment) as engine:
        kit = Kit(engine, database_url)
        try:
            for app in apps:
                await kit.use(app)
            yield kit
        finally:
            kit.unbind()


def _shown_id(row: Any) -> str:
    return show_job_of(row["job_id"], row["options"])


def _name(task: AnyTask | None) -> str | None:
    return None if task is None else name_of(task)


def _check_zone(moment: datetime) -> None:
    if moment.tzinfo is None:
        raise BadInputError("the time has no time zone: use datetime(…, tzinfo=UTC), or ZoneInfo(…)", field="moment")


@contextmanager
def _barred() -> Iterator[None]:
    """Meanwhile applications that the kit does not serve can't submit."""
    before = Gateways.barred
    Gateways.barred = (
        "This application is not served by the test's kit, and a test must not submit to a server: name it "
        "(rota_app = module:app in pytest's configuration, or a fixture rota_app), or kit.use(app)."
    )
    try:
        yield
    finally:
        Gateways.barred = before
