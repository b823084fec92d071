"""Traces from the submission to the attempts, as a collector gets them."""

from __future__ import annotations

import os
import subprocess
import sys

import httpx
import pytest

import commands
from otlp_receiver import OtlpReceiver, attributes_of
from rota.contract.json_rules import hash_request
from rota.tracing import current_trace, read_trace
from support import free_port, wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
TASKS = """
import rota
from opentelemetry import trace

app = rota.App()
tracer = trace.get_tracer("shop")

@app.task(name="mail")
async def mail():
    with tracer.start_as_current_span("render"):
        pass
    await child.submit()

@app.task(name="child")
def child():
    with tracer.start_as_current_span("inside a thread"):
        pass

@app.task(name="apart", isolation="process")
def apart():
    child.sync.submit()

@app.task(name="flaky", retries=1, retry=rota.Retry(base_seconds=0.01, jitter=0))
async def flaky(context: rota.Context):
    if context.attempt == 1:
        raise ValueError("not yet")
"""


@pytest.fixture
def collector():
    receiver = OtlpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def fleet(tmp_path, collector):
    """`rota up` with tasks of its own that exports to the collector."""
    (tmp_path / "tasks.py").write_text(TASKS)
    who = commands.Commands(
        tmp_path,
        free_port(),
        HOME=str(tmp_path),
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_METRIC_EXPORT_INTERVAL="500",
    )
    with who.running("up", "--app", "tasks:app", "--workers", "1", cwd=tmp_path):
        who.wait_for_worker()
        yield who


def submit(who, **fields):
    body = {"name": "traced", "scheduleType": "immediate"} | fields
    token = (who.rota_home / "admin.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "traceparent": PARENT, "tracestate": "shop=1"}
    answer = httpx.post(f"http://127.0.0.1:{who.port}/v1/jobs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def only(spans):
    wait_until(lambda: len(spans()) == 1)
    return spans()[0]


@pytest.mark.slow
def test_an_immediate_run_continues_the_trace_of_its_submission_down_to_what_its_task_does(fleet, collector):
    run_id = submit(fleet, task="mail")
    sent = only(lambda: collector.spans("submit mail"))
    run = only(lambda: collector.spans("run mail"))
    render = only(lambda: collector.spans("render"))
    assert (sent.trace_id.hex(), sent.parent_span_id.hex()) == (TRACE, SPAN)
    assert sent.kind == sent.SPAN_KIND_PRODUCER
    assert (run.trace_id, run.parent_span_id) == (sent.trace_id, sent.span_id)
    assert run.kind == run.SPAN_KIND_CONSUMER
    assert run.trace_state == "shop=1"
    assert (render.trace_id, render.parent_span_id) == (run.trace_id, run.span_id)
    assert attributes_of(run) == attributes_of(run) | {
        "messaging.system": "rota",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": run_id,
        "rota.namespace": "default",
        "rota.attempt": 1,
        "rota.outcome": "success",
    }
    # What the task submits belongs to its trace too, and so does what that does in a thread.
    child_sent = only(lambda: collector.spans("submit child"))
    child = only(lambda: collector.spans("run child"))
    inside = only(lambda: collector.spans("inside a thread"))
    assert (child_sent.trace_id, child_sent.parent_span_id) == (run.trace_id, run.span_id)
    assert (child.trace_id, child.parent_span_id) == (run.trace_id, child_sent.span_id)
    assert (inside.trace_id, inside.parent_span_id) == (run.trace_id, child.span_id)
    assert collector.services == {"rota-api", "rota-worker", "rota-scheduler"}


@pytest.mark.slow
def test_attempts_of_a_delayed_run_have_traces_of_their_own_that_link_to_the_submission(fleet, collector):
    submit(fleet, task="flaky", scheduleType="future", delaySeconds=1.5)
    sent = only(lambda: collector.spans("submit flaky"))
    wait_until(lambda: len(collector.spans("run flaky")) == 2)
    first, second = collector.spans("run flaky")
    assert sent.trace_id.hex() == TRACE
    assert len({sent.trace_id, first.trace_id, second.trace_id}) == 3
    for attempt in (first, second):
        assert not attempt.parent_span_id
        (link,) = attempt.links
        assert (link.trace_id, link.span_id) == (sent.trace_id, sent.span_id)
    assert first.status.code == first.status.STATUS_CODE_ERROR
    assert "not yet" in first.status.message
    assert attributes_of(first)["error.type"] == "failed"
    assert second.status.code != second.status.STATUS_CODE_ERROR


@pytest.mark.slow
def test_a_retry_of_an_immediate_run_links_and_the_first_attempt_continues(fleet, collector):
    submit(fleet, task="flaky")
    wait_until(lambda: len(collector.spans("run flaky")) == 2)
    first, second = collector.spans("run flaky")
    assert first.trace_id.hex() == TRACE
    assert second.trace_id.hex() != TRACE
    assert [link.trace_id.hex() for link in second.links] == [TRACE]


@pytest.mark.slow
def test_what_an_isolated_task_submits_belongs_to_its_trace(fleet, collector):
    submit(fleet, task="apart")
    run = only(lambda: collector.spans("run apart"))
    child = only(lambda: collector.spans("run child"))
    assert child.trace_id == run.trace_id
    assert child.trace_id.hex() == TRACE


@pytest.mark.slow
def test_metrics_reach_the_collector_as_prometheus_gets_them(fleet, collector):
    submit(fleet, task="child")

    def count():
        ended = [point for metric in collector.metrics("rota_attempts_ended_total") for point in metric.sum.data_points]
        return any(point.as_double == 1 and attributes_of(point)["outcome"] == "success" for point in ended)

    wait_until(count)
    lag = collector.metrics("rota_start_lag_seconds")[-1].histogram
    assert lag.aggregation_temporality == 2  # cumulative
    assert sum(lag.data_points[0].bucket_counts) == lag.data_points[0].count == 1
    wait_until(lambda: collector.metrics("rota_workers"))  # from the API server


@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "00",
        PARENT.upper(),
        PARENT + "-00",
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0g",
    ],
)
def test_a_context_that_can_not_be_read_is_none(parent):
    assert read_trace(parent) is None


def test_a_context_of_a_later_version_is_read_as_far_as_it_is_known():
    assert read_trace(f"01-{TRACE}-{SPAN}-01-more") == {"traceparent": f"01-{TRACE}-{SPAN}-01"}


def test_a_state_that_is_too_long_is_left_out():
    assert read_trace(PARENT, "a=" + "b" * 600) == {"traceparent": PARENT}
    assert read_trace(PARENT, "a=ä") == {"traceparent": PARENT}


def test_outside_of_a_span_there_is_no_trace():
    assert current_trace() is None


async def test_a_bad_header_never_refuses_a_job(api):
    for bad in ("", "x", PARENT + "-more"):
        body = {"name": "n", "scheduleType": "immediate", "task": "rota.echo"}
        answer = await api.post("/v1/jobs", json=body, headers={"traceparent": bad})
        assert answer.status_code == 201
        run = (await api.get(f"/v1/jobs/{answer.json()['jobId']}")).json()
        assert "traceparent" not in (run.get("headers") or {})


async def test_a_repeat_in_another_trace_is_a_repeat(api):
    body = {"name": "n", "scheduleType": "immediate", "task": "rota.echo"}
    ids = set()
    for number in range(3):
        headers = {"Idempotency-Key": "k", "traceparent": f"00-{TRACE}-{number + 1:016x}-01"}
        answer = await api.post(
            "/v1/jobs", json=body | {"headers": {"traceparent": headers["traceparent"]}}, headers=headers
        )
        assert answer.status_code == 201, answer.text
        ids.add(answer.json()["jobId"])
    assert len(ids) == 1


def test_the_hash_of_a_request_ignores_its_trace_alone():
    plain = hash_request(b'{"a": 1}')
    assert hash_request(b'{"headers": {"traceparent": "x", "tracestate": "y"}, "a": 1}') == plain
    with_header = hash_request(b'{"a": 1, "headers": {"b": "c"}}')
    assert hash_request(b'{"a": 1, "headers": {"b": "c", "traceparent": "x"}}') == with_header != plain


LOTS = f"""
from uuid import uuid4
from opentelemetry import trace
from rota.domain.run import Claim
from rota.tracing import Tracing

def claim(options):
    return Claim("default", uuid4(), uuid4(), 1, "t", 0, None, None, options, None, 0.0, 0.0, 0, 0)

def is_sampled(span):
    return int(span.trace["traceparent"][-2:], 16) & 1 == 1  # another bit says that the id is random

tracing = Tracing("test")
spans = [tracing.begin(claim("{{}}")) for _ in range(2000)]
drawn = [span for span in spans if span]
assert 800 < len(drawn) < 1200, len(drawn)
assert all(is_sampled(span) for span in drawn)
while tracing.begin(claim("{{}}")):
    pass
inside = trace.get_tracer("task").start_span("of a task whose attempt is not sampled")
assert not inside.is_recording()
for flags in ("01", "00"):
    parent = "{PARENT[:-2]}" + flags
    span = tracing.begin(claim('{{"headers":{{"traceparent":"' + parent + '"}}}}'))
    assert span.trace["traceparent"].startswith("00-{TRACE}-")
    assert is_sampled(span) == (flags == "01")
"""


def test_runs_without_a_trace_are_sampled_by_lot_and_others_as_their_submission_was(collector):
    """In a process of its own: OpenTelemetry is set up once in each."""
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.5",
    }
    done = subprocess.run(
        [sys.executable, "-c", LOTS],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
