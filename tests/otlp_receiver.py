"""An OpenTelemetry collector of the tests: takes OTLP over HTTP and keeps what came."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class OtlpReceiver:
    """Spans and metrics that were exported."""

    def __init__(self) -> None:
        self._spans: list[Any] = []
        self._metrics: list[Any] = []
        self.services: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, body: bytes) -> None:
        if path.endswith("/v1/traces"):
            for some in ExportTraceServiceRequest.FromString(body).resource_spans:
                self._note(some.resource)
                for scope in some.scope_spans:
                    self._spans += scope.spans
        else:
            for some in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self._note(some.resource)
                for scope in some.scope_metrics:
                    self._metrics += scope.metrics

    def _note(self, resource: Any) -> None:
        self.services |= {pair.value.string_value for pair in resource.attributes if pair.key == "service.name"}

    def spans(self, name: str) -> list[Any]:
        """The spans of this name in the order of their starts."""
        return sorted(
            (span for span in list(self._spans) if span.name == name), key=lambda span: span.start_time_unix_nano
        )

    def metrics(self, name: str) -> list[Any]:
        """Every export of this metric, the latest last."""
        return [metric for metric in list(self._metrics) if metric.name == name]


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of a span or a data point."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in thing.attributes}
