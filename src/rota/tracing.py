"""Traces by OpenTelemetry, where it is installed and wanted; without it, a trace is only carried along.

A trace context (W3C) is the two headers `traceparent` and `tracestate`. It travels with a job in its headers
(`JobIn.headers`, `RunOptions.headers`), from the submission to every attempt of its runs. It is no part of what an
idempotency key stands for: a repeat in another trace is a repeat.

Attributes follow OpenTelemetry's conventions for messaging: a task is the destination, a run the message.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from random import random
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.domain.ids import show_job, show_run
from rota.domain.job import RunOptions, decode_options
from rota.domain.run import SUCCESS, Claim, Outcome
from rota.errors import SetupError
from rota.settings import Settings
from rota.telemetry import get_logger

if TYPE_CHECKING:
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Link, Span, Tracer

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_PARENT_LENGTH = 55
_MOST_STATE = 512
_SHARE = re.compile(r"(?:ParentBased\{root:)?TraceIdRatioBased\{([0-9.e-]+)\}")  # a sampler, as it describes itself
_STATE = re.compile(r"[ -~]+")
_WAITED_FOR = frozenset({Outcome.snoozed, Outcome.released, Outcome.interrupted, Outcome.cancelled})
_SYSTEM = {"messaging.system": "rota"}
_SEND: dict[str, Any] = {**_SYSTEM, "messaging.operation.name": "submit", "messaging.operation.type": "send"}
_PROCESS: dict[str, Any] = {**_SYSTEM, "messaging.operation.name": "run", "messaging.operation.type": "process"}
_log = get_logger("tracing")
Trace = Mapping[str, str]


def read_trace(parent: str | None, state: str | None = None) -> Trace | None:
    """The trace context in these headers; None if there is none that can be read."""
    if parent is None or not _PARENT.fullmatch(parent[:_PARENT_LENGTH]):
        return None
    if parent[:2] == "00" and len(parent) != _PARENT_LENGTH:
        return None
    trace = {TRACEPARENT: parent[:_PARENT_LENGTH]}
    if state and len(state) <= _MOST_STATE and _STATE.fullmatch(state):
        trace[TRACESTATE] = state
    return trace


def trace_in(headers: Mapping[str, str] | None) -> Trace | None:
    """The trace context among the headers of a job."""
    return read_trace(headers.get(TRACEPARENT), headers.get(TRACESTATE)) if headers else None


def current_trace() -> Trace | None:
    """The trace context of the caller's current span, if the program uses OpenTelemetry and the span is sampled."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None or not hasattr(api, "get_current_span"):  # it is just being imported
        return None
    context = api.get_current_span().get_span_context()
    return _headers_of(context) if context.is_valid and context.trace_flags.sampled else None


def _headers_of(context: Any) -> dict[str, str]:
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    state = context.trace_state.to_header() if context.trace_state else None
    return dict(read_trace(parent, state) or {})


def open_tracing(settings: Settings, role: str) -> Tracing | None:
    """Traces of this process; None if they are not wanted. Raises SetupError if they are and can't be made."""
    if not (settings.tracing or settings.otel.traces):
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        if settings.tracing:
            raise SetupError("ROTA_TRACING=on needs OpenTelemetry: pip install 'rota[otel]'")
        _log.info("OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: pip install 'rota[otel]'")
        return None
    return Tracing(role)


def otel_resource(role: str) -> Resource:
    """What OpenTelemetry calls this process: OTEL_SERVICE_NAME, or by its role."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional

    found = Resource.create({"service.instance.id": f"{socket.gethostname()}:{os.getpid()}"})
    if str(found.attributes.get("service.name", "")).startswith("unknown_service"):
        found = found.merge(Resource({"service.name": f"rota-{role}"}))
    return found


class Tracing:
    """Makes the spans of one process."""

    def __init__(self, role: str) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - optional
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._api = trace
        self._context = context
        self._nowhere = context.Context()
        self._propagator = TraceContextTextMapPropagator()
        self._provider: Any = None
        self._lots: _Lots | None = None
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._provider, self._lots = _set_up(role)
            trace.set_tracer_provider(self._provider)
        # An application that has set up its own gets our spans among its own.
        self._tracer: Tracer = trace.get_tracer("rota")

    @contextmanager
    def submitting(self, task: str, namespace: str, many: int, trace: Trace | None) -> Iterator[Trace | None]:
        """Around a submission of `many` jobs that came in this trace; gives the trace that their runs continue.

        That is none if none came and this one is not sampled: whether their runs are is decided there.
        """
        attributes = {**_SEND, "messaging.destination.name": task, "rota.namespace": namespace}
        if many > 1:
            attributes["messaging.batch.message_count"] = many
        kind = self._api.SpanKind.PRODUCER
        parent = self._parent(trace) if trace else None  # none: that of the attempt that submits, if it is one
        with self._tracer.start_as_current_span(f"submit {task}", parent, kind=kind, attributes=attributes) as span:
            context = span.get_span_context()
            yield _headers_of(context) if trace or context.trace_flags.sampled else None

    def begin(self, claim: Claim) -> AttemptSpan | None:
        """The span of an attempt, which becomes the current one of this asyncio task; None: it is not sampled.

        The first attempt of an immediate run continues the trace of its submission. Any other begins a trace of its own
        and links to it: minutes or months lie between, and there may be many.
        """
        tracer = self._tracer
        if self._lots and TRACEPARENT not in claim.options:
            if random() >= self._lots.ratio:  # noqa: S311 - no secret
                self._context.attach(self._lots.unsampled)
                return None
            tracer = self._lots.tracer
        options = decode_options(claim.options)
        trace = trace_in(options.headers)
        continues = not (options.linked or claim.attempt or claim.losses or claim.root_id)
        span = tracer.start_span(
            f"run {claim.task}",
            self._parent(trace) if continues else self._nowhere,
            kind=self._api.SpanKind.CONSUMER,
            attributes={**_PROCESS, "messaging.destination.name": claim.task},
            links=self._links(trace) if trace and not continues else None,
        )
        if span.is_recording():  # most are not, and what follows would cost more than all the rest
            span.set_attributes(_attributes(claim, options))
        self._context.attach(self._api.set_span_in_context(span))
        return AttemptSpan(span, self._api)

    def close(self) -> None:
        """Sends what is left; takes as long as OpenTelemetry's settings allow."""
        if self._provider is not None:
            self._provider.shutdown()

    def _parent(self, trace: Trace | None) -> OtelContext:
        return self._propagator.extract(trace, self._nowhere) if trace else self._nowhere

    def _links(self, trace: Trace) -> list[Link]:
        context = self._api.get_current_span(self._parent(trace)).get_span_context()
        return [self._api.Link(context)]


class AttemptSpan:
    """The span of one attempt."""

    __slots__ = ("_api", "_span")

    def __init__(self, span: Span, api: Any) -> None:
        self._span = span
        self._api = api

    @property
    def trace(self) -> Trace:
        """For what the attempt sends on."""
        return _headers_of(self._span.get_span_context())

    def end(self, outcome: Outcome, error: str | None) -> None:
        """Ends it with the outcome of the attempt."""
        span = self._span
        if span.is_recording():
            span.set_attribute("rota.outcome", outcome.value)
            if outcome is not SUCCESS and outcome not in _WAITED_FOR:
                span.set_attribute("error.type", outcome.value)
                span.set_status(self._api.StatusCode.ERROR, error)
        span.end()


def _attributes(claim: Claim, options: RunOptions) -> dict[str, Any]:
    return {
        "messaging.message.id": show_run(claim.run_id),
        "messaging.message.conversation_id": options.job_id or show_job(claim.job_id),
        "rota.namespace": claim.namespace,
        "rota.pool": claim.pool,
        "rota.attempt": claim.attempt + 1,
    }


class _Lots(NamedTuple):
    """Draws lots for runs that came without a trace, where only a share of traces is sampled: to have OpenTelemetry
    decide on each run takes twenty times as long."""

    ratio: float
    tracer: Tracer  # samples all it is asked for
    unsampled: OtelContext  # of all attempts that are not sampled: what they trace is not sampled either


def _set_up(role: str) -> tuple[Any, _Lots | None]:
    """A provider as the variables OTEL_* say; lots if they ask for a share of traces."""
    from opentelemetry import context, trace  # noqa: PLC0415 - optional
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    processor = BatchSpanProcessor(OTLPSpanExporter())
    provider = TracerProvider(resource=otel_resource(role))
    provider.add_span_processor(processor)
    shared = _SHARE.match(provider.sampler.get_description())
    if shared is None:
        return provider, None
    always = TracerProvider(sampler=sampling.ALWAYS_ON, resource=provider.resource, shutdown_on_exit=False)
    always.add_span_processor(processor)
    ids = provider.id_generator
    nothing = trace.SpanContext(ids.generate_trace_id(), ids.generate_span_id(), is_remote=False)
    unsampled = trace.set_span_in_context(trace.NonRecordingSpan(nothing), context.Context())
    return provider, _Lots(float(shared[1]), always.get_tracer("rota"), unsampled)
