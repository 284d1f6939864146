"""`minibroker cluster`: an overview of a cluster, as `kcat -L` and `kafka-broker-api-versions` give one."""

from __future__ import annotations

from typing import Any, Final

import click

from minibroker.cli.options import client_command, output_option
from minibroker.cli.output import FORMATS, emit, table
from minibroker.client.client import Client
from minibroker.schemas.k03_metadata import TopicResult

COLUMNS: Final = ("id", "address", "rack", "controller", "leads", "replicas", "out_of_sync")


@click.command(
    epilog="""\b
Examples:
  minibroker cluster
  minibroker cluster -o json | jq .offline_partitions
"""
)
@output_option(*(form for form in FORMATS if form != "name"))
@client_command
def cluster(client: Client, *, output: str) -> None:
    """Show the brokers of a cluster, its controller, topics and partitions.

    LEADS and REPLICAS count the partitions that a broker leads and has. OUT OF SYNC counts its replicas that are not in the ISR.
    """
    response = client.metadata(None)
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    brokers = [
        {
            "id": broker.node_id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "controller": broker.node_id == response.controller_id,
            "leads": sum(partition.leader_id == broker.node_id for partition in partitions),
            "replicas": sum(broker.node_id in partition.replica_nodes for partition in partitions),
            "out_of_sync": sum(
                broker.node_id in partition.replica_nodes and broker.node_id not in partition.isr_nodes for partition in partitions
            ),
        }
        for broker in sorted(response.brokers, key=lambda broker: broker.node_id)
    ]
    found = {"cluster_id": response.cluster_id, "controller": response.controller_id, **_counts(response.topics), "brokers": brokers}
    if output == "table":
        click.echo(_headline(found))
        click.echo(table(brokers, COLUMNS))
    else:
        emit([found], output, columns=(), is_single=True)


def _counts(topics: list[TopicResult]) -> dict[str, Any]:
    own = [topic for topic in topics if not topic.is_internal]
    partitions = [partition for topic in topics for partition in topic.partitions]
    return {
        "topics": len(own),
        "partitions": sum(len(topic.partitions) for topic in own),
        "internal_topics": len(topics) - len(own),
        "offline_partitions": sum(partition.leader_id < 0 for partition in partitions),
        "under_replicated_partitions": sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions),
    }


def _headline(found: dict[str, Any]) -> str:
    text = f"Cluster {found['cluster_id']}: {_number(found['topics'], 'topic')}, {_number(found['partitions'], 'partition')}"
    if found["internal_topics"]:
        text += f", {_number(found['internal_topics'], 'internal topic')}"
    for name in ("offline", "under_replicated"):
        if found[f"{name}_partitions"]:
            text += f", {_number(found[f'{name}_partitions'], name.replace('_', '-') + ' partition')}"
    return text


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
