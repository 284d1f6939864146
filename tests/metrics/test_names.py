"""Every metric that public dashboards ask for is served, or absent for a reason in docs/metrics.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minibroker.errors import ConfigurationError
from minibroker.metrics.names import ALL, DEFAULT, families_of
from minibroker.metrics.scrape import scraper_of
from minibroker.testing import Broker
from tests.metrics.queries import wanted
from tests.metrics.test_values import commit, produce

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
#: labels of members, and of other spellings in the same query
NOT_OURS = {"client_id", "consumergroup", "quantile"}
ABSENT = re.compile(r"^\| `(\w+)` \| (\S.*) \|$", re.MULTILINE)


async def test_each_wanted_name_is_served_or_has_a_reason(broker: Broker) -> None:
    scraper = scraper_of(lambda: broker._hosted.broker, broker._hosted.meter, ALL)
    text = await scraper.text()
    served = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    served |= {name + suffix for name in served for suffix in ("_count", "_sum") if f"# TYPE {name} summary" in text}
    absent = {name for name, _ in ABSENT.findall(PAGE.read_text().partition("## Names that are absent")[2])}
    names = wanted().keys()
    assert {name for name in names if name not in served and name not in absent} == set()
    assert absent & served == set()
    assert absent <= names
    assert len(names - absent) >= 160


async def test_the_labels_that_queries_use(broker: Broker) -> None:
    """Labels that our series have; those of the exporters' own processes and of members are in docs/metrics.md."""
    await produce(broker, "orders", 1)
    await commit(broker, "readers", "orders", 0)
    scraper = scraper_of(lambda: broker._hosted.broker, broker._hosted.meter, ALL)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(await scraper.text()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    missing = {name: gone for name, labels in wanted().items() if name in found and (gone := labels - found[name] - NOT_OURS)}
    page = PAGE.read_text().partition("## Labels that are absent")[2].partition("\n## ")[0]
    assert all(f"| `{name}` | `{label}` | " in page for name, gone in missing.items() for label in gone)
    assert missing == {
        "redpanda_kafka_consumer_group_topics": {"redpanda_topic"},  # a number of topics
        "redpanda_kafka_max_offset": {"topic"},
        "redpanda_kafka_request_bytes_total": {"vectorized_cloud_data_cluster_name"},
    }


def test_sets_of_names() -> None:
    assert {each.name for each in families_of(DEFAULT)} >= {"kafka_brokers", "kafka_log_log_size", "minibroker_build_info"}
    assert [each.name for each in families_of(["kafka_exporter", "otel"])].count("kafka_brokers") == 1
    with pytest.raises(ConfigurationError, match="'jxm' is not a set of names; choose from kafka_exporter, jmx, "):
        families_of(["jxm"])


def test_every_family_is_well_formed() -> None:
    for names in ALL.values():
        for family in names.families:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
            assert family.help.endswith("."), family.name
            assert family.kind in {"counter", "gauge", "untyped", "histogram", "summary"}
            assert (family.kind == "counter") == family.name.endswith("_total") or family.kind == "gauge", family.name
