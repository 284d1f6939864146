"""Metrics of a broker in tests, in each form."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from minibroker.cli.main import main
from minibroker.testing import Broker, BrokerError, BrokerProcess, BrokerThread, Surface
from tests.support.broker_process import BrokerProcess as ServeProcess


@pytest.mark.parametrize("form", [BrokerThread, BrokerProcess])
def test_metrics_of_a_broker(form: type[Surface]) -> None:
    with form(topics={"orders": 2}) as broker:  # type: ignore[call-arg]  # of the forms
        broker.produce("orders", "one", partition=0)
        broker.produce("orders", "two", partition=1)
        offsets = broker.metrics["kafka_topic_partition_current_offset"]
        assert offsets.value(topic="orders", partition=1) == 1
        assert offsets.sum(topic="orders") == 2
        assert [each.labels["partition"] for each in offsets.of(topic="orders")] == ["0", "1"]
        assert float(broker.metrics["kafka_brokers"]) == 1
        assert broker.metrics["minibroker_request_seconds_count"].value(api="Produce") == 2
        assert broker.metrics["kafka_network_requestmetrics_totaltimems_count"].value(request="Produce") == 2
        assert len(broker.metrics["kafka_consumergroup_lag"]) == 0
        with pytest.raises(BrokerError, match=r"has no series with \{'topic': 'x'\}, but "):
            offsets.value(topic="x")
        with pytest.raises(BrokerError, match=r"has 2 series with \{'topic': 'orders'\}: "):
            offsets.value(topic="orders")
        with pytest.raises(BrokerError, match="there is no metric 'kafka_broker': did you mean kafka_brokers"):
            _ = broker.metrics["kafka_broker"]
        with pytest.raises(
            BrokerError, match="minibroker_request_seconds is a histogram: its series are minibroker_request_seconds_bucket, "
        ):
            _ = broker.metrics["minibroker_request_seconds"]
        assert broker.metrics["process_open_fds"].value() > 0
        broker.reset()
        assert broker.metrics["kafka_topic_partition_current_offset"].sum(topic="orders") == 0


async def test_metrics_awaited() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        assert float(await broker.metrics["kafka_controller_kafkacontroller_globaltopiccount"]) == 1


def test_the_commands(tmp_path: object) -> None:
    run = CliRunner().invoke
    with ServeProcess(tmp_path, "--metrics-port", "0", "--lab-port", "0") as process:  # type: ignore[arg-type]  # a path
        output = process.output
        url = output.partition("metrics ")[2].partition(",")[0]
        assert "# TYPE kafka_brokers gauge" in run(main, ["metrics", "--url", url]).output
        assert run(main, ["metrics", "--url", url, "kafka_brokers"]).output == "kafka_brokers 1\n"
        empty = run(main, ["metrics", "--url", url, "kafka_consumergroup_lag", "kafka_brokers"])
        assert (empty.exit_code, empty.stdout) == (0, "kafka_brokers 1\n")
        assert "kafka_consumergroup_lag has no series yet" in empty.output
        unknown = run(main, ["metrics", "--url", url, "kafka_broker_inf0"])
        assert unknown.exit_code == 1
        assert "no metric's name contains 'kafka_broker_inf0'. Did you mean kafka_broker_info?" in unknown.output
        lab = output.partition("lab ")[2].partition(",")[0]
        assert '"value": 1' in run(main, ["lab", "--lab-url", lab, "metrics", "kafka_brokers", "-o", "json"]).output
    refused = run(main, ["metrics", "--url", url])
    assert refused.exit_code == 1
    assert "no metrics at " in refused.output
    for wrong in ("ftp://broker", "http://", ""):
        assert "is not an address such as http://127.0.0.1:9308" in run(main, ["metrics", "--url", wrong]).output
