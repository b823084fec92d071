"""The answer to a set of jobs, as one answer for each job."""

from __future__ import annotations

from rota.client.errors import refusal
from rota.contract.jobs import JobSetOut, Submitted
from rota.errors import RotaError


def answers_of(done: JobSetOut, count: int) -> list[Submitted | RotaError]:
    """The answers in the order of the jobs, of which there are so many."""
    answers: list[Submitted | RotaError] = [_MISSING] * count
    for some in done.accepted:
        job, run = int(some.job_id[4:], 16), int(some.run_id[4:], 16)
        status = some.status
        answers[some.position : some.position + some.count] = [
            Submitted(job_id=f"job_{job + step:032x}", status=status, run_id=f"run_{run + step:032x}")
            for step in range(some.count)
        ]
    for none in done.refused:
        answers[none.position : none.position + none.count] = [refusal(none.error) for _ in range(none.count)]
    return answers


_MISSING = RotaError("the server's answer leaves out this job; is it another version of Rota?")
