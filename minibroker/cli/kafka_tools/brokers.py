"""kafka-cluster, kafka-broker-api-versions, and `cub kafka-ready` of Confluent's utility belt: tools that wait for brokers."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from minibroker.cli.api_versions import apis_of
from minibroker.cli.kafka_tools.arguments import add_bootstrap, client_of, parser
from minibroker.client.errors import ClientError, describe
from minibroker.errors import KafkaError


def run_cluster(arguments: Sequence[str]) -> int:
    """Print the id of the cluster like Kafka's ClusterTool."""
    made = parser("kafka-cluster", "The Kafka cluster tool.")
    made.add_argument("command", choices=["cluster-id"])
    add_bootstrap(made)
    with client_of(made.parse_args(arguments)) as client:
        client.metadata([])
        print(f"Cluster ID: {client.cluster_id}")
    return 0


def run_broker_api_versions(arguments: Sequence[str]) -> int:
    """Print the APIs of all brokers, with the versions that minibroker's client would use."""
    made = parser("kafka-broker-api-versions", "This tool helps to retrieve broker version information.")
    add_bootstrap(made)
    with client_of(made.parse_args(arguments)) as client:
        brokers = sorted(client.metadata([]).brokers, key=lambda broker: broker.node_id)
        for broker in brokers:
            answer = client.to_node(broker.node_id, client.deadline()).api_versions
            lines = []
            for row in apis_of(answer):
                low, high = row["min_version"], row["max_version"]
                usable = row["usable"] if row["usable"] is not None else "none"
                lines.append(f"\t{row['name']}({row['api_key']}): {low if low == high else f'{low} to {high}'} [usable: {usable}]")
            entries = ",\n".join(lines)
            print(f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'} isFenced: false) -> (\n{entries}\n)")
    return 0


_PAUSE_S = 0.1


def run_cub(arguments: Sequence[str]) -> int:
    """Wait until the cluster has the expected number of brokers; 1 after the time-out."""
    made = parser("cub", "Wait for brokers.")
    made.add_argument("command", choices=["kafka-ready"])
    made.add_argument("-b", "--bootstrap-server", required=True)
    made.add_argument("-c", "--config")
    made.add_argument("-s", "--security")
    made.add_argument("expected_brokers", type=int)
    made.add_argument("timeout", type=float, help="Seconds.")
    options = made.parse_args(arguments)
    deadline_s = time.monotonic() + options.timeout
    problem = "no broker answered"
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            with client_of(options, max(1, int(left_s * 1000))) as client:
                there = len(client.metadata([]).brokers)
            if there >= options.expected_brokers:
                return 0
            problem = f"{there} brokers of {options.expected_brokers}"
        except (ClientError, KafkaError) as error:
            problem = describe(error)
        if time.monotonic() >= deadline_s:
            print(f"cub kafka-ready: {problem}", file=sys.stderr)
            return 1
        time.sleep(_PAUSE_S)
