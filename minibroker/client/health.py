"""Check over the wire whether a broker serves.

ApiVersions and Metadata show that its listener, loop and metadata log work. DescribeLogDirs without topics shows that its disks work.
"""

from __future__ import annotations

from typing import NamedTuple

from minibroker.client.address import Address
from minibroker.client.connection import Connect, connect
from minibroker.client.deadline import Deadline
from minibroker.client.errors import ClientError, check
from minibroker.schemas import k03_metadata, k35_describe_log_dirs


class Unhealthy(ClientError):  # noqa: N818  named for what was found, as its base's other kinds
    """The broker answers, but something that it needs does not work."""


class Health(NamedTuple):
    """The answers of a healthy broker."""

    address: Address
    cluster_id: str | None
    broker_count: int
    log_dir_count: int


def check_health(address: Address, deadline: Deadline, connect: Connect = connect) -> Health:
    """Check one broker.

    Raises:
        BrokerUnreachable, NotAKafkaBroker, TimedOut: it does not answer, or not in Kafka's protocol.
        Unhealthy: it answers; its metadata is empty, or a log directory is offline.
        KafkaError: it answers with an error.
    """
    connection = connect(address, deadline)
    try:
        metadata: k03_metadata.Response = connection.ask(k03_metadata, k03_metadata.Request(topics=[]), deadline)
        check(metadata.error_code, f"{address}: Metadata")
        if not metadata.brokers:
            raise Unhealthy(f"{address} knows of no broker, not even of itself: it may be starting")
        directories: k35_describe_log_dirs.Response = connection.ask(
            k35_describe_log_dirs, k35_describe_log_dirs.Request(topics=[]), deadline
        )
    finally:
        connection.close()
    check(directories.error_code, f"{address}: DescribeLogDirs")
    offline = [each.log_dir for each in directories.results if each.error_code]
    if offline:
        raise Unhealthy(f"{address}: log directory {', '.join(offline)} is offline: see the broker's log, then restart it")
    return Health(address, metadata.cluster_id, len(metadata.brokers), len(directories.results))
