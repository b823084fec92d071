"""Trace contexts of jobs on their way in: kept among their headers, and a span for each submission.

Jobs that come together in one trace have one span. Where no spans are made, the context that a job came with is passed
on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn
from rota.gateway.requests import JobRequest, SetRequest
from rota.tracing import TRACEPARENT, TRACESTATE, Trace, Tracing, trace_in

AnyJobIn = TypeVar("AnyJobIn", bound=JobIn)
_NO_TASK = "job"


def with_trace(job: AnyJobIn, trace: Trace) -> AnyJobIn:
    """The job in this trace."""
    return msgspec.structs.replace(job, headers={**(job.headers or {}), **trace})


def without_trace(job: AnyJobIn) -> AnyJobIn:
    """The job as it is in any trace."""
    if not job.headers or TRACEPARENT not in job.headers:
        return job
    left = {name: value for name, value in job.headers.items() if name not in (TRACEPARENT, TRACESTATE)}
    return msgspec.structs.replace(job, headers=left or UNSET)


def received(job: AnyJobIn, trace: Trace | None) -> AnyJobIn:
    """A job that came in a request with this trace; its own comes first."""
    return job if trace is None or (job.headers and TRACEPARENT in job.headers) else with_trace(job, trace)


@contextmanager
def submitting_jobs(tracing: Tracing, requests: Sequence[JobRequest], namespace: str) -> Iterator[Sequence[JobRequest]]:
    """Around a submission: the jobs as they are to be submitted."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, request in enumerate(requests):
        headers = request.job.headers or {}
        places.setdefault((request.job.task or _NO_TASK, headers.get(TRACEPARENT, "")), []).append(place)
    traced = list(requests)
    with ExitStack() as stack:
        for (task, _), some in places.items():
            trace = trace_in(requests[some[0]].job.headers or None)
            own = stack.enter_context(tracing.submitting(task, namespace, len(some), trace))
            if own is None:
                continue
            for place in some:
                traced[place] = requests[place]._replace(job=with_trace(requests[place].job, own))
        yield traced


@contextmanager
def submitting_set(tracing: Tracing, wanted: SetRequest, namespace: str) -> Iterator[SetRequest]:
    """The same for a set."""
    job = wanted.job
    trace = trace_in(job.headers or None)
    with tracing.submitting(job.task or _NO_TASK, namespace, len(wanted.payloads), trace) as own:
        yield wanted._replace(job=with_trace(job, own)) if own else wanted
