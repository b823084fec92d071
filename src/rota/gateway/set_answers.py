"""The answer to a set of jobs, as one answer for each job."""

from __future__ import annotations

from collections.abc import Sequence

from rota.client.errors import refusal
from rota.contract.jobs import AcceptedJobs, JobSetOut, RefusedJobs, Submitted
from rota.domain.ids import show_series
from rota.errors import RotaError


class LeftOutError(RotaError):
    """An answer says nothing of a job, or nothing that can be read: it may have been accepted."""

    def __init__(self) -> None:
        super().__init__("the server's answer leaves out this job; is it another version of Rota?")


def answers_of(done: JobSetOut, count: int) -> list[Submitted | RotaError]:
    """The answers in the order of the jobs, of which there are so many."""
    answers: list[Submitted | RotaError | None] = [None] * count
    parts: list[AcceptedJobs | RefusedJobs] = [*done.accepted, *done.refused]
    for part in parts:
        end = part.position + part.count
        if 0 <= part.position <= end <= count:  # else the answers of others would move
            answers[part.position : end] = _answers(part)
    return [answer or LeftOutError() for answer in answers] if None in answers else answers  # type: ignore[return-value]


def _answers(part: AcceptedJobs | RefusedJobs) -> Sequence[Submitted | RotaError | None]:
    if isinstance(part, RefusedJobs):
        return [refusal(part.error) for _ in range(part.count)]
    status = part.status
    try:
        ids = zip(show_series(part.job_id, part.count), show_series(part.run_id, part.count), strict=True)
    except ValueError:  # no ids of ours
        return [None] * part.count
    return [Submitted(job_id=job_id, status=status, run_id=run_id) for job_id, run_id in ids]
