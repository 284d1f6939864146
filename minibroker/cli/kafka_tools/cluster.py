"""kafka-cluster: the id of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.cli.kafka_tools.arguments import add_bootstrap, client_of, parser


def run(arguments: Sequence[str]) -> int:
    """Print it as Kafka's ClusterTool does."""
    made = parser("kafka-cluster", "The Kafka cluster tool.")
    made.add_argument("command", choices=["cluster-id"])
    add_bootstrap(made)
    with client_of(made.parse_args(arguments)) as client:
        client.metadata([])
        print(f"Cluster ID: {client.cluster_id}")
    return 0
