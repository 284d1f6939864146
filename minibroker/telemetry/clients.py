"""The client instances that a broker knows by telemetry, with their metrics, also for a while after they have gone.

CLIENTS_MAX                 instances that are kept; the one that was silent for longest goes first
FORGOTTEN_AFTER_MS          until an instance without a connection is forgotten
TELEMETRY_BYTES_MAX         memory of all metrics; those of clients that were silent for longest go first
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.config.request_limits import TELEMETRY_BYTES_MAX, TELEMETRY_BYTES_OF_CLIENT_MAX
from minibroker.telemetry.payload import PREFIX, Kind, Labels, Payload, Point
from minibroker.telemetry.subscriptions import InstanceSubscription

CLIENTS_MAX: Final = 1_000
FORGOTTEN_AFTER_MS: Final = 300_000
CLIENT_ID_LETTERS_MAX: Final = 1_000  #: of a client id; longer ones are cut
_PUSHES_KEPT: Final = 3  #: a gauge that so many pushes did not have is forgotten
_STEP: Final = 500  #: values that are taken between two pauses: about 2 ms
_SAMPLE_BYTES: Final = 400  #: of a sample and its key, beside its texts


class Sample(NamedTuple):
    """The latest value of one metric with one set of labels."""

    name: str  #: with dots, as the client spells it
    kind: Kind
    unit: str
    labels: Labels
    value: float  #: a running total of a counter, also where the client pushes what was added; the sum of a histogram
    observation_count: int  #: of a histogram
    time_ms: int  #: by the client's clock


class Metrics(Mapping[str, float]):
    """Values by name. A counter's is the sum over all labels; a gauge with several sets of labels needs `value`.

    metrics["org.apache.kafka.producer.record.send.total"]     or without org.apache.kafka.
    metrics.value("producer.node.request.latency.avg", node_id="1")
    """

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.byte_count = 0  #: an estimate of the memory that the samples take
        self.is_complete = True  #: whether all metrics of the last push are here
        #: by name and labels, with the number of the push that had it
        self._samples: dict[tuple[str, Labels], tuple[Sample, int]] = {(each.name, each.labels): (each, 0) for each in samples}
        self._push_count = 0

    def samples(self) -> list[Sample]:
        """Return all samples."""
        return [sample for sample, _ in self._samples.values()]

    def update(self, payload: Payload) -> Iterator[None]:
        """Take the values of a push, with pauses."""
        self._push_count += 1
        self.is_complete = payload.is_complete
        for number, point in enumerate(payload.points, 1):
            self._take(point)
            if number % _STEP == 0:
                yield
        oldest = self._push_count - _PUSHES_KEPT
        for key in [key for key, (sample, number) in self._samples.items() if number <= oldest and sample.kind == "gauge"]:
            self.byte_count -= _size(self._samples.pop(key)[0])

    def clear(self) -> None:
        """Forget all values."""
        self._samples.clear()
        self.byte_count = 0
        self.is_complete = False

    def _take(self, point: Point) -> None:
        key = point.name, point.labels
        value, count = point.value, point.observation_count
        known = self._samples.get(key)
        if known is not None and point.is_delta:
            value, count = value + known[0].value, count + known[0].observation_count
        sample = Sample(point.name, point.kind, point.unit, point.labels, value, count, point.time_ms)
        if known is None:
            size = _size(sample)
            if self.byte_count + size > TELEMETRY_BYTES_OF_CLIENT_MAX:
                self.is_complete = False
                return
            self.byte_count += size
        self._samples[key] = sample, self._push_count

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the metric that has exactly these labels, else of the one that has others as well, or the sum of counters.

        Raises:
            KeyError: there is no such metric.
            ValueError: several gauges have these labels.
        """
        wanted = labels.items()
        found = [each for each in self._named(name) if wanted <= set(each.labels)]
        found = [each for each in found if len(each.labels) == len(wanted)] or found  # Java pushes a total beside those of each topic
        if not found:
            raise KeyError(f"{name} with labels {labels}" if labels else name)
        if len(found) > 1 and found[0].kind == "gauge":
            shown = "; ".join(", ".join(f"{key}={text}" for key, text in each.labels) for each in found[:5])
            raise ValueError(f"{name} has {len(found)} values, name labels of one: {shown}")
        return sum(each.value for each in found)

    def _named(self, name: str) -> list[Sample]:
        names = {name, PREFIX + name}
        return [sample for (each, _), (sample, _) in self._samples.items() if each in names]

    def __getitem__(self, name: str) -> float:
        return self.value(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._samples))

    def __len__(self) -> int:
        return len({name for name, _ in self._samples})


def _size(sample: Sample) -> int:
    texts = len(sample.name) + len(sample.unit) + sum(len(key) + len(text) for key, text in sample.labels)
    return _SAMPLE_BYTES + texts


class Caller(Protocol):
    """The connection of a client (dispatch/context.py)."""

    listener_name: str
    client_host: str
    client_port: int
    principal: str
    client_software_name: str
    client_software_version: str


class ClientInstance:
    """One client object of an application: a producer, a consumer or an admin client."""

    __slots__ = (
        "client_id", "first_seen_ms", "host", "instance_id", "is_connected", "is_terminated", "labels", "last_push_ms", "last_seen_ms",
        "listener_name", "metrics", "port", "principal", "push_count", "push_interval_ms", "requested_metrics", "software_name",
        "software_version",
    )  # fmt: skip

    def __init__(self, instance_id: UUID, client_id: str | None, caller: Caller, now_ms: int) -> None:
        self.instance_id = instance_id
        self.client_id = client_id
        self.software_name = caller.client_software_name
        self.software_version = caller.client_software_version
        self.host = caller.client_host
        self.port = caller.client_port
        self.principal = caller.principal
        self.listener_name = caller.listener_name
        self.first_seen_ms = self.last_seen_ms = now_ms
        self.last_push_ms = 0  #: 0: it has not pushed yet
        self.push_count = 0
        self.push_interval_ms = 0
        self.requested_metrics: tuple[str, ...] = ()
        self.is_connected = True
        self.is_terminated = False  #: it has said that it closes
        self.labels: Labels = ()  #: what it says about itself, such as group_id
        self.metrics = Metrics()


class Clients:
    """All known client instances of a broker."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, ClientInstance] = OrderedDict()  #: the one that was silent for longest first

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[ClientInstance]:
        """Return them in the order in which they were seen first."""
        return sorted(self._known.values(), key=lambda client: client.first_seen_ms)

    def seen(
        self, instance_id: UUID, client_id: str | None, caller: Caller, subscription: InstanceSubscription, now_ms: int
    ) -> ClientInstance:
        """Note a request of a client instance. Returns the instance."""
        client = self._known.get(instance_id)
        if client is None:
            client = self._known[instance_id] = ClientInstance(instance_id, client_id, caller, now_ms)
            while len(self._known) > CLIENTS_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(instance_id)
        client.last_seen_ms = now_ms
        client.is_connected = True
        client.host, client.port = caller.client_host, caller.client_port
        client.push_interval_ms, client.requested_metrics = subscription.interval_ms, subscription.metrics
        return client

    def pushed(self, client: ClientInstance, payload: Payload, now_ms: int, *, is_last: bool) -> Iterator[None]:
        """Take the metrics of a push, with pauses."""
        client.push_count += 1
        client.last_push_ms = now_ms
        client.is_terminated = is_last
        if payload.labels:
            client.labels = payload.labels
        yield from client.metrics.update(payload)
        self._make_room(client)

    def _make_room(self, newest: ClientInstance) -> None:
        # A running total would be wrong: pushes of one client may alternate, and one may pause while its metrics are forgotten.
        byte_count = sum([each.metrics.byte_count for each in self._known.values()])
        for each in self._known.values():
            if byte_count <= TELEMETRY_BYTES_MAX:
                return
            if each is not newest:
                byte_count -= each.metrics.byte_count
                each.metrics.clear()

    def disconnected(self, host: str, port: int) -> None:
        """Mark the instances of a connection that was closed."""
        for client in self._known.values():
            if client.port == port and client.host == host:
                client.is_connected = False

    def forget_silent(self, now_ms: int) -> None:
        """Forget instances that have gone some time ago."""
        gone = [each for each in self._known.values() if not each.is_connected and now_ms - each.last_seen_ms >= FORGOTTEN_AFTER_MS]
        for client in gone:
            del self._known[client.instance_id]
