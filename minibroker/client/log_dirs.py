"""Describe the log directories of brokers."""

from __future__ import annotations

from collections.abc import Collection

from minibroker.client.client import Client
from minibroker.client.deadline import Deadline
from minibroker.client.errors import check
from minibroker.errors import BrokerNotAvailable, KafkaError
from minibroker.schemas import k35_describe_log_dirs


def describe_log_dirs(client: Client, node_ids: Collection[int] = ()) -> dict[int, list[k35_describe_log_dirs.LogDirResult] | KafkaError]:
    """Return the log directories of each broker (without `node_ids`: of all), or its error. Errors of directories stay in the response."""
    deadline = client.deadline()
    client.metadata([], deadline)
    found: dict[int, list[k35_describe_log_dirs.LogDirResult] | KafkaError] = {}
    for node_id in sorted(set(node_ids) or client.brokers):
        if node_id not in client.brokers:
            found[node_id] = BrokerNotAvailable(f"broker {node_id} is not in the cluster's metadata: it may be down")
            continue
        try:
            answer = client.retrying(lambda node_id=node_id: _of_broker(client, node_id, deadline), deadline)  # type: ignore[misc]  # mypy does not infer a lambda with a default
            found[node_id] = sorted(answer.results, key=lambda each: each.log_dir)
        except KafkaError as error:
            found[node_id] = error
    return found


def _of_broker(client: Client, node_id: int, deadline: Deadline) -> k35_describe_log_dirs.Response:
    request = k35_describe_log_dirs.Request(topics=None)
    response: k35_describe_log_dirs.Response = client.to_node(node_id, deadline).ask(k35_describe_log_dirs, request, deadline)
    check(response.error_code, f"log directories of broker {node_id}")
    return response
