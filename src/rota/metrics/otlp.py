"""The same instruments through OpenTelemetry: OTLP over HTTP, as the variables OTEL_* say.

The exporter is OpenTelemetry's own. What it sends is made from our instruments as they are, cumulative since the
process started: counting a second time in OpenTelemetry's instruments would cost every run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from rota.errors import RotaError
from rota.metrics.instruments import Counter, Distribution, Gauge, Histogram, Registry
from rota.service import Service
from rota.tracing import otel_resource

_LAST_SECONDS = 2.0  # for the last export, when the process ends


def can_export() -> bool:
    """Whether OpenTelemetry's exporter is installed."""
    return all(find_spec(name) for name in ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"))


class OtlpSender(Service):
    """Exports all instruments at an interval, and once more when the process ends."""

    jitter = 0

    def __init__(
        self, registry: Registry, role: str, *, refresh: Callable[[], Awaitable[None]], seconds: float
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - optional
            OTLPMetricExporter,
        )

        super().__init__()
        self._registry = registry
        self._refresh = refresh
        self._seconds = seconds
        self._since = time.time_ns()
        self._resource = otel_resource(role)
        self._exporter = OTLPMetricExporter()

    @property
    def pause_seconds(self) -> float:
        return self._seconds

    async def tick(self) -> int:
        """Exports once; raises RotaError if the collector did not take it."""
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415 - optional

        await self._refresh()
        result = await asyncio.to_thread(self._exporter.export, self.data())
        if result is not MetricExportResult.SUCCESS:
            raise RotaError("the OpenTelemetry collector did not take the metrics")
        return 1

    async def close(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(self._exporter.export, self.data()), _LAST_SECONDS)
        self._exporter.shutdown()

    def data(self) -> Any:
        """All instruments in OpenTelemetry's form."""
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

        now = time.time_ns()
        metrics = [self._metric(one, now) for one in self._registry.read() if one.series()]
        scope = ScopeMetrics(InstrumentationScope("rota"), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metric(self, instrument: Counter | Gauge | Histogram, now: int) -> Any:
        from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - optional

        points: list[Any] = []
        for values, one in instrument.series():
            labels = dict(zip(instrument.labels, values, strict=True))
            if isinstance(one, Distribution):
                counts, bounds = list(one.counts), list(one.bounds)
                points.append(
                    export.HistogramDataPoint(
                        labels, self._since, now, sum(counts), one.sum, counts, bounds, 0.0, bounds[-1]
                    )
                )
            else:
                points.append(export.NumberDataPoint(labels, self._since, now, one.value))
        cumulative = export.AggregationTemporality.CUMULATIVE
        data: Any = export.Gauge(points)
        if instrument.kind == "counter":
            data = export.Sum(points, cumulative, is_monotonic=True)
        elif instrument.kind == "histogram":
            data = export.Histogram(points, cumulative)
        unit = "s" if "_seconds" in instrument.name else "By" if instrument.name.endswith("_bytes") else "1"
        return export.Metric(instrument.name, instrument.words, unit, data)
