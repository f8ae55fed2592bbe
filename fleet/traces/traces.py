"""Spans go to a collector (OTLP over HTTP), in batches, from a thread of their own.

Whoever adds a span waits for nothing. A span that finds the queue full is dropped and counted, and so are spans that
the collector does not take. The SDK of OpenTelemetry is loaded where traces are wanted, and nowhere else. It reads its
own variables: headers, certificate and time limit of the exporter (`OTEL_EXPORTER_OTLP_*`), bounds of the queue
(`OTEL_BSP_*`), name and attributes of the resource (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from fleet.traces.span import TraceSpan, span_id, trace_id

FLUSH_S = 2.0  # at the end of a process; what the collector has not taken by then is lost
QUEUE_MOST = 2048  # spans that wait, where OTEL_BSP_MAX_QUEUE_SIZE does not say
VALUE_CHARACTERS_MAX = 500
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NANOSECONDS = 1_000_000_000
log = structlog.get_logger(__name__)


class Traces(Collector):
    """`endpoint`: the URL that takes spans. Made, used and closed by one process."""

    def __init__(self, endpoint: str, service: str, attributes: dict[str, str]) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # its failures are counted, and told once
        resource = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service}
        self._exporter = _CountedExporter(OTLPSpanExporter(endpoint=endpoint))
        self._ids = _GivenIds()
        self._most = _queue_most()
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=self._most)
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({**attributes, **resource}),
            id_generator=self._ids,
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attribute_length=VALUE_CHARACTERS_MAX),
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("fleet")
        self._one_at_a_time = threading.Lock()
        self._added, self._dropped, self._closed = 0, 0, False

    def add(self, span: TraceSpan) -> None:
        """Send it with the next batch. Nothing is done for a span of what has no uid."""
        in_trace = trace_id(span.uid)
        if not in_trace or self._closed:
            return
        with self._one_at_a_time:
            if self._added - self._exporter.spans_taken >= self._most:
                self._dropped += 1
                return
            self._added += 1
            self._ids.trace, self._ids.span = in_trace, span_id(span.uid, span.key)
            above = _remote(in_trace, span_id(span.uid, span.parent)) if span.parent else None
            kind = SpanKind.SERVER if span.served else SpanKind.CLIENT if span.outgoing else SpanKind.INTERNAL
            record = self._tracer.start_span(
                span.name,
                trace.set_span_in_context(NonRecordingSpan(above or trace.INVALID_SPAN_CONTEXT)),
                kind=kind,
                attributes=span.attributes,
                start_time=int(span.start * _NANOSECONDS),
                links=[Link(_remote(*span.link))] if span.link is not None else None,
            )
            if span.error:
                record.set_status(Status(StatusCode.ERROR, span.error))
            record.end(int(max(span.start, span.end) * _NANOSECONDS))

    def add_all(self, spans: Iterable[TraceSpan]) -> None:
        for span in spans:
            self.add(span)

    def close(self) -> None:
        """Send what waits, within FLUSH_S. Blocks."""
        self._closed = True
        ending = threading.Thread(target=self._processor.shutdown, name="traces end", daemon=True)
        ending.start()
        ending.join(FLUSH_S)

    def show(self, registry: CollectorRegistry) -> None:
        """Add its metrics."""
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        spans = CounterMetricFamily(
            "fleet_trace_spans", "Spans of traces, by what became of them.", labels=("outcome",)
        )
        counts = {"sent": self._exporter.spans_sent, "failed": self._exporter.failed, "dropped": self._dropped}
        for outcome, count in counts.items():
            spans.add_metric((outcome,), count)
        yield spans


class _GivenIds(IdGenerator):
    """Gives the ids that were set."""

    trace = span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class _CountedExporter(SpanExporter):
    """Another exporter, and what became of its spans. The first failure is told in the log, and the end of failures."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.spans_taken = self.spans_sent = self.failed = 0
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans_taken += len(spans)
        try:
            result = self._exporter.export(spans)
        except Exception:  # of the SDK: these spans are lost, and no others
            result = SpanExportResult.FAILURE
        good = result is SpanExportResult.SUCCESS
        if good:
            self.spans_sent += len(spans)
        else:
            self.failed += len(spans)
        if good is self._failing:
            self._failing = not good
            if good:
                log.info("the collector takes spans again", lost=self.failed)
            else:
                log.warning("the collector takes no spans, and they are lost", spans=len(spans))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _remote(trace_number: int, span_number: int) -> SpanContext:
    return SpanContext(trace_number, span_number, is_remote=True, trace_flags=_SAMPLED)


def _queue_most() -> int:
    told = os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "")
    return max(int(told), 512) if told.isascii() and told.isdigit() else QUEUE_MOST
