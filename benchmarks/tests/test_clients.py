"""Loads with real clients: what Kafka's tools say is read rightly, and each load gives its figures."""

from __future__ import annotations

import peers
import pytest
from loads import LOADS, members
from loads.clients import steady_state, table_of
from loads.figures import FIGURES, Better
from peers import Minibroker, Need

from tests.support.java import SHORT_LIVED, STREAMS, class_data, jars, kafka_jars, require_java

WITHOUT_JAVA = ("confluent-kafka, produce", "confluent-kafka, one record at a time", "confluent-kafka, consume", "KIP-848, second member")
WITH_JAVA = ("Java ProducerPerformance", "Java ConsumerPerformance", "share consumer", "Kafka Streams, first count")
WITH_SPARK = ("Spark, small ranges", "Spark, 1,000,000 records", "Spark, streaming")

PRODUCED = """Warmup first 20000 records. Steady state results will print after the complete test summary.
60000 records sent, 16694.490818 records/sec (15.92 MB/sec), 1150.46 ms avg latency, 1562.00 ms max latency, 1183 ms 50th, 1547 ms 95th, \
1555 ms 99th, 1562 ms 99.9th.
40000 steady state records sent, 16313.213703 records/sec (15.56 MB/sec), 1192.96 ms avg latency, 1562.00 ms max latency, 1100 ms 50th, \
1550 ms 95th, 1556 ms 99th, 1563 ms 99.9th.
"""
SHARED = """start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms
2026-11-21 21:52:58:974, 2026-11-21 21:53:06:746, 57.3435, 7.3782, 7736.6186, 60129, 7772
"""


def test_figures_of_producer_performance_are_of_the_steady_state() -> None:
    assert steady_state(PRODUCED) == {
        "records/s": 16313.213703,
        "MB/s": pytest.approx(16.313213703),
        "acknowledged p50 ms": 1100.0,
        "acknowledged p99 ms": 1556.0,
    }


def test_consumer_figures_are_read_by_column_name() -> None:
    found = table_of("[a line of a logger, with, some, commas, in, it]\n" + SHARED)
    assert found["nMsg.sec"] == 7736.6186
    assert found["data.consumed.in.nMsg"] == 60129
    assert "start.time" not in found


@pytest.fixture(autouse=True)
def _short_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loads' JVMs compile once and collect serially: here it matters that there are figures, not which. The launcher says on stderr
    that it has found these options."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(SHORT_LIVED))


def gives_its_figures(name: str) -> None:
    peer = Minibroker(LOADS[name].properties)
    try:
        peer.start()
        figures = LOADS[name].run(peer, 0.004)
    finally:
        peer.stop()
    assert {figure for figure in figures if FIGURES[figure].better is Better.NEITHER} == set()
    assert all(value > 0 for value in figures.values()), figures


@pytest.mark.parametrize("name", WITHOUT_JAVA)
def test_a_load_of_confluent_kafka(name: str) -> None:
    gives_its_figures(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_JAVA)
def test_a_load_of_java(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the jars that other tests have: Maven would fetch all of them again."""
    require_java()
    monkeypatch.setattr(peers, "kafka_jars", kafka_jars)
    monkeypatch.setattr(members, "fetch_jars", lambda *_: jars(*STREAMS))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join([*SHORT_LIVED, *class_data(kafka_jars())]))
    gives_its_figures(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_SPARK)
def test_a_load_of_spark(name: str) -> None:
    require_java()
    gives_its_figures(name)


def test_no_load_with_clients_is_left_out_here() -> None:
    assert {name for name, load in LOADS.items() if Need.CLIENTS in load.needs} == {*WITHOUT_JAVA, *WITH_JAVA, *WITH_SPARK}
