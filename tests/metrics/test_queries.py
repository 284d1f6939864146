"""Debian's Prometheus scrapes a broker with traffic, and answers what dashboards query: public ones and ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.metrics.queries import empty, panels, query_of, scraped, wanted
from tests.metrics.test_names import ABSENT, PAGE

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus (Debian: prometheus)")

#: names with a value whose series lack a label of a query. docs/metrics.md has the reasons for all but the last ones.
WITHOUT_A_LABEL = {
    "kafka_consumergroup_group_lag",
    "redpanda_kafka_consumer_group_topics",
    "redpanda_kafka_max_offset",
    "redpanda_kafka_request_bytes_total",
    # Grafana's mixin asks for a quantile of each of three spellings, which only the first one has.
    "kafka_network_requestmetrics_localtimems_count",
    "kafka_network_requestmetrics_remotetimems_count",
    "kafka_network_requestmetrics_requestqueuetimems_count",
    "kafka_network_requestmetrics_responsequeuetimems_count",
    "kafka_network_requestmetrics_responsesendtimems_count",
}


def test_queries_have_a_result_or_a_reason(tmp_path: Path) -> None:
    names = wanted()
    absent = {name for name, _ in ABSENT.findall(PAGE.read_text().partition("## Names that are absent")[2])}
    with scraped(tmp_path) as found:
        assert set(empty(found, {name: query_of(name, labels) for name, labels in names.items()})) == absent | WITHOUT_A_LABEL
        assert empty(found, {name: name for name in WITHOUT_A_LABEL}) == {}
        assert len(panels()) > 20
        assert empty(found, panels()) == {}
        assert len(names) - len(absent) - len(WITHOUT_A_LABEL) >= 155
