"""Check versions, log directories, partitions, and settings that need more brokers than there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from minibroker.client.connection import Connection, api_name
from minibroker.client.doctor import OK, PROBLEM, WARNING, Finding
from minibroker.client.doctor.addresses import AdvertisedListener
from minibroker.client.errors import ClientError, check
from minibroker.client.transport import Address, Deadline, parse_bootstrap
from minibroker.schemas import k03_metadata, k32_describe_configs, k35_describe_log_dirs

#: API keys that every client needs, and the version that current clients send
NEEDED: Final = {0: 3, 1: 4, 2: 1, 3: 1, 8: 2, 9: 1, 10: 0, 11: 2, 12: 0, 14: 0}
TRANSACTIONS: Final = (22, 24, 25, 26, 28)
_SHOWN_MAX: Final = 5
_NEARLY_FULL: Final = 0.05  #: of a disk
_BROKER: Final = 4  #: ConfigResource.Type

#: property -> what fails if it is larger than the number of brokers
REPLICAS: Final = {
    "offsets.topic.replication.factor": "groups cannot commit offsets",
    "transaction.state.log.replication.factor": "transactions do not work",
    "share.coordinator.state.topic.replication.factor": "share groups do not work",
}
#: as above, but Apache Kafka 4 requires at most as many in-sync replicas as a partition has
IN_SYNC: Final = {
    "transaction.state.log.min.isr": "transactions do not work",
    "share.coordinator.state.topic.min.isr": "share groups do not work",
    "min.insync.replicas": "acks=all is rejected",
}
_MINIBROKER_ONLY: Final = "topic.partition.count.map"  #: minibroker never requires more replicas than there are brokers


def configs_of(connection: Connection, node_id: int, deadline: Deadline) -> dict[str, str | None]:
    """Return the configuration of a broker; KafkaError, also if the connection leads to another broker."""
    resource = k32_describe_configs.Resource(resource_type=_BROKER, resource_name=str(node_id), configuration_keys=None)
    answer: k32_describe_configs.Response = connection.ask(
        k32_describe_configs, k32_describe_configs.Request(resources=[resource]), deadline
    )
    for result in answer.results:
        check(result.error_code, f"configuration of broker {node_id}", result.error_message)
    return {config.name: config.value for result in answer.results for config in result.configs}


def listeners_of(configs: Mapping[str, str | None]) -> list[AdvertisedListener]:
    """Return the advertised listeners in a broker's configuration, without controllers and wildcard addresses."""
    controllers = {name.strip() for name in (configs.get("controller.listener.names") or "").split(",")}
    found = []
    for text in (configs.get("advertised.listeners") or configs.get("listeners") or "").split(","):
        name, _, address = text.strip().partition("://")
        host, _, port = address.rpartition(":")
        if name in controllers or not host.strip("[]") or not port.isdigit() or int(port) == 0:
            continue
        try:
            found.append(AdvertisedListener(name, *parse_bootstrap(address)))
        except ClientError:
            continue
    return found


def versions(connections: Mapping[int, Connection]) -> Iterator[Finding]:
    """Check that the brokers serve current clients, and that all serve the same versions."""
    ranges = {}
    for node_id, connection in sorted(connections.items()):
        served = {api.api_key: (api.min_version, api.max_version) for api in connection.api_versions.api_keys}
        ranges[node_id] = served
        missing = [f"{api_name(key)} {least}" for key, least in NEEDED.items() if served.get(key, (0, -1))[1] < least]
        if missing:
            yield Finding(
                PROBLEM, f"broker {node_id}", f"does not serve {', '.join(missing)}, which current clients need", "Use a newer broker"
            )
            continue
        newest = f"Produce {served[0][1]}, Fetch {served[1][1]}, Metadata {served[3][1]}"
        suffix = "" if all(key in served for key in TRANSACTIONS) else ", no transactions"
        yield Finding(OK, f"broker {node_id}", f"serves {len(served)} APIs, {newest}{suffix}")
    if any(each != next(iter(ranges.values())) for each in ranges.values()):
        advice = "Finish the upgrade; until then, clients use the versions that all brokers serve"
        yield Finding(WARNING, "cluster", "brokers serve different versions", advice)


def log_dirs(node_id: int, connection: Connection, deadline: Deadline) -> Iterator[Finding]:
    """Check that the log directories of a broker are online and have free space."""
    request = k35_describe_log_dirs.Request(topics=[])
    answer: k35_describe_log_dirs.Response = connection.ask(k35_describe_log_dirs, request, deadline)
    check(answer.error_code, f"log directories of broker {node_id}")
    subject = f"broker {node_id}"
    for each in answer.results:
        if each.error_code:
            advice = "The broker's log has the reason, usually a full or broken disk. Correct it, then restart the broker"
            yield Finding(PROBLEM, subject, f"log directory {each.log_dir} is offline", advice)
        elif 0 <= each.usable_bytes < each.total_bytes * _NEARLY_FULL:
            megabytes = each.usable_bytes // 1_000_000
            advice = "Delete topics, lower retention.bytes or retention.ms, or add a directory to log.dirs"
            yield Finding(WARNING, subject, f"log directory {each.log_dir} has {megabytes} MB left", advice)
        else:
            yield Finding(OK, subject, f"log directory {each.log_dir} is online")


def partitions(connection: Connection, deadline: Deadline, *, is_limited: bool = False) -> Iterator[Finding]:
    """Find partitions without a leader, and those with too few in-sync replicas. A limited user may not see all topics."""
    metadata: k03_metadata.Response = connection.ask(
        k03_metadata, k03_metadata.Request(topics=None, allow_auto_topic_creation=False), deadline
    )
    check(metadata.error_code, "topics")
    all_partitions = [(f"{topic.name}-{each.partition_index}", each) for topic in metadata.topics for each in topic.partitions]
    leaderless = [name for name, each in all_partitions if each.leader_id < 0]
    lagging = [name for name, each in all_partitions if each.leader_id >= 0 and len(each.isr_nodes) < len(each.replica_nodes)]
    if leaderless:
        advice = "Start the brokers that have them. If a log directory is offline, see the broker's log and restart the broker"
        yield Finding(PROBLEM, "topics", f"partitions without a leader: {_some(leaderless)}", advice)
    if lagging:
        text = f"partitions with replicas that are not in sync: {_some(lagging)}"
        yield Finding(WARNING, "topics", text, "Start the brokers that have them")
    if not leaderless and not lagging:
        yield Finding(OK, "topics", _counted(metadata.topics, is_limited=is_limited))


def replicas(node_id: int, configs: Mapping[str, str | None], broker_count: int) -> Iterator[Finding]:
    """Find settings that need more brokers than there are, such as Apache Kafka's defaults on one broker."""
    if _MINIBROKER_ONLY in configs:
        return
    for name, consequence in (REPLICAS | IN_SYNC).items():
        text = configs.get(name) or ""
        if not text.isdigit() or int(text) <= broker_count:
            continue
        brokers = "there is 1 broker" if broker_count == 1 else f"only {broker_count} brokers are up"
        advice = f"Set {name}={broker_count} before its topic is first used"
        if broker_count > 1:
            advice = f"Start the other brokers, or s{advice[1:]}"
        if name in IN_SYNC:
            yield Finding(WARNING, f"broker {node_id}", f"{name} is {text}, and {brokers}: before Apache Kafka 4.0 {consequence}", advice)
        else:
            yield Finding(PROBLEM, f"broker {node_id}", f"{name} is {text}, and {brokers}: {consequence}", advice)


def bootstraps(reached: Mapping[Address, str | None]) -> Iterator[Finding]:
    """Check that all bootstrap addresses lead to one cluster."""
    if len(set(reached.values())) > 1:
        found = ", ".join(f"{address} of {cluster_id}" for address, cluster_id in reached.items())
        advice = "Give the addresses of one cluster"
        yield Finding(PROBLEM, "bootstrap", f"the addresses belong to different clusters: {found}", advice)


def _counted(topics: Sequence[k03_metadata.TopicResult], *, is_limited: bool) -> str:
    if not topics:
        return "this user sees no topic" if is_limited else "there are no topics yet"
    internal = sum(topic.is_internal for topic in topics)
    topic_count = f"{len(topics)} topic{'' if len(topics) == 1 else 's'}{f' ({internal} of them internal)' if internal else ''}"
    count = sum(len(topic.partitions) for topic in topics)
    seen = "; this user may not see others" if is_limited else ""
    return f"{topic_count}, {count} partition{'' if count == 1 else 's'}, all with a leader{seen}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_MAX
    return f"{', '.join(names[:_SHOWN_MAX])}{f' and {more} more' if more > 0 else ''}"
