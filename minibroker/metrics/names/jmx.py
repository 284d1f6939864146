"""The names of Apache Kafka's JMX metrics, as the JMX exporter's rules of Confluent and Strimzi spell them, and as Strimzi's reporter does.

    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=orders
        Confluent   kafka_server_brokertopicmetrics_bytesinpersec{topic="orders"}            a counter of type untyped, as there
        Strimzi     kafka_server_brokertopicmetrics_bytesin_total{topic="orders"}
        reporter    kafka_server_brokertopicmetrics_bytesinpersec_total{topic="orders"}      names `reporter`

The series without a topic counts all topics, also deleted ones. Quantiles are interpolated in fixed buckets over the whole run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from minibroker.cluster.topic import TRANSACTION_STATE_TOPIC
from minibroker.errors import BY_CODE
from minibroker.handlers.fetch.session import FetchSessionCache
from minibroker.metrics.counts import ApiCounts, Times
from minibroker.metrics.family import Column, Family, Names, Samples, single
from minibroker.metrics.labels import NO_LABELS, labels
from minibroker.metrics.names.exporters import by_partition, gauge
from minibroker.metrics.state import NO_LEADER, PartitionState, State, TopicState
from minibroker.server.listener import AcceptedConnection

QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
RUNNING: Final = 3  #: BrokerState.RUNNING
_FIRST_APIS: Final = ("Produce", "Fetch", "FetchConsumer", "Metadata")  #: with series before their first request
_SECONDS: Final = 1000  #: milliseconds
_IO: Final = Path("/proc/self/io")

#: field of TopicState or TopicCounts -> (name without PerSec, what it counts)
_TOPIC_COUNTERS: Final = {
    "messages_in": ("messagesin", "Records that were appended."),
    "bytes_in": ("bytesin", "Bytes of batches that were appended."),
    "bytes_out": ("bytesout", "Bytes of batches that were sent to consumers."),
    "produces": ("totalproducerequests", "Partitions of Produce requests."),
    "failed_produces": ("failedproducerequests", "Partitions of Produce requests that failed."),
    "fetches": ("totalfetchrequests", "Partitions in responses to Fetch requests."),
    "failed_fetches": ("failedfetchrequests", "Partitions in responses to Fetch requests that failed."),
}


def counter(name: str, text: str, samples: Callable[[State], Samples]) -> Family:
    """Return a counter; `untyped` if its name does not end as OpenMetrics demands, as with the JMX exporter."""
    return Family(name, "counter" if name.endswith("_total") else "untyped", text, samples)


def _topics(state: State) -> list[TopicState]:
    return state.topics_and_total


def _of_topics(field: str) -> Column[TopicState]:
    return Column(_topics, attrgetter(field if field in TopicState._fields else f"counts.{field}"))


def _topic_counters(spelling: Callable[[str], str]) -> list[Family]:
    return [
        counter(f"kafka_server_brokertopicmetrics_{spelling(name)}", text, _of_topics(field))
        for field, (name, text) in _TOPIC_COUNTERS.items()
    ]


# -- partitions ---------------------------------------------------------------------------------------------------------


def _least_in_sync(partition: PartitionState) -> int:
    return min(partition.min_in_sync, len(partition.replicas))


def is_under_min_in_sync(partition: PartitionState) -> bool:
    """Whether acks=all fails in the partition."""
    return len(partition.in_sync) < _least_in_sync(partition)


def is_at_min_in_sync(partition: PartitionState) -> bool:
    """Whether acks=all fails once another replica leaves the in-sync set."""
    return len(partition.in_sync) == _least_in_sync(partition)


def _is_under_replicated(partition: PartitionState) -> bool:
    return len(partition.in_sync) < len(partition.replicas)


def _count(condition: Callable[[PartitionState], bool]) -> Callable[[State], Samples]:
    return single(lambda state: sum(map(condition, state.partitions)))


_PARTITIONS: Final = (
    gauge("kafka_cluster_partition_replicascount", "Number of replicas.", by_partition(lambda each: len(each.replicas))),
    gauge("kafka_cluster_partition_insyncreplicascount", "Number of in-sync replicas.", by_partition(lambda each: len(each.in_sync))),
    gauge(
        "kafka_cluster_partition_underreplicated",
        "1 if replicas are not in sync.",
        by_partition(lambda each: int(_is_under_replicated(each))),
    ),
    gauge("kafka_cluster_partition_underminisr", "1 if acks=all fails.", by_partition(lambda each: int(is_under_min_in_sync(each)))),
    gauge(
        "kafka_cluster_partition_atminisr",
        "1 if acks=all fails once another replica leaves the in-sync set.",
        by_partition(lambda each: int(is_at_min_in_sync(each))),
    ),
    gauge(
        "kafka_cluster_partition_laststableoffsetlag",
        "Offsets from the last stable offset to the high watermark.",
        by_partition(lambda each: each.high_watermark - each.last_stable_offset),
    ),
    gauge("kafka_log_log_logstartoffset", "Log start offset.", by_partition(attrgetter("log_start_offset"))),
    gauge("kafka_log_log_logendoffset", "Log end offset.", by_partition(attrgetter("log_end_offset"))),
    gauge("kafka_log_log_size", "Bytes of the log.", by_partition(attrgetter("size"))),
    gauge("kafka_log_log_numlogsegments", "Number of segments.", by_partition(attrgetter("segment_count"))),
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed.",
        single(lambda state: sum(each.offline_cause is not None for each in state.cluster.log_directories)),
    ),
)


# -- controller, replicas, quorum ---------------------------------------------------------------------------------------


def _epoch(state: State) -> int:
    return state.cluster.metadata.leader_epoch


def _leads(name: str, label: str = "current_state") -> Family:
    return gauge(name, "1 for the state of this member of the quorum.", lambda _: (("", labels(**{label: "leader"}), 1),))


def _raft(prefix: str, state_name: str) -> list[Family]:
    return [
        _leads(f"{prefix}_{state_name}"),
        gauge(f"{prefix}_current_leader", "Node id of the controller.", single(lambda state: state.services.nodes.controller_id)),
        gauge(f"{prefix}_current_vote", "Node id of the controller.", single(lambda state: state.services.nodes.controller_id)),
        gauge(f"{prefix}_current_epoch", "Leader epoch of the metadata log.", single(_epoch)),
        gauge(
            f"{prefix}_high_watermark", "High watermark of the metadata log.", single(lambda state: state.cluster.metadata.last_offset + 1)
        ),
        gauge(f"{prefix}_log_end_offset", "End of the metadata log.", single(lambda state: state.cluster.metadata.last_offset + 1)),
        gauge(
            f"{prefix}_append_records_rate",
            "Records appended to the metadata log a second.",
            single(lambda state: state.rates.values["metadata"]),
        ),
    ]


_CONTROLLER: Final = (
    gauge("kafka_controller_kafkacontroller_activecontrollercount", "1: this process is the controller.", single(lambda _: 1)),
    gauge("kafka_controller_kafkacontroller_activebrokercount", "Brokers that run.", single(lambda state: len(state.services.nodes.alive))),
    gauge("kafka_controller_kafkacontroller_globaltopiccount", "Number of topics.", single(lambda state: len(state.topics))),
    gauge("kafka_controller_kafkacontroller_globalpartitioncount", "Number of partitions.", _count(lambda _: True)),
    gauge(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "Partitions without leader.",
        _count(lambda each: each.leader_id == NO_LEADER),
    ),
    gauge(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "Partitions whose leader is not the first replica.",
        _count(lambda each: each.leader_id != each.replicas[0]),
    ),
    gauge("kafka_server_replicamanager_partitioncount", "Number of partitions.", _count(lambda _: True)),
    gauge("kafka_server_replicamanager_leadercount", "Partitions with a leader.", _count(lambda each: each.leader_id != NO_LEADER)),
    gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions with replicas that are not in sync.",
        _count(_is_under_replicated),
    ),
    gauge("kafka_server_replicamanager_underminisrpartitioncount", "Partitions in which acks=all fails.", _count(is_under_min_in_sync)),
    gauge("kafka_server_replicamanager_atminisrpartitioncount", "Partitions without a spare in-sync replica.", _count(is_at_min_in_sync)),
    gauge("kafka_server_kafkaserver_brokerstate", "3: the broker runs.", single(lambda _: RUNNING)),
)


def _changes(spelling: Callable[[str], str]) -> list[Family]:
    def of(field: str) -> Callable[[State], Samples]:
        return single(lambda state: getattr(state.cluster.leadership.changes, field))

    return [
        counter(f"kafka_server_replicamanager_{spelling('isrshrinks')}", "Partitions that lost an in-sync replica.", of("in_sync_shrinks")),
        counter(
            f"kafka_server_replicamanager_{spelling('isrexpands')}", "Partitions that got an in-sync replica.", of("in_sync_expansions")
        ),
        counter(
            f"kafka_controller_controllerstats_{spelling('uncleanleaderelections')}",
            "Leaders that were not in sync.",
            of("unclean_elections"),
        ),
    ]


# -- requests -----------------------------------------------------------------------------------------------------------


def _apis(state: State) -> Iterator[tuple[str, ApiCounts]]:
    """Return the counters by Kafka's name of the request. All fetches are of consumers: minibroker has no followers."""
    counted = {counts.name: counts for counts in state.meter.apis.values()}
    if "Fetch" in counted:
        counted["FetchConsumer"] = counted["Fetch"]
    for name in dict.fromkeys([*_FIRST_APIS, *counted]):
        yield name, counted.get(name) or ApiCounts(name)


def _requests(state: State) -> Samples:
    for name, counts in _apis(state):
        for version, count in counts.requests.items():
            yield "", labels(request=name, version=version), count
        if not counts.requests:
            yield "", labels(request=name), 0


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return "NONE" if not code else BY_CODE[code].name if code in BY_CODE else str(code)


def _errors(state: State) -> Samples:
    for name, counts in _apis(state):
        for code, count in (counts.errors or {0: 0}).items():
            yield "", labels(request=name, error=error_name(code)), count


def _times(phase: str) -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        for name, counts in _apis(state):
            times: Times = getattr(counts, phase)
            for text in QUANTILES:
                yield "", labels(request=name, quantile=text), times.quantile(float(text)) * _SECONDS
            of_request = labels(request=name)
            yield "_sum", of_request, times.total_s * _SECONDS
            yield "_count", of_request, times.count

    return samples


_PHASES: Final = {
    "requestqueuetimems": ("queue", "From the arrival of a request to its handler."),
    "localtimems": ("local", "In the handler."),
    "remotetimems": ("remote", "Waiting for records, members or a sync."),
    "responsequeuetimems": ("response_queue", "From the response to its write."),
    "responsesendtimems": ("send", "The write to the socket."),
    "totaltimems": ("total", "From the arrival of a request to the write of its response."),
}

_REQUESTS: Final = (
    counter("kafka_network_requestmetrics_requestspersec", "Requests.", _requests),
    counter("kafka_network_requestmetrics_errorspersec", "Error codes in responses, NONE for success.", _errors),
    *(
        Family(f"kafka_network_requestmetrics_{name}", "summary", f"Milliseconds. {text}", _times(phase))
        for name, (phase, text) in _PHASES.items()
    ),
)


# -- connections, sessions, groups, transactions, quotas --------------------------------------------------------------------


def _connection_count(state: State) -> Samples:
    for listener, count in Counter(each.name for each in state.broker.listeners for _ in each.connections).items():
        yield "", labels(listener=listener), count
    for listener in {each.name for each in state.broker.listeners if not each.connections}:
        yield "", labels(listener=listener), 0


def _connection_rate(kind: str) -> Callable[[State], Samples]:
    return lambda state: (
        ("", labels(listener=name.partition(":")[2]), value) for name, value in state.rates.values.items() if name.startswith(f"{kind}:")
    )


def clients(connections: Iterable[AcceptedConnection]) -> Counter[tuple[str, str, str]]:
    """Return the number of connections by listener and the client's software and version."""
    return Counter((each.info.listener_name, each.info.client_software_name, each.info.client_software_version) for each in connections)


def _clients(state: State) -> Samples:
    for (listener, software, version), count in clients(state.broker.connections).items():
        yield "", labels(listener=listener, client_software_name=software, client_software_version=version), count


def sessions(state: State) -> Iterator[FetchSessionCache]:
    """Return the fetch sessions of each broker that clients see."""
    return (each.services.fetch_sessions for each in state.broker.nodes if each.services.fetch_sessions is not None)


def _groups_in(*states: str) -> Callable[[State], Samples]:
    return single(lambda state: sum(not states or each.state in states for each in state.groups))


def _open_for_longest(state: State) -> float:
    now_ms = state.now_ms
    return max(
        (now_ms - each.start_timestamp_ms for each in state.transactions if each.partitions and each.start_timestamp_ms > 0), default=0
    )


def _transactions_size(state: State) -> float:
    return sum(each.size for topic in state.topics if topic.name == TRANSACTION_STATE_TOPIC for each in topic.partitions)


def _timeouts(state: State) -> float:
    coordinator = state.services.coordinators.started_transactions
    return 0 if coordinator is None else coordinator.timed_out


def _quota(kind: str, field: str) -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        quotas = state.services.quotas
        if quotas is not None:
            for (user, client_id), rate, throttle_ms in quotas.present(kind):
                names: dict[str, Any] = {"user": (user or "").removeprefix("User:"), "client_id": client_id or ""}
                yield "", labels(**names), rate if field == "rate" else throttle_ms

    return samples


_GROUP: Final = "kafka_coordinator_group_groupmetadatamanager"
_TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics"
_IDLE: Final = "Part of the time in which the loop's thread did not compute since the last scrape: it serves both network and requests."


def _idle(name: str) -> Family:
    return gauge(name, _IDLE, single(lambda state: state.rates.idle_part))


def _disk(name: str, field: str) -> Family:
    def samples(_: State) -> Samples:
        try:
            counted = dict(line.split(": ") for line in _IO.read_text(encoding="ascii").splitlines())
        except (OSError, ValueError):
            return  # not Linux
        yield "", NO_LABELS, int(counted[field])

    return gauge(name, "Bytes that this process caused to be read or written, as the kernel counts them.", samples)


_SERVER: Final = (
    gauge("kafka_server_socketservermetrics_connection_count", "Open connections.", _connection_count),
    gauge("kafka_server_socketservermetrics_connection_creation_rate", "New connections a second.", _connection_rate("accepted")),
    gauge("kafka_server_socketservermetrics_connection_close_rate", "Closed connections a second.", _connection_rate("closed")),
    gauge("kafka_server_socketservermetrics_connections", "Open connections by client library.", _clients),
    gauge("kafka_server_socket_server_metrics_connection_count", "Open connections.", _connection_count),
    _idle("kafka_network_socketserver_networkprocessoravgidlepercent"),
    _idle("kafka_network_socketserver_networkprocessoravgidle_percent"),
    _idle("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"),
    _idle("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate"),
    gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions.",
        single(lambda state: sum(map(len, sessions(state)))),
    ),
    gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in fetch sessions.",
        single(lambda state: sum(each.partition_count for each in sessions(state))),
    ),
    counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec",
        "Fetch sessions that made room for others.",
        single(lambda state: sum(each.evictions for each in sessions(state))),
    ),
    gauge(f"{_GROUP}_numgroups", "Groups of all kinds.", _groups_in()),
    gauge(f"{_GROUP}_numgroupspreparingrebalance", "Groups in that state.", _groups_in("PreparingRebalance")),
    gauge(f"{_GROUP}_numgroupscompletingrebalance", "Groups in that state.", _groups_in("CompletingRebalance")),
    gauge(f"{_GROUP}_numgroupsstable", "Groups in that state.", _groups_in("Stable")),
    gauge(f"{_GROUP}_numgroupsempty", "Groups without members.", _groups_in("Empty")),
    gauge(f"{_GROUP}_numgroupsdead", "Groups in that state.", _groups_in("Dead")),
    gauge(f"{_TRANSACTIONS}_transactional_id_count", "Transactional ids.", single(lambda state: len(state.transactions))),
    gauge(
        f"{_TRANSACTIONS}_active_transaction_total_time_max",
        "Milliseconds since the start of the oldest open transaction.",
        single(_open_for_longest),
    ),
    gauge(f"{_TRANSACTIONS}_partitions_total_size", "Bytes of __transaction_state.", single(_transactions_size)),
    counter(f"{_TRANSACTIONS}_transaction_timeout_count", "Transactions that timed out.", single(_timeouts)),
    gauge(
        f"{_TRANSACTIONS}_transaction_timeout_rate",
        "Transactions that timed out, a second.",
        single(lambda state: state.rates.values["transaction_timeouts"]),
    ),
    gauge("kafka_server_produce_byte_rate", "Bytes a second of clients with a quota.", _quota("producer_byte_rate", "rate")),
    gauge("kafka_server_produce_throttle_time", "Milliseconds that such a client must wait now.", _quota("producer_byte_rate", "throttle")),
    gauge("kafka_server_fetch_byte_rate", "Bytes a second of clients with a quota.", _quota("consumer_byte_rate", "rate")),
    gauge("kafka_server_fetch_throttle_time", "Milliseconds that such a client must wait now.", _quota("consumer_byte_rate", "throttle")),
    gauge("kafka_server_request_request_time", "Percent of the time for clients with a quota.", _quota("request_percentage", "rate")),
    gauge("kafka_server_request_throttle_time", "Milliseconds that such a client must wait now.", _quota("request_percentage", "throttle")),
    _disk("kafka_server_kafkaserver_linux_disk_read_bytes", "read_bytes"),
    _disk("kafka_server_kafkaserver_linux_disk_write_bytes", "write_bytes"),
)


def _per_second(name: str) -> str:
    return f"{name}persec"


def _total(name: str) -> str:
    return f"{name}_total"


def _per_second_total(name: str) -> str:
    return f"{name}persec_total"


JMX: Final = Names(
    "jmx",
    (
        *_topic_counters(_per_second),
        *_topic_counters(_total),
        *_PARTITIONS,
        *_CONTROLLER,
        *_changes(_per_second),
        *_changes(_total),
        *_REQUESTS,
        *_SERVER,
        *_raft("kafka_server_raftmetrics", "current_state"),
    ),
)

REPORTER: Final = Names(
    "reporter",
    (
        *_topic_counters(_per_second_total),
        *_changes(_per_second_total),
        _idle("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total"),
        *_raft("kafka_server_raft_metrics", "current_state_info"),
    ),
)
