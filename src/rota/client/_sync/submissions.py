# Made from src/rota/client/async_submissions.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""The submission of jobs, one and many; the first part of `Client`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from rota.client._sync.transport import Calls
from rota.client.answers import JobResult, JobResults, read_answer
from rota.client.bodies import JobFields, KeyedJob, NewJob, array_of, batches, job_body, new_key, set_body
from rota.client.errors import AnswerError, ServerUnreachableError, is_temporary
from rota.client.retries import Tries
from rota.contract.jobs import BatchOut, BatchResult, JobIn, JobSetOut, Submitted
from rota.domain.durations import Duration


class JobSubmissions(Calls):
    """Submits jobs."""

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
        patience: Duration | None = None,
        **fields: Unpack[JobFields],
    ) -> Submitted:
        """Submits a job: now, `at` a time, `after` some seconds, on a `cron` expression, or `every` some seconds.

        Retries use an idempotency key, so there is never a second job. A later call with the same key and fields
        returns the first answer, for 24 hours. `patience` limits how long this call retries (default: the client's). If
        it gives up, `submit(**error.to_repeat[0])` repeats it with its key.
        """
        times = {"at": at, "after": after, "cron": cron, "every": every}
        job = {"name": name, "task": task, "payload": payload, **times, **fields}
        key, tries = idempotency_key or new_key(), self._tries(patience=patience)
        headers = {"Idempotency-Key": key}
        try:
            return self._ask(Submitted, "POST", "/v1/jobs", body=job_body(job), headers=headers, tries=tries)
        except (AnswerError, ServerUnreachableError) as error:
            if is_temporary(error):
                error.to_repeat = [{**job, "idempotency_key": key}]
            raise

    def submit_many(self, jobs: Iterable[NewJob | JobIn], *, patience: Duration | None = None) -> list[JobResult]:
        """Submits jobs in batches of up to 10,000; the results are in the order of the jobs.

        A rejected job has an `error`; the others are submitted. Each job has an idempotency key, so retries make no job
        twice. Jobs answered with 429 or 503 are sent again; `patience` limits how long, for each batch (default: the
        client's). A job that was still refused then has an `error`, and `to_repeat` is the job with its key. If no
        answer comes, this raises an error whose `results` are those so far, and `to_repeat` the remaining jobs.
        """
        results: list[JobResult] = []
        for batch, ahead in batches(jobs):
            try:
                results += self._submit_batch(batch, patience)
            except (AnswerError, ServerUnreachableError) as error:
                error.results, error.to_repeat = results, [one.job for one in (*batch, *ahead)]
                raise
        return results

    def _submit_batch(self, batch: Sequence[KeyedJob], patience: Duration | None) -> list[JobResult]:
        """Sends a batch, and resends the jobs that the server can't accept now."""
        tries = self._tries(patience=patience)
        results: list[Any] = [None] * len(batch)
        places: Sequence[int] = range(len(batch))
        pause: float | None = 0.0
        while pause is not None:
            if pause:
                time.sleep(pause)
            content = array_of(batch[place] for place in places)
            try:
                response = self._send("POST", "/v1/jobs/batch", content=content, tries=tries)
                answers = read_answer(self.url, response, JobResults).results
            except (AnswerError, ServerUnreachableError):
                if results[0] is None:
                    raise
                break  # the jobs keep the errors that they were answered with
            for place, answer in zip(places, answers, strict=True):
                results[place] = answer
            places = [place for place in places if results[place].error is not None and results[place].is_temporary]
            pause = tries.pause_after_refusal() if places else None
        for place in places:
            results[place].to_repeat = batch[place].job
        return results

    def send_set(
        self,
        job: bytes,
        payloads: Sequence[bytes],
        key: str,
        tries: Tries,
        positions: Sequence[int] | None = None,
    ) -> JobSetOut:
        """Submits a set: a job in JSON, without payload, and a payload in JSON (empty: none) for each one wanted."""
        content = set_body(job, payloads, positions)
        headers = {"Idempotency-Key": key}
        response = self._send("POST", "/v1/jobs/batch", content=content, headers=headers, tries=tries)
        return read_answer(self.url, response, JobSetOut)

    def tries(self, patience: Duration | None = None) -> Tries:
        """The tries of a submission: as long as this patience allows (None: the client's)."""
        return self._tries(patience=patience)

    def submit_lines(self, lines: Sequence[bytes]) -> list[BatchResult]:
        """Submits up to 10,000 jobs that are already JSON; the results are in the order of the lines.

        The request is retried, which is safe if every line has an idempotency key. Lines must not be empty. A line
        answered with 429 or 503 is not sent again; the caller can do so.
        """
        headers = {"Content-Type": "application/x-ndjson"}
        response = self._send("POST", "/v1/jobs/batch", content=b"\n".join(lines), headers=headers)
        return read_answer(self.url, response, BatchOut).results
