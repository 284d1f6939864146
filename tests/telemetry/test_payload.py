"""Payloads of pushed metrics: each form of OpenTelemetry, and the limits."""

from __future__ import annotations

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from minibroker.config.request_limits import TELEMETRY_ELEMENTS_MAX
from minibroker.errors import InvalidRecord
from minibroker.records.compression import Compression, compress
from minibroker.telemetry.payload import LABELS_MAX, LETTERS_MAX, MESSAGES_MAX, Payload, Point, decoded

MAX_BYTES = 1_000_000


def decode(message: MetricsData) -> Payload:
    return decoded(Compression.ZSTD, compress(Compression.ZSTD, message.SerializeToString()), MAX_BYTES)


def test_each_form_of_metric() -> None:
    message = MetricsData()
    resource = message.resource_metrics.add()
    resource.resource.attributes.add(key="group_id").value.string_value = "readers"
    scope = resource.scope_metrics.add()
    gauge = scope.metrics.add(name="gauge", unit="ms").gauge.data_points.add(as_double=1.5, time_unix_nano=2_000_000)
    gauge.attributes.add(key="node.id").value.int_value = 1
    counter = scope.metrics.add(name="counter").sum
    counter.is_monotonic, counter.aggregation_temporality = True, AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    counter.data_points.add(as_int=3)
    total = scope.metrics.add(name="up-and-down").sum
    total.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    total.data_points.add(as_int=-4)
    scope.metrics.add(name="histogram").histogram.data_points.add(count=2, sum=7.5)
    scope.metrics.add(name="summary").summary.data_points.add(count=3, sum=8.5)
    scope.metrics.add(name="no value").gauge.data_points.add()
    scope.metrics.add(name="no form")
    found = decode(message)
    assert found.labels == (("group_id", "readers"),)
    assert found.is_complete
    assert found.points == [
        Point("gauge", "gauge", "ms", (("node.id", "1"),), 1.5, 0, 2, is_delta=False),
        Point("counter", "counter", "", (), 3, 0, 0, is_delta=True),
        Point("up-and-down", "gauge", "", (), -4, 0, 0, is_delta=False),
        Point("histogram", "histogram", "", (), 7.5, 2, 0, is_delta=False),
        Point("summary", "histogram", "", (), 8.5, 3, 0, is_delta=False),
    ]


def test_texts_and_labels_are_cut() -> None:
    message = MetricsData()
    point = message.resource_metrics.add().scope_metrics.add().metrics.add(name="n" * 1000, unit="u" * 1000).gauge.data_points.add(as_int=1)
    for number in range(100):
        point.attributes.add(key=f"{number:03}" + "k" * 1000).value.string_value = "v" * 1000
    nested = message.resource_metrics[0].resource.attributes.add(key="nested")
    nested.value.array_value.values.add().string_value = "x" * 1000
    (found,) = decode(message).points
    assert (len(found.name), len(found.unit), len(found.labels)) == (LETTERS_MAX, LETTERS_MAX, LABELS_MAX)
    assert {(len(key), len(text)) for key, text in found.labels} == {(LETTERS_MAX, LETTERS_MAX)}
    assert decode(message).labels == (("nested", ""),)


@pytest.mark.parametrize("form", ["metrics", "points", "scopes", "resources"])
def test_elements_are_limited(form: str) -> None:
    message = MetricsData()
    resource = message.resource_metrics.add()
    scope = resource.scope_metrics.add()
    gauge = scope.metrics.add(name="m").gauge
    for _ in range(TELEMETRY_ELEMENTS_MAX + 5):
        if form == "metrics":
            scope.metrics.add(name="m").gauge.data_points.add(as_int=1)
        elif form == "points":
            gauge.data_points.add(as_int=1)
        elif form == "scopes":
            resource.scope_metrics.add()
        else:
            message.resource_metrics.add()
    found = decode(message)
    assert not found.is_complete
    assert len(found.points) <= TELEMETRY_ELEMENTS_MAX


@pytest.mark.parametrize("codec", Compression)
def test_content_is_limited(codec: Compression) -> None:
    with pytest.raises(InvalidRecord):
        decoded(codec, compress(codec, bytes(MAX_BYTES + 1)), MAX_BYTES)


def test_parts_are_counted_before_they_are_parsed() -> None:
    with pytest.raises(InvalidRecord, match="too many parts"):
        decoded(Compression.NONE, b"\x0a\x00" * (MESSAGES_MAX + 1), MAX_BYTES)


@pytest.mark.parametrize("data", [b"\x0a", b"\xff" * 20, b"\x0a\x05\x0a\x03\x0a\x01"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="OpenTelemetry"):
        decoded(Compression.NONE, data, MAX_BYTES)


def test_text_that_is_not_utf_8_is_refused() -> None:
    message = MetricsData()
    message.resource_metrics.add().scope_metrics.add().metrics.add(name="name")
    with pytest.raises(InvalidRecord, match="OpenTelemetry"):
        decoded(Compression.NONE, message.SerializeToString().replace(b"name", b"n\xffme"), MAX_BYTES)
