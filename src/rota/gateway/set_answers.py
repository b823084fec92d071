"""The answer to a set of jobs, as one answer for each job."""

from __future__ import annotations

from rota.client.errors import refusal
from rota.contract.jobs import JobSetOut, Submitted
from rota.domain.ids import show_series
from rota.errors import RotaError


def answers_of(done: JobSetOut, count: int) -> list[Submitted | RotaError]:
    """The answers in the order of the jobs, of which there are so many."""
    answers: list[Submitted | RotaError] = [_MISSING] * count
    for some in done.accepted:
        status = some.status
        answers[some.position : some.position + some.count] = [
            Submitted(job_id=job_id, status=status, run_id=run_id)
            for job_id, run_id in zip(
                show_series(some.job_id, some.count), show_series(some.run_id, some.count), strict=True
            )
        ]
    for none in done.refused:
        answers[none.position : none.position + none.count] = [refusal(none.error) for _ in range(none.count)]
    return answers


_MISSING = RotaError("the server's answer leaves out this job; is it another version of Rota?")
