"""The whole API as methods. Unless a docstring says otherwise, calls are safe to repeat and are retried.

"Not retried once sent" means: a request that may have arrived is not sent again, because a repeat could act twice.

Every method raises AnswerError when the server refuses (see its `status`: 404, 409, …) and ServerUnreachableError when
no server can be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Unpack
from urllib.parse import quote

from rota.client.answers import read_answer
from rota.client.async_observing import AsyncObservingCalls
from rota.client.async_operations import AsyncOperationCalls
from rota.client.async_workflows import AsyncWorkflowCalls
from rota.client.bodies import (
    DeadLetterFilters,
    DestinationFields,
    EventFilters,
    JobChanges,
    JobFilters,
    LimitChanges,
    LogFilters,
    RunChoice,
    RunFilters,
    ScheduleFilters,
    changes_body,
    fields_of,
    limits_body,
)
from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.retries import Patience
from rota.clock import Deadline
from rota.contract.access import (
    AuditList,
    AuditOut,
    KeyCreated,
    KeyList,
    KeyOut,
    LimitsList,
    LimitsOut,
    RoleName,
    Sees,
    SessionOut,
)
from rota.contract.calendars import CalendarList, CalendarOut, CalendarSummary
from rota.contract.destinations import DeliveryList, DeliveryOut, DestinationList, DestinationOut, DestinationTest
from rota.contract.fields import Dst
from rota.contract.figures import FigureHistory, HistoryRange, PoolScale, RunFigures
from rota.contract.fleet import (
    EventList,
    EventOut,
    Health,
    PoolList,
    PoolOut,
    ShardList,
    ShardOut,
    Stats,
    WorkerList,
    WorkerOut,
)
from rota.contract.jobs import (
    JobCancelled,
    JobList,
    JobOut,
    JobStatusOut,
    RunStarted,
    ScheduleList,
    ScheduleOut,
    SchedulePreview,
)
from rota.contract.runs import (
    CountOut,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterList,
    DeadLetterOut,
    LogLine,
    LogList,
    LogMatch,
    LogUrl,
    RunCancelled,
    RunList,
    RunOut,
)
from rota.contract.tasks import TaskList, TaskOut
from rota.domain.business_days import OnExcludedDay
from rota.domain.run import ENDED_STATUSES

_PAGE_SIZE = 100
_WAIT_SECONDS = 20.0


class AsyncClient(AsyncOperationCalls, AsyncObservingCalls, AsyncWorkflowCalls):
    """The API, typed."""

    def jobs(self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[JobFilters]) -> AsyncIterator[JobOut]:
        """Jobs, latest first. Jobs that run once: of the last 24 hours, unless you give `start_time`."""
        return self._items(JobList, "/v1/jobs", filters, page_size)

    async def job(self, job_id: str) -> JobOut:
        """A job with its payload and next fire times."""
        return await self._ask(JobOut, "GET", _job(job_id), repeatable=True)

    async def job_status(self, job_id: str) -> JobStatusOut:
        """The status of a job's latest run."""
        return await self._ask(JobStatusOut, "GET", f"{_job(job_id)}/status", repeatable=True)

    async def change_job(self, job_id: str, *, if_match: int | None = None, **changes: Unpack[JobChanges]) -> JobOut:
        """Changes fields of a job, for all runs that have not started.

        With `if_match`, only if the job still has that version (else AnswerError with status 412); then it is not
        retried once sent.
        """
        return await self._ask(
            JobOut,
            "PUT",
            _job(job_id),
            body=changes_body(changes),
            headers=None if if_match is None else {"If-Match": f'"{if_match}"'},
            repeatable=if_match is None,
        )

    async def cancel_job(self, job_id: str, *, force: bool = False) -> JobCancelled:
        """Cancels a job and its waiting and running runs. A job that others depend on: only with `force`."""
        query = {"force": "true"} if force else None
        return await self._ask(JobCancelled, "DELETE", _job(job_id), query=query, repeatable=True)

    async def pause_job(self, job_id: str) -> JobOut:
        """Pauses a job and its waiting runs."""
        return await self._ask(JobOut, "POST", f"{_job(job_id)}/pause", repeatable=True)

    async def resume_job(self, job_id: str) -> JobOut:
        """Resumes a paused job."""
        return await self._ask(JobOut, "POST", f"{_job(job_id)}/resume", repeatable=True)

    async def run_job(self, job_id: str) -> RunStarted:
        """Runs a job now, outside its schedule. Not retried once sent."""
        return await self._ask(RunStarted, "POST", f"{_job(job_id)}/run")

    def runs_of_job(self, job_id: str, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[RunOut]:
        """The runs of a job, latest first."""
        return self._items(RunList, f"{_job(job_id)}/runs", {}, page_size)

    def runs(self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[RunFilters]) -> AsyncIterator[RunOut]:
        """Runs, latest first: of the last 24 hours, unless you give a time or status."""
        return self._items(RunList, "/v1/runs", filters, page_size)

    async def run(self, run_id: str) -> RunOut:
        """A run with its payload, result, attempts and timeline, and what it waits for."""
        return await self._ask(RunOut, "GET", _run(run_id), repeatable=True)

    async def wait(self, run_id: str, timeout: float | None = None) -> RunOut:
        """The run once it has ended; raises TimeoutError after `timeout` seconds. Tolerates a minute without server."""
        deadline, patience = Deadline(timeout), Patience()
        while True:
            # After a rejection the server may have too many waiting clients: don't wait in the next request.
            seconds = 0.0 if patience.lost else deadline.within(_WAIT_SECONDS)
            try:
                run = await self.look(run_id, seconds)
            except (ServerUnreachableError, AnswerError) as error:
                await asyncio.sleep(deadline.within(patience.pause_after(error)))
            else:
                if run.status in ENDED_STATUSES:
                    return run
                patience.begin_anew()
            if deadline.is_over:
                raise TimeoutError(f"{run_id} has not ended after {timeout:g} seconds")

    async def look(self, run_id: str, seconds: float, *, within: float | None = None) -> RunOut:
        """The run when it has ended, or after `seconds`. Not retried; `within` limits the whole call."""
        query = {"waitSeconds": f"{seconds:.3f}"}
        longer = seconds if within is None else within - self._timeout
        response = await self._send("GET", _run(run_id), query=query, retries=0, longer=longer)
        return read_answer(self.url, response, RunOut)

    async def cancel_run(self, run_id: str) -> RunCancelled:
        """Cancels a waiting run; asks the worker to stop a running one.

        AnswerError with status 409 if it has already ended, also if an earlier try of this call ended it.
        """
        return await self._ask(RunCancelled, "POST", f"{_run(run_id)}/cancel", repeatable=True)

    async def retry_run(self, run_id: str) -> RunStarted:
        """Runs an ended run again. Not retried once sent."""
        return await self._ask(RunStarted, "POST", f"{_run(run_id)}/retry")

    async def cancel_runs(self, **choice: Unpack[RunChoice]) -> int:
        """Cancels all matching unfinished runs; returns the count. Not retried once sent."""
        return (await self._ask(CountOut, "POST", "/v1/runs/cancel", body=fields_of(choice))).count

    async def log(self, run_id: str) -> str:
        """The log of a run: lines of time, stream and text."""
        return await self.read_text(f"{_run(run_id)}/logs")

    def follow_log(self, run_id: str) -> AsyncIterator[LogLine]:
        """The log lines of a run as they arrive, from its start to its end, each once.

        Reconnects; raises ServerUnreachableError if that takes longer than a minute.
        """
        return self._follow_log(f"{_run(run_id)}/logs")

    async def log_url(self, run_id: str) -> LogUrl:
        """A temporary URL of a log in object storage, without a token; status 404 if there is none."""
        return await self._ask(LogUrl, "GET", f"{_run(run_id)}/logs", query={"url": "true"}, repeatable=True)

    async def job_log(self, job_id: str) -> str:
        """The log of a job's latest run; AnswerError with status 409 if it has not run yet."""
        return await self.read_text(f"{_job(job_id)}/logs")

    def follow_job_log(self, job_id: str) -> AsyncIterator[LogLine]:
        """As `follow_log`, for the run that is now a job's latest."""
        return self._follow_log(f"{_job(job_id)}/logs")

    async def job_log_url(self, job_id: str) -> LogUrl:
        """As `log_url`, for a job's latest run."""
        return await self._ask(LogUrl, "GET", f"{_job(job_id)}/logs", query={"url": "true"}, repeatable=True)

    def follow_logs(self, **filters: Unpack[LogFilters]) -> AsyncIterator[LogLine]:
        """The log lines of all runs that the caller may see and the filters let through, as they arrive from now on,
        without an end.

        Reconnects for ever. Lines that are written while it is not connected may be missed.
        """
        return self._follow_logs(filters)

    def search_logs(
        self,
        text: str,
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        run_id: str | None = None,
        context: int | None = None,
        page_size: int = _PAGE_SIZE,
        **filters: Unpack[LogFilters],
    ) -> AsyncIterator[LogMatch]:
        """Log lines that contain a text, ignoring case, latest runs first; with `context` lines before and after."""
        wanted = {"search": text, "start_time": start_time, "end_time": end_time, "run_id": run_id, "context": context}
        return self._items(LogList, "/v1/logs", {**wanted, **filters}, page_size)

    def dead_letters(
        self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[DeadLetterFilters]
    ) -> AsyncIterator[DeadLetterOut]:
        """Dead letters, latest first."""
        return self._items(DeadLetterList, "/v1/dead-letters", filters, page_size)

    async def dead_letter_groups(self) -> list[DeadLetterGroup]:
        """Counts of dead letters by task and kind of error."""
        return (await self._ask(DeadLetterGroups, "GET", "/v1/dead-letters/groups", repeatable=True)).items

    async def redrive(
        self,
        run_ids: Sequence[str] | None = None,
        *,
        everything: bool = False,
        most: int | None = None,
        **filters: Unpack[DeadLetterFilters],
    ) -> int:
        """Runs dead letters again: these, all that match, or everything, up to `most`; returns the count.

        Not retried once sent: a repeat would also run those that failed again meanwhile.
        """
        body = fields_of({"run_ids": run_ids, "all": everything or None, "most": most, **filters})
        return (await self._ask(CountOut, "POST", "/v1/dead-letters/redrive", body=body)).count

    async def discard(
        self,
        run_ids: Sequence[str] | None = None,
        *,
        everything: bool = False,
        most: int | None = None,
        **filters: Unpack[DeadLetterFilters],
    ) -> int:
        """Forgets dead letters: these, all that match, or everything, up to `most`; returns the count. The runs stay.

        Not retried once sent: a repeat could discard newer failures.
        """
        body = fields_of({"run_ids": run_ids, "all": everything or None, "most": most, **filters})
        return (await self._ask(CountOut, "POST", "/v1/dead-letters/discard", body=body)).count

    async def workers(self) -> list[WorkerOut]:
        """Live workers, and those gone within the last hour."""
        return (await self._ask(WorkerList, "GET", "/v1/workers", repeatable=True)).items

    def tasks(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[TaskOut]:
        """The tasks that workers know, by name, with their parameters and defaults."""
        return self._items(TaskList, "/v1/tasks", {}, page_size)

    async def task(self, name: str) -> TaskOut:
        """A task with its parameters and defaults."""
        return await self._ask(TaskOut, "GET", f"/v1/tasks/{quote(name, safe='')}", repeatable=True)

    async def shards(self) -> list[ShardOut]:
        """The shards and their schedulers."""
        return (await self._ask(ShardList, "GET", "/v1/shards", repeatable=True)).items

    async def pools(self) -> list[PoolOut]:
        """The pools with their workers, status and backlog limit."""
        return (await self._ask(PoolList, "GET", "/v1/pools", repeatable=True)).items

    async def stats(self, window_seconds: int = 60) -> Stats:
        """Counts, rates and lags; rates and lags cover the last `window_seconds`, 10 to 600."""
        return await self._ask(Stats, "GET", "/v1/stats", query={"windowSeconds": window_seconds}, repeatable=True)

    async def stats_history(
        self, back: HistoryRange = "1h", *, pool: str | None = None, task: str | None = None
    ) -> FigureHistory:
        """The six figures over time, so far `back`: of the namespace, of one pool, or of one task."""
        query = {"range": back, "pool": pool, "task": task}
        return await self._ask(FigureHistory, "GET", "/v1/stats/history", query=query, repeatable=True)

    async def task_stats(self, name: str) -> RunFigures:
        """Success rate, durations and retry rate of a task's latest 100 runs, and these runs."""
        return await self._ask(RunFigures, "GET", f"/v1/tasks/{quote(name, safe='')}/stats", repeatable=True)

    async def job_stats(self, job_id: str) -> RunFigures:
        """Success rate, durations and retry rate of a job's latest 100 runs, and these runs."""
        return await self._ask(RunFigures, "GET", f"{_job(job_id)}/stats", repeatable=True)

    async def pool_scale(
        self,
        pool: str,
        *,
        target_lag_seconds: float = 5.0,
        slots_per_worker: int | None = None,
        min_workers: int = 0,
        max_workers: int | None = None,
        hold_seconds: float = 120.0,
    ) -> PoolScale:
        """How many workers a pool needs to start its runs within the target lag."""
        query = {
            "targetLagSeconds": target_lag_seconds,
            "slotsPerWorker": slots_per_worker,
            "min": min_workers,
            "max": max_workers,
            "holdSeconds": hold_seconds,
        }
        return await self._ask(PoolScale, "GET", f"{_pool(pool)}/scale", query=query, repeatable=True)

    async def limit_pool(self, pool: str, most_waiting: int | None) -> PoolOut:
        """Limits the backlog of a pool; None: no limit."""
        return await self._ask(PoolOut, "PUT", _pool(pool), body={"mostWaiting": most_waiting}, repeatable=True)

    async def pause_pool(self, pool: str) -> PoolOut:
        """Starts no more runs from the pool; running ones continue."""
        return await self._ask(PoolOut, "POST", f"{_pool(pool)}/pause", repeatable=True)

    async def resume_pool(self, pool: str) -> PoolOut:
        """Resumes a paused pool."""
        return await self._ask(PoolOut, "POST", f"{_pool(pool)}/resume", repeatable=True)

    async def create_key(
        self,
        name: str,
        role: RoleName,
        *,
        owner: str | None = None,
        sees: Sees = "own",
        scopes: Sequence[str] | None = None,
        everywhere: bool = False,
        expires_time: datetime | None = None,
        expires_seconds: float | None = None,
    ) -> KeyCreated:
        """Makes a key for the namespace; its `key` is shown only once. Not retried once sent."""
        given = {
            "name": name,
            "role": role,
            "owner": owner,
            "sees": sees,
            "scopes": scopes,
            "everywhere": everywhere,
            "expires_time": expires_time,
            "expires_seconds": expires_seconds,
        }
        return await self._ask(KeyCreated, "POST", "/v1/keys", body=fields_of(given))

    def api_keys(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[KeyOut]:
        """Keys of the namespace, latest first, without their secrets."""
        return self._items(KeyList, "/v1/keys", {}, page_size)

    async def revoke_key(self, key_id: str) -> KeyOut:
        """Revokes a key: once this returns, no server accepts it."""
        return await self._ask(KeyOut, "DELETE", f"/v1/keys/{quote(key_id, safe='')}", repeatable=True)

    async def who_am_i(self) -> SessionOut:
        """The token's owner and rights."""
        return await self._ask(SessionOut, "GET", "/v1/session", repeatable=True)

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        about: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = _PAGE_SIZE,
    ) -> AsyncIterator[AuditOut]:
        """Audit entries, latest first; `about` is the id or name of the object."""
        times = {"start_time": start_time, "end_time": end_time}
        filters = {"actor": actor, "action": action, "object": about, **times}
        return self._items(AuditList, "/v1/audit", filters, page_size)

    def limits(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[LimitsOut]:
        """Limits of the namespace and of its owners and keys, with what is left."""
        return self._items(LimitsList, "/v1/limits", {}, page_size)

    async def set_limits(self, subject: str | None = None, **changes: Unpack[LimitChanges]) -> LimitsOut:
        """Changes limits of a key or owner, or of the whole namespace; None removes a limit."""
        path = "/v1/limits" if subject is None else f"/v1/limits/{quote(subject, safe='')}"
        return await self._ask(LimitsOut, "PUT", path, body=limits_body(changes), repeatable=True)

    def schedules(
        self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[ScheduleFilters]
    ) -> AsyncIterator[ScheduleOut]:
        """Recurring jobs with their next fire times and latest runs, latest made first."""
        return self._items(ScheduleList, "/v1/schedules", filters, page_size)

    async def preview(
        self,
        cron: str | None = None,
        *,
        every: float | timedelta | None = None,
        timezone: str | None = None,
        dst: Dst | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        exclude_calendars: Sequence[str] | None = None,
        exclude_weekends: bool | None = None,
        on_excluded_day: OnExcludedDay | None = None,
        job_id: str | None = None,
        after: datetime | None = None,
        count: int | None = None,
    ) -> SchedulePreview:
        """The next fire times of a schedule, and its description."""
        given = {
            "cron_expression": cron,
            "every_seconds": every.total_seconds() if isinstance(every, timedelta) else every,
            "timezone": timezone,
            "dst": dst,
            "start_time": start_time,
            "end_time": end_time,
            "exclude_calendars": exclude_calendars,
            "exclude_weekends": exclude_weekends,
            "on_excluded_day": on_excluded_day,
            "job_id": job_id,
            "after": after,
            "count": count,
        }
        path = "/v1/schedules/preview"
        return await self._ask(SchedulePreview, "POST", path, body=fields_of(given), repeatable=True)

    def calendars(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[CalendarSummary]:
        """Business calendars by name, without their days."""
        return self._items(CalendarList, "/v1/calendars", {}, page_size)

    async def calendar(self, name: str) -> CalendarOut:
        """A business calendar with its days."""
        return await self._ask(CalendarOut, "GET", f"/v1/calendars/{quote(name, safe='')}")

    async def put_calendar(
        self, name: str, days: Iterable[date] | None = None, *, icalendar: str | None = None
    ) -> CalendarOut:
        """Creates a calendar or replaces its days, given as dates or as an iCalendar text."""
        body = fields_of({"days": None if days is None else list(days), "icalendar": icalendar})
        path = f"/v1/calendars/{quote(name, safe='')}"
        return await self._ask(CalendarOut, "PUT", path, body=body, repeatable=True)

    async def delete_calendar(self, name: str) -> CalendarOut:
        """Deletes a calendar that no schedule names."""
        return await self._ask(CalendarOut, "DELETE", f"/v1/calendars/{quote(name, safe='')}")

    def events(self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[EventFilters]) -> AsyncIterator[EventOut]:
        """What happened, latest first. A `kind` with a dot at its end stands for all that begin so."""
        return self._items(EventList, "/v1/events", filters, page_size)

    def follow_events(
        self, after: int | None = None, *, kind: str | None = None, subject: str | None = None
    ) -> AsyncIterator[EventOut]:
        """What happens, in order, without an end, each once.

        Starts after the event with the number `after`, or now. Reconnects for ever and misses nothing.
        """
        return self._follow_events(after, kind, subject)

    def destinations(self, *, everywhere: bool = False, page_size: int = _PAGE_SIZE) -> AsyncIterator[DestinationOut]:
        """Destinations by name; `everywhere`: those of the whole installation."""
        return self._items(DestinationList, "/v1/destinations", _place(everywhere), page_size)

    async def destination(self, name: str, *, everywhere: bool = False) -> DestinationOut:
        """A destination without what is secret of it."""
        return await self._ask(DestinationOut, "GET", _destination(name), query=_place(everywhere))

    async def put_destination(
        self, name: str, *, everywhere: bool = False, **fields: Unpack[DestinationFields]
    ) -> DestinationOut:
        """Creates or changes a destination. A secret that is made is in this answer alone: not retried once sent."""
        path = _destination(name)
        return await self._ask(DestinationOut, "PUT", path, query=_place(everywhere), body=fields_of(fields))

    async def delete_destination(self, name: str, *, everywhere: bool = False) -> DestinationOut:
        """Deletes a destination, with what waited to be sent to it."""
        return await self._ask(DestinationOut, "DELETE", _destination(name), query=_place(everywhere))

    async def rotate_destination(self, name: str, *, everywhere: bool = False) -> DestinationOut:
        """Gives a webhook a new secret, which is in this answer alone. Not retried once sent."""
        return await self._ask(DestinationOut, "POST", f"{_destination(name)}/rotate", query=_place(everywhere))

    async def test_destination(self, name: str, *, everywhere: bool = False) -> DestinationTest:
        """Sends a test message and says how that went. Not retried once sent."""
        return await self._ask(DestinationTest, "POST", f"{_destination(name)}/test", query=_place(everywhere))

    def deliveries(
        self, name: str, *, everywhere: bool = False, page_size: int = _PAGE_SIZE
    ) -> AsyncIterator[DeliveryOut]:
        """What was sent to a destination, or waits to be, latest event first."""
        return self._items(DeliveryList, f"{_destination(name)}/deliveries", _place(everywhere), page_size)

    async def is_ready(self) -> bool:
        """Whether the server and its database answer; not retried."""
        return await self._is_well("/readyz")

    async def is_alive(self) -> bool:
        """Whether the server answers; not retried."""
        return await self._is_well("/healthz")

    async def _is_well(self, path: str) -> bool:
        try:
            read_answer(self.url, await self._send("GET", path, retries=0), Health)
        except (ServerUnreachableError, AnswerError):
            return False
        return True


def _destination(name: str) -> str:
    return f"/v1/destinations/{quote(name, safe='')}"


def _place(everywhere: bool) -> dict[str, str]:
    return {"everywhere": "true"} if everywhere else {}


def _job(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _run(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"


def _pool(pool: str) -> str:
    return f"/v1/pools/{quote(pool, safe='')}"
