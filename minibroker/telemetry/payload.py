"""Decode what a client pushed: decompress it, parse OpenTelemetry's MetricsData, and keep what is shown of it.

Run it in a worker thread: it owns its data, and the first call imports protobuf. Source: opentelemetry/proto/metrics/v1/metrics.proto.

    limit                        bounds
    max_bytes                    the content: `telemetry.max.bytes`, which Kafka applies before and after decompression
    MESSAGES_MAX                 protobuf messages within the content: a thread that parses a million of them stops all others for 40 ms
    TELEMETRY_ELEMENTS_MAX       resources, scopes, metrics and data points that are looked at
    LABELS_MAX, LETTERS_MAX      labels of a data point, and letters of a name, a unit, a label or its value; longer ones are cut
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from minibroker.config.request_limits import TELEMETRY_ELEMENTS_MAX
from minibroker.errors import InvalidRecord
from minibroker.records.compression import Compression, decompress

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

PREFIX: Final = "org.apache.kafka."  #: of the names of all metrics that KIP-714 and the clients define
LABELS_MAX: Final = 32
MESSAGES_MAX: Final = 200_000  #: a metric of Java has about ten in 100 bytes
LETTERS_MAX: Final = 256
#: The first byte of each field in opentelemetry/proto/metrics/v1 that holds a message.
_MESSAGE_TAGS: Final = bytes(number << 3 | 2 for number in range(1, 13))
_DELTA: Final = 1  #: AGGREGATION_TEMPORALITY_DELTA
_NS_IN_MS: Final = 1_000_000

Labels = tuple[tuple[str, str], ...]
Kind = Literal["gauge", "counter", "histogram"]


class Point(NamedTuple):
    """One value of a metric, as a client sent it."""

    name: str
    kind: Kind
    unit: str
    labels: Labels
    value: float  #: the sum, of a histogram
    observation_count: int  #: of a histogram
    time_ms: int
    is_delta: bool  #: to be added to the value before


class Payload(NamedTuple):
    """What one push says."""

    labels: Labels  #: of the client: OpenTelemetry's resource attributes
    points: list[Point]
    is_complete: bool  #: whether nothing was left out because of a limit


EMPTY: Final = Payload((), [], is_complete=True)


def decoded(compression: Compression, data: bytes, max_bytes: int) -> Payload:
    """Decode one push.

    Raises:
        InvalidRecord: The bytes are not what they claim to be, or their content is larger than `max_bytes`.
    """
    content = decompress(compression, data, max_bytes=max_bytes)
    if len(content) - len(content.translate(None, _MESSAGE_TAGS)) > MESSAGES_MAX:  # an upper bound: texts have these bytes as well
        raise InvalidRecord(f"pushed metrics of {len(content)} bytes in too many parts")
    message = _parsed(content)
    labels: Labels = ()
    points: list[Point] = []
    for left, found in zip(range(TELEMETRY_ELEMENTS_MAX, -1, -1), _walk(message), strict=False):
        if left == 0:
            return Payload(labels, points, is_complete=False)
        if isinstance(found, Point):
            points.append(found)
        elif found is not None:
            labels = found
    return Payload(labels, points, is_complete=True)


def _parsed(content: bytes) -> MetricsData:
    from google.protobuf.message import DecodeError  # noqa: PLC0415  takes 40 ms, and many brokers never get a push
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415  likewise

    try:
        return MetricsData.FromString(content)
    except DecodeError as error:
        raise InvalidRecord(f"pushed metrics that are not OpenTelemetry's MetricsData: {error}") from None


def _walk(message: MetricsData) -> Iterator[Point | Labels | None]:
    """Yield each data point, the labels of each resource before its points, and None for what has no value of its own."""
    for resource in message.resource_metrics:
        yield _labels(resource.resource.attributes)
        for scope in resource.scope_metrics:
            yield None
            for metric in scope.metrics:
                yield None
                yield from _points(metric)


def _points(metric: Metric) -> Iterator[Point | None]:
    name, unit, form = metric.name[:LETTERS_MAX], metric.unit[:LETTERS_MAX], metric.WhichOneof("data")
    if form == "gauge":
        for point in metric.gauge.data_points:
            yield _number(name, "gauge", unit, point, is_delta=False)
    elif form == "sum":
        kind: Kind = "counter" if metric.sum.is_monotonic else "gauge"
        is_delta = metric.sum.aggregation_temporality == _DELTA
        for point in metric.sum.data_points:
            yield _number(name, kind, unit, point, is_delta=is_delta)
    elif form is not None:
        data: Any = getattr(metric, form)  # histogram, exponential_histogram or summary
        is_delta = getattr(data, "aggregation_temporality", 0) == _DELTA
        for point in data.data_points:
            time_ms = point.time_unix_nano // _NS_IN_MS
            yield Point(name, "histogram", unit, _labels(point.attributes), point.sum, point.count, time_ms, is_delta)


def _number(name: str, kind: Kind, unit: str, point: Any, *, is_delta: bool) -> Point | None:
    form = point.WhichOneof("value")
    if form is None:
        return None
    return Point(name, kind, unit, _labels(point.attributes), float(getattr(point, form)), 0, point.time_unix_nano // _NS_IN_MS, is_delta)


def _labels(attributes: Iterable[KeyValue]) -> Labels:
    found = ((each.key[:LETTERS_MAX], _text(each.value)) for each, _ in zip(attributes, range(LABELS_MAX), strict=False))
    return tuple(sorted(found))


def _text(value: Any) -> str:
    """Return a label's value; nested ones are left empty, because no client sends any."""
    form = value.WhichOneof("value")
    if form in {"string_value", "int_value", "double_value", "bool_value"}:
        return str(getattr(value, form))[:LETTERS_MAX]
    return ""
