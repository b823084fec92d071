# Made from src/rota/client/async_client.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""The whole API as methods. Where a docstring says nothing else, a call is safe to repeat and is repeated.

Every method raises AnswerError for what the server refuses (its `status` says why: 404, 409, …) and
ServerUnreachableError when no server can be reached.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack
from urllib.parse import quote

from rota.client._sync.transport import Calls
from rota.client.answers import read_answer
from rota.client.bodies import (
    DeadLetterFilters,
    JobChanges,
    JobFields,
    JobFilters,
    LimitChanges,
    NewJob,
    RunChoice,
    RunFilters,
    batches,
    changes_body,
    fields_of,
    job_body,
    limits_body,
    new_key,
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
from rota.contract.fields import Dst
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
    BatchOut,
    BatchResult,
    JobCancelled,
    JobIn,
    JobList,
    JobOut,
    JobStatusOut,
    RunStarted,
    SchedulePreview,
    Submitted,
)
from rota.contract.runs import (
    CountOut,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterList,
    DeadLetterOut,
    LogLine,
    LogList,
    LogUrl,
    RunCancelled,
    RunList,
    RunOut,
)
from rota.domain.run import ENDED_STATUSES

_PAGE_SIZE = 100
_WAIT_SECONDS = 20.0


class Client(Calls):
    """Everything the server can do, typed."""

    def submit(
        self,
        name: str,
        *,
        task: str | None = None,
        payload: Any = None,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        cron: str | None = None,
        every: float | timedelta | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> Submitted:
        """Submits a job: for now, `at` a time, `after` so many seconds, on a `cron` expression, or `every` so many.

        Repeated under an idempotency key, its own if none is given: there is never a second job. With a key of the
        caller's a later call with the same fields gets the first answer, for 24 hours.
        """
        times = {"at": at, "after": after, "cron": cron, "every": every}
        given = {"name": name, "task": task, "payload": payload, **times}
        headers = {"Idempotency-Key": idempotency_key or new_key()}
        body = job_body({**given, **fields})
        return self._ask(Submitted, "POST", "/v1/jobs", body=body, headers=headers, repeatable=True)

    def submit_many(self, jobs: Iterable[NewJob | JobIn]) -> list[BatchResult]:
        """Submits jobs in batches of up to 10,000; the results are in the order of the jobs.

        A job that is refused has an `error` in its place; the others are submitted all the same. Each job has an
        idempotency key, its own if none is given, so a batch whose answer was lost is repeated without a second job.
        When a later batch fails for good, the ones before it stay.
        """
        results: list[BatchResult] = []
        for content in batches(jobs):
            response = self._send("POST", "/v1/jobs/batch", content=content)
            results += read_answer(self.url, response, BatchOut).results
        return results

    def submit_lines(self, lines: Sequence[bytes]) -> list[BatchResult]:
        """Submits jobs that are JSON already, up to 10,000 of them; the results are in the order of the lines.

        One request, repeated like the others, and so safe if every line has an idempotency key. No line may be empty.
        """
        headers = {"Content-Type": "application/x-ndjson"}
        response = self._send("POST", "/v1/jobs/batch", content=b"\n".join(lines), headers=headers)
        return read_answer(self.url, response, BatchOut).results

    def jobs(self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[JobFilters]) -> Iterator[JobOut]:
        """Jobs, latest first; those that run once from 24 hours ago on, unless `start_time` says otherwise."""
        return self._items(JobList, "/v1/jobs", filters, page_size)

    def job(self, job_id: str) -> JobOut:
        """A job with its payload and next fire times."""
        return self._ask(JobOut, "GET", _job(job_id), repeatable=True)

    def job_status(self, job_id: str) -> JobStatusOut:
        """The latest run of a job, in short."""
        return self._ask(JobStatusOut, "GET", f"{_job(job_id)}/status", repeatable=True)

    def change_job(self, job_id: str, *, if_match: int | None = None, **changes: Unpack[JobChanges]) -> JobOut:
        """Changes fields of a job; what is not given stays. Takes effect for all that has not started.

        With `if_match` only if that is still the job's version (else AnswerError with status 412), and then not
        repeated once it may have arrived: a repeat would meet the version it made itself.
        """
        return self._ask(
            JobOut,
            "PUT",
            _job(job_id),
            body=changes_body(changes),
            headers=None if if_match is None else {"If-Match": f'"{if_match}"'},
            repeatable=if_match is None,
        )

    def cancel_job(self, job_id: str) -> JobCancelled:
        """Cancels a job with everything of it that waits or runs."""
        return self._ask(JobCancelled, "DELETE", _job(job_id), repeatable=True)

    def pause_job(self, job_id: str) -> JobOut:
        """Holds a job and what waits of it."""
        return self._ask(JobOut, "POST", f"{_job(job_id)}/pause", repeatable=True)

    def resume_job(self, job_id: str) -> JobOut:
        """Lets a held job go on."""
        return self._ask(JobOut, "POST", f"{_job(job_id)}/resume", repeatable=True)

    def run_job(self, job_id: str) -> RunStarted:
        """Runs a job now, besides its schedule. Not repeated once it may have arrived: it would run twice."""
        return self._ask(RunStarted, "POST", f"{_job(job_id)}/run")

    def runs_of_job(self, job_id: str, *, page_size: int = _PAGE_SIZE) -> Iterator[RunOut]:
        """The runs of a job, latest first."""
        return self._items(RunList, f"{_job(job_id)}/runs", {}, page_size)

    def runs(self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[RunFilters]) -> Iterator[RunOut]:
        """Runs, latest first: the last 24 hours up to now, unless a time or status is given."""
        return self._items(RunList, "/v1/runs", filters, page_size)

    def run(self, run_id: str) -> RunOut:
        """A run with payload, result, attempts and timeline, and why it is not running if it waits."""
        return self._ask(RunOut, "GET", _run(run_id), repeatable=True)

    def wait(self, run_id: str, timeout: float | None = None) -> RunOut:
        """The run once it has ended, however it did; raises TimeoutError when it has not after so many seconds.

        A server that is away is waited for, up to a minute.
        """
        deadline, patience = Deadline(timeout), Patience()
        while True:
            # A server that refused may have too many who wait: the next request returns at once.
            seconds = 0.0 if patience.lost else deadline.within(_WAIT_SECONDS)
            try:
                run = self.look(run_id, seconds)
            except (ServerUnreachableError, AnswerError) as error:
                time.sleep(deadline.within(patience.pause_after(error)))
            else:
                if run.status in ENDED_STATUSES:
                    return run
                patience.begin_anew()
            if deadline.is_over:
                raise TimeoutError(f"{run_id} has not ended after {timeout:g} seconds")

    def look(self, run_id: str, seconds: float, *, within: float | None = None) -> RunOut:
        """The run when it has ended, or as it is after so many seconds. Asked once; `within` bounds the whole of it."""
        query = {"waitSeconds": f"{seconds:.3f}"}
        longer = seconds if within is None else within - self._timeout
        response = self._send("GET", _run(run_id), query=query, retries=0, longer=longer)
        return read_answer(self.url, response, RunOut)

    def cancel_run(self, run_id: str) -> RunCancelled:
        """Ends a run that waits; asks the worker of one that runs to stop it.

        AnswerError with status 409 when it has ended already, also by an earlier try of this call.
        """
        return self._ask(RunCancelled, "POST", f"{_run(run_id)}/cancel", repeatable=True)

    def retry_run(self, run_id: str) -> RunStarted:
        """Runs again what has ended. Not repeated once it may have arrived: there would be two new runs."""
        return self._ask(RunStarted, "POST", f"{_run(run_id)}/retry")

    def cancel_runs(self, **choice: Unpack[RunChoice]) -> int:
        """Cancels every run that matches and has not ended; how many. Not repeated once it may have arrived."""
        answer = self._ask(CountOut, "POST", "/v1/runs/cancel", body=fields_of(choice))
        return answer.count

    def log(self, run_id: str) -> str:
        """What a run wrote: a line each, with time and stream before its text."""
        return self.read_text(f"{_run(run_id)}/logs")

    def follow_log(self, run_id: str) -> Iterator[LogLine]:
        """The lines of a run as they come, from its beginning to its end, each of them once.

        A connection that is lost is made again; ServerUnreachableError when that takes longer than a minute.
        """
        return self._follow_log(f"{_run(run_id)}/logs")

    def log_url(self, run_id: str) -> LogUrl:
        """Where a log can be read in object storage for a while, without a token; status 404 where it can't."""
        return self._ask(LogUrl, "GET", f"{_run(run_id)}/logs", query={"url": "true"}, repeatable=True)

    def job_log(self, job_id: str) -> str:
        """What the latest run of a job wrote; AnswerError with status 409 when it has not run yet."""
        return self.read_text(f"{_job(job_id)}/logs")

    def follow_job_log(self, job_id: str) -> Iterator[LogLine]:
        """The lines of the run that is a job's latest now, as `follow_log` gives them."""
        return self._follow_log(f"{_job(job_id)}/logs")

    def job_log_url(self, job_id: str) -> LogUrl:
        """Where the log of a job's latest run can be read, as `log_url`."""
        return self._ask(LogUrl, "GET", f"{_job(job_id)}/logs", query={"url": "true"}, repeatable=True)

    def search_logs(
        self,
        text: str,
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = _PAGE_SIZE,
    ) -> Iterator[LogLine]:
        """Lines of recent runs that contain a text in any case, latest runs first."""
        filters = {"search": text, "start_time": start_time, "end_time": end_time}
        return self._items(LogList, "/v1/logs", filters, page_size)

    def dead_letters(
        self, *, page_size: int = _PAGE_SIZE, **filters: Unpack[DeadLetterFilters]
    ) -> Iterator[DeadLetterOut]:
        """Failed runs that wait for a decision, latest first."""
        return self._items(DeadLetterList, "/v1/dead-letters", filters, page_size)

    def dead_letter_groups(self) -> list[DeadLetterGroup]:
        """What most dead letters have in common: counts by task and kind of error."""
        return (self._ask(DeadLetterGroups, "GET", "/v1/dead-letters/groups", repeatable=True)).items

    def redrive(
        self,
        run_ids: Sequence[str] | None = None,
        *,
        everything: bool = False,
        most: int | None = None,
        **filters: Unpack[DeadLetterFilters],
    ) -> int:
        """Runs dead letters again: these, all that match, or everything, but `most` at most; how many.

        Not repeated once it may have arrived: what failed again meanwhile would be run again.
        """
        body = fields_of({"run_ids": run_ids, "all": everything or None, "most": most, **filters})
        answer = self._ask(CountOut, "POST", "/v1/dead-letters/redrive", body=body)
        return answer.count

    def discard(
        self,
        run_ids: Sequence[str] | None = None,
        *,
        everything: bool = False,
        most: int | None = None,
        **filters: Unpack[DeadLetterFilters],
    ) -> int:
        """Forgets dead letters: these, all that match, or everything, but `most` at most; how many. The runs stay.

        Not repeated once it may have arrived: what failed meanwhile would go unseen, or the count be wrong.
        """
        body = fields_of({"run_ids": run_ids, "all": everything or None, "most": most, **filters})
        answer = self._ask(CountOut, "POST", "/v1/dead-letters/discard", body=body)
        return answer.count

    def workers(self) -> list[WorkerOut]:
        """Live workers, and those gone within the last hour."""
        return (self._ask(WorkerList, "GET", "/v1/workers", repeatable=True)).items

    def shards(self) -> list[ShardOut]:
        """Which scheduler owns which shard."""
        return (self._ask(ShardList, "GET", "/v1/shards", repeatable=True)).items

    def pools(self) -> list[PoolOut]:
        """The pools: who serves them, what is paused, how much may wait."""
        return (self._ask(PoolList, "GET", "/v1/pools", repeatable=True)).items

    def stats(self, window_seconds: int = 60) -> Stats:
        """What waits, what runs, how fast and how late; rates and lags over the last so many seconds, 10 to 600."""
        return self._ask(Stats, "GET", "/v1/stats", query={"windowSeconds": window_seconds}, repeatable=True)

    def limit_pool(self, pool: str, most_waiting: int | None) -> PoolOut:
        """Says how much may wait in a pool; None: any number."""
        return self._ask(PoolOut, "PUT", _pool(pool), body={"mostWaiting": most_waiting}, repeatable=True)

    def pause_pool(self, pool: str) -> PoolOut:
        """Nothing more is started from the pool; what runs goes on."""
        return self._ask(PoolOut, "POST", f"{_pool(pool)}/pause", repeatable=True)

    def resume_pool(self, pool: str) -> PoolOut:
        """Lets a paused pool go on."""
        return self._ask(PoolOut, "POST", f"{_pool(pool)}/resume", repeatable=True)

    def create_key(
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
        """Makes a key of the namespace; its `key` is shown this once. Not repeated once it may have arrived: if the
        answer is lost, the key is unknown, and should be revoked."""
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
        return self._ask(KeyCreated, "POST", "/v1/keys", body=fields_of(given))

    def api_keys(self, *, page_size: int = _PAGE_SIZE) -> Iterator[KeyOut]:
        """Keys of the namespace, latest first, without their secrets."""
        return self._items(KeyList, "/v1/keys", {}, page_size)

    def revoke_key(self, key_id: str) -> KeyOut:
        """Ends a key: once this returns, no server takes it any more."""
        return self._ask(KeyOut, "DELETE", f"/v1/keys/{quote(key_id, safe='')}", repeatable=True)

    def who_am_i(self) -> SessionOut:
        """Who the token stands for, and what they may do."""
        return self._ask(SessionOut, "GET", "/v1/session", repeatable=True)

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        about: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = _PAGE_SIZE,
    ) -> Iterator[AuditOut]:
        """Who did what, latest first; `about` is the id or name of the object."""
        filters = {
            "actor": actor,
            "action": action,
            "object": about,
            "start_time": start_time,
            "end_time": end_time,
        }
        return self._items(AuditList, "/v1/audit", filters, page_size)

    def limits(self, *, page_size: int = _PAGE_SIZE) -> Iterator[LimitsOut]:
        """Limits of the namespace, its own first, and of those in it, with what is left of them."""
        return self._items(LimitsList, "/v1/limits", {}, page_size)

    def set_limits(self, subject: str | None = None, **changes: Unpack[LimitChanges]) -> LimitsOut:
        """Changes limits of a key or owner, or of the namespace as a whole; None lifts one."""
        path = "/v1/limits" if subject is None else f"/v1/limits/{quote(subject, safe='')}"
        return self._ask(LimitsOut, "PUT", path, body=limits_body(changes), repeatable=True)

    def preview(
        self,
        cron: str | None = None,
        *,
        every: float | timedelta | None = None,
        timezone: str | None = None,
        dst: Dst | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        job_id: str | None = None,
        after: datetime | None = None,
        count: int | None = None,
    ) -> SchedulePreview:
        """When a schedule would fire, and what it means in words."""
        given = {
            "cron_expression": cron,
            "every_seconds": every.total_seconds() if isinstance(every, timedelta) else every,
            "timezone": timezone,
            "dst": dst,
            "start_time": start_time,
            "end_time": end_time,
            "job_id": job_id,
            "after": after,
            "count": count,
        }
        body = fields_of(given)
        return self._ask(SchedulePreview, "POST", "/v1/schedules/preview", body=body, repeatable=True)

    def events(self, *, page_size: int = _PAGE_SIZE) -> Iterator[EventOut]:
        """What happened to breakers, pools and declared schedules, latest first."""
        return self._items(EventList, "/v1/events", {}, page_size)

    def follow_events(self, after: int | None = None) -> Iterator[EventOut]:
        """What happens to breakers, pools and declared schedules, in order and without an end; each event once.

        Behind the event with the number `after`, or from now on. A connection that is lost is made again, however long
        that takes; what happened meanwhile comes then.
        """
        return self._follow_events(after)

    def is_ready(self) -> bool:
        """Whether the server is there and its database answers; asked once."""
        return self._is_well("/readyz")

    def is_alive(self) -> bool:
        """Whether the server is there; asked once."""
        return self._is_well("/healthz")

    def _is_well(self, path: str) -> bool:
        try:
            read_answer(self.url, self._send("GET", path, retries=0), Health)
        except (ServerUnreachableError, AnswerError):
            return False
        return True


def _job(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _run(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"


def _pool(pool: str) -> str:
    return f"/v1/pools/{quote(pool, safe='')}"
