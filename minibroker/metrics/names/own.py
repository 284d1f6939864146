"""minibroker's own names: what no other program knows of a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Final

import minibroker
from minibroker.handlers.fetch.session import FetchSessionCache
from minibroker.metrics.counts import BOUNDS, Times
from minibroker.metrics.family import Column, Family, Names, Samples, go_float, single
from minibroker.metrics.labels import NO_LABELS, Labels, labels
from minibroker.metrics.names.exporters import by_partition, gauge
from minibroker.metrics.names.jmx import clients, error_name
from minibroker.metrics.state import GroupOffset, PartitionState, State

_BOUNDS: Final = (*map(go_float, BOUNDS), "+Inf")


def _histogram(times: Times, **of_series: object) -> Samples:
    for bound, count in zip(_BOUNDS, accumulate(times.buckets), strict=True):
        yield "_bucket", labels(**of_series, le=bound), count
    plain: Labels = labels(**of_series) if of_series else NO_LABELS
    yield "_sum", plain, times.total_s
    yield "_count", plain, times.count


def _request_seconds(state: State) -> Samples:
    for counts in state.meter.apis.values():
        yield from _histogram(counts.total, api=counts.name)


def _of_api(field: str) -> Callable[[State], Samples]:
    return lambda state: (("", labels(api=counts.name), getattr(counts, field)) for counts in state.meter.apis.values())


def _requests(state: State) -> Samples:
    for api in state.meter.apis.values():
        for (broker_id, version), counts in api.plans.items():
            yield "", labels(api=api.name, broker_id=broker_id, version=version), counts.requests


def _errors(state: State) -> Samples:
    for counts in state.meter.apis.values():
        for code, count in counts.errors.items():
            if code:
                yield "", labels(api=counts.name, error=error_name(code)), count


def _connections(state: State) -> Samples:
    for served in state.broker.nodes:
        for (listener, software, version), count in clients(served.connections).items():
            of_series = labels(
                broker_id=served.node.node_id, listener=listener, client_software_name=software, client_software_version=version
            )
            yield "", of_series, count


def _accepted(state: State) -> Samples:
    for served in state.broker.nodes:
        for listener in served.listeners:
            yield "", labels(broker_id=served.node.node_id, listener=listener.name), listener.accepted


def _of_sessions(value: Callable[[FetchSessionCache], int]) -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        for served in state.broker.nodes:
            sessions = served.services.fetch_sessions
            yield "", labels(broker_id=served.node.node_id), 0 if sessions is None else value(sessions)

    return samples


def _by_broker(broker_ids: Callable[[PartitionState], Sequence[int]]) -> Callable[[State], Samples]:
    """Return the number of partitions of each broker, also of those that are stopped."""

    def samples(state: State) -> Samples:
        counts = Counter(chain.from_iterable(map(broker_ids, state.partitions)))
        for served in state.broker.nodes:
            yield "", labels(broker_id=served.node.node_id), counts[served.node.node_id]

    return samples


def _memory(field: str) -> Callable[[State], Samples]:
    """The listeners of a broker share their memory; each simulated broker has its own."""

    def used(state: State) -> int:
        return sum(getattr(each, field).used for each in {id(getattr(each, field)): each for each in state.broker.listeners}.values())

    return single(used)


def _known_lags(state: State) -> list[GroupOffset]:
    return [each for each in state.offsets if each.marker_count is not None]


def _lag_records(offset: GroupOffset) -> int:
    return max(offset.lag - (offset.marker_count or 0), 0)


def _group_states(state: State) -> Samples:
    return (("", labels(group=each.group_id, type=each.group_type, state=each.state), 1) for each in state.groups)


def _log_dirs(state: State) -> Samples:
    return (("", labels(path=each.path), int(each.offline_cause is None)) for each in state.cluster.log_directories)


def _slow_turns(state: State) -> float:
    return sum(each.slow_turns for each in {id(listener.watchdog): listener.watchdog for listener in state.broker.listeners}.values())


OWN: Final = Names(
    "minibroker",
    (
        gauge("minibroker_build_info", "The version.", lambda _: (("", labels(version=minibroker.__version__), 1),)),
        gauge(
            "minibroker_loop_delay_seconds",
            "How long a turn of the event loop took during this scrape.",
            single(lambda state: state.loop_delay_s),
        ),
        Family(
            "minibroker_turn_seconds",
            "histogram",
            "How long the loop served one connection before others had their turn.",
            lambda state: _histogram(state.meter.turns),
        ),
        Family("minibroker_slow_turns_total", "counter", "Turns of the loop above 100 ms, which are logged.", single(_slow_turns)),
        Family("minibroker_requests_total", "counter", "Requests.", _requests),
        Family("minibroker_request_errors_total", "counter", "Error codes in responses.", _errors),
        Family("minibroker_request_seconds", "histogram", "From the arrival of a request to the write of its response.", _request_seconds),
        Family("minibroker_request_bytes_total", "counter", "Bytes of requests.", _of_api("request_bytes")),
        Family("minibroker_response_bytes_total", "counter", "Bytes of responses, estimated under load.", _of_api("response_bytes")),
        gauge("minibroker_parked_requests", "Requests that wait for records.", single(lambda state: state.broker.purgatory.count)),
        gauge("minibroker_fetch_sessions", "Fetch sessions.", _of_sessions(len)),
        gauge("minibroker_fetch_session_partitions", "Partitions in fetch sessions.", _of_sessions(attrgetter("partition_count"))),
        gauge("minibroker_broker_partitions_led", "Partitions that a broker leads.", _by_broker(lambda each: (each.leader_id,))),
        gauge("minibroker_broker_replicas", "Partitions that a broker has a replica of.", _by_broker(attrgetter("replicas"))),
        gauge("minibroker_connections", "Open connections by client library.", _connections),
        Family("minibroker_connections_accepted_total", "counter", "Connections since the start, also refused ones.", _accepted),
        gauge("minibroker_answer_memory_bytes", "Bytes of responses that clients have not taken.", _memory("answer_memory")),
        gauge("minibroker_request_memory_bytes", "Bytes of the receive buffers of connections.", _memory("request_memory")),
        gauge(
            "minibroker_compactions_running",
            "Logs that are being compacted.",
            single(lambda state: len(state.cluster.logs.cleaner.running)),
        ),
        Family(
            "minibroker_compactions_total",
            "counter",
            "Logs that were compacted.",
            single(lambda state: state.cluster.logs.cleaner.completed),
        ),
        gauge(
            "minibroker_compactions_failed",
            "Logs that are not compacted until the next start.",
            single(lambda state: len(state.cluster.logs.cleaner.set_aside)),
        ),
        gauge("minibroker_log_directory_online", "1 if a log directory works.", _log_dirs),
        gauge(
            "minibroker_partition_last_stable_offset",
            "Where read_committed consumers stop.",
            by_partition(attrgetter("last_stable_offset")),
        ),
        gauge("minibroker_partition_open_transactions", "Open transactions.", by_partition(attrgetter("open_transactions"))),
        gauge("minibroker_group_state", "1 for the state of a group.", _group_states),
        gauge(
            "minibroker_group_lag_records",
            "Records that a group has not read: the lag without transaction markers. Unknown markers: no series.",
            Column(_known_lags, _lag_records),
        ),
    ),
)
