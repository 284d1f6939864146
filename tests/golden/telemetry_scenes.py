"""Requests of client telemetry, in an order: what each client gets from Apache Kafka (captures/telemetry.py) and from minibroker.

`play` notes answers in words that are equal for two brokers: an instance id that the broker chose is "new", and subscription ids of such
an instance are noted without its part.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import cramjam
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from minibroker.records.compression import Compression, compress
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k71_get_telemetry_subscriptions as k71
from minibroker.schemas import k72_push_telemetry as k72

ANSWERS: Final = Path(__file__).parent / "telemetry_kafka_4.3.1.json"
CLIENT_METRICS: Final = 16
MAX_BYTES: Final = 20_000  #: telemetry.max.bytes of the broker
A, B, PROBE = "app-a", "app-b", "probe"  #: client ids, each a connection
ZERO: Final = UUID(int=0)
INTERVAL_MS: Final = 1_000
PROPAGATION_MS: Final = 400
_PREFIXES: Final = [f"org.apache.kafka.{kind}.{name}." for kind in ("producer", "consumer", "admin") for name in "abcdefgh"]

Notes = list[list[Any]]


def payload(names: int = 1, *, padding: int = 0) -> bytes:
    """Return an OTLP message of some gauges."""
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add()
    for number in range(names):
        metric = metrics.metrics.add(name=f"org.apache.kafka.test.{number}", description="x" * padding)
        metric.gauge.data_points.add(as_double=1.5, time_unix_nano=1)
    return data.SerializeToString()


def instance(number: int) -> UUID:
    """Return an instance id of a client."""
    return UUID(int=0xA1B2C3D4_00000000_9E3779B9_7F4A7C15 + (number << 32) + number)


def own_part(instance_id: UUID) -> int:
    """Return what an instance id adds to its subscription id."""
    folded = (instance_id.int >> 64) ^ (instance_id.int & (1 << 64) - 1)
    return folded >> 32 ^ folded & 0xFFFFFFFF


class Scenes:
    """One play of the scenes on a broker."""

    def __init__(self, ask: Callable[[str, Any], Any], reconnect: Callable[[str], None], pass_time: Callable[[int], None]) -> None:
        """`ask` sends a request of a client, `reconnect` closes its connection, `pass_time` waits so many ms."""
        self._ask, self._reconnect, self._pass_time = ask, reconnect, pass_time
        self.notes: Notes = []
        self.subscription_id = 0  #: of the last answer to `get` without an error

    def get(self, client: str, instance_id: UUID = ZERO) -> UUID:
        """Note the answer; return the instance id in it."""
        answer = self._ask(client, k71.Request(client_instance_id=instance_id))
        if not answer.error_code:
            self.subscription_id = answer.subscription_id
        is_new = instance_id == ZERO and not answer.error_code
        shown = (answer.subscription_id ^ own_part(answer.client_instance_id)) & 0xFFFFFFFF if is_new else answer.subscription_id
        self.notes.append(
            [
                "get",
                client,
                str(instance_id),
                answer.error_code,
                "new" if is_new else str(answer.client_instance_id),
                shown,
                list(answer.accepted_compression_types),
                answer.push_interval_ms,
                answer.telemetry_max_bytes,
                answer.delta_temporality,
                list(answer.requested_metrics),
            ]
        )
        found: UUID = answer.client_instance_id
        return found

    def push(
        self,
        client: str,
        instance_id: UUID,
        metrics: bytes = b"",
        *,
        codec: int = 0,
        is_last: bool = False,
        wrong: int = 0,
        what: str = "nothing",
    ) -> None:
        """Note the answer. `wrong` is added to the subscription id."""
        request = k72.Request(
            client_instance_id=instance_id,
            subscription_id=self.subscription_id + wrong,
            terminating=is_last,
            compression_type=codec,
            metrics=metrics,
        )
        answer = self._ask(client, request)
        self.notes.append(["push", client, str(instance_id), what, codec, is_last, wrong, answer.error_code])

    def configure(self, name: str, **configs: str | None) -> None:
        """Set or delete configs of client metrics."""
        changes = [
            k44.Config(name=key.replace("_", "."), config_operation=0 if value is not None else 1, value=value)
            for key, value in configs.items()
        ]
        resource = k44.Resource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
        (answer,) = self._ask(PROBE, k44.Request(resources=[resource], validate_only=False)).responses
        assert answer.error_code == 0, answer.error_message
        self._pass_time(PROPAGATION_MS)

    def wait(self, ms: int = INTERVAL_MS + 100) -> None:
        self._pass_time(ms)

    def reconnect(self, client: str) -> None:
        self._reconnect(client)
        self._pass_time(PROPAGATION_MS)


def play(scenes: Scenes) -> Notes:
    """All scenes, on a broker without configs of client metrics."""
    without_subscription(scenes)
    scenes.configure("all", interval_ms=str(INTERVAL_MS), metrics="*")
    times_of_requests(scenes)
    payloads(scenes)
    invalid_instances(scenes)
    terminating(scenes)
    connections(scenes)
    changes(scenes)
    scenes.configure("all", interval_ms=None, metrics=None)
    selectors(scenes)
    return scenes.notes


def without_subscription(scenes: Scenes) -> None:
    scenes.get(A)
    scenes.get(A, instance(1))
    scenes.push(A, instance(1), payload(), what="a gauge")
    scenes.push(A, instance(1))


def times_of_requests(scenes: Scenes) -> None:
    """Whatever comes before the next interval is refused, except what follows an error that the client can mend."""
    one = instance(2)
    scenes.get(A)
    scenes.get(A, one)
    scenes.get(A, one)
    scenes.push(A, one, payload(), what="a gauge")
    scenes.push(A, one, payload(), what="a gauge")
    scenes.get(A, one)
    scenes.push(A, one, wrong=1)
    scenes.wait()
    scenes.get(A, one)
    scenes.push(A, one, wrong=1)
    scenes.get(A, one)
    scenes.push(A, one, wrong=1)
    scenes.push(A, one)
    scenes.wait()
    scenes.get(A, one)
    scenes.push(A, one, codec=9)
    scenes.get(A, one)
    scenes.push(A, one)
    scenes.wait()
    scenes.push(A, one)
    scenes.wait()
    scenes.push(A, one, codec=9, wrong=1)
    two = instance(3)  # which never asked
    scenes.push(A, two, wrong=5)
    scenes.get(A, two)
    scenes.push(A, two)


def payloads(scenes: Scenes) -> None:
    good, many = payload(), payload(60, padding=100)
    cases: list[tuple[str, int, bytes]] = [("nothing", codec, b"") for codec in range(5)]
    cases += [(f"a gauge, {kind.name}", kind.value, compress(kind, good)) for kind in Compression]
    cases += [(f"60 gauges, {kind.name}", kind.value, compress(kind, many)) for kind in Compression]
    cases += [("garbage", codec, b"\xff\xff garbage") for codec in range(5)]
    cases += [("cut", codec.value, compress(codec, many)[:-9]) for codec in Compression]
    cases += [
        ("a codec that is unknown", -1, good),
        ("a codec that is unknown", 5, good),
        ("as large as is allowed", 0, _of_size(MAX_BYTES)),
        ("one byte too large", 0, _of_size(MAX_BYTES + 1)),
        ("content of the limit", 1, gzip.compress(_of_size(MAX_BYTES))),
        ("content of the limit and a byte", 1, gzip.compress(_of_size(MAX_BYTES + 1))),
        ("a bomb", 4, compress(Compression.ZSTD, _of_size(50_000_000))),
        ("a bomb", 1, gzip.compress(_of_size(10_000_000))),
        ("a bomb", 3, bytes(cramjam.lz4.compress(_of_size(4_000_000)))),
    ]
    for number, (what, codec, metrics) in enumerate(cases):
        one = instance(100 + number)
        scenes.get(A, one)
        scenes.push(A, one, metrics, codec=codec, what=what)
        scenes.get(A, one)


def _of_size(size: int) -> bytes:
    """Return an OTLP message of so many bytes: the description of its only metric is long."""
    for padding in range(max(size - 80, 0), size):
        message = payload(padding=padding)
        if len(message) == size:
            return message
    raise AssertionError(size)


def invalid_instances(scenes: Scenes) -> None:
    scenes.get(A, instance(4))
    for number in (0, 1, 2):
        scenes.push(A, UUID(int=number))
        scenes.get(A, UUID(int=number))


def terminating(scenes: Scenes) -> None:
    """A client that closes pushes at once; after that nothing is accepted, for one request."""
    one, two = instance(5), instance(6)
    scenes.get(A, one)
    scenes.push(A, one, payload(), what="a gauge")
    scenes.push(A, one, payload(), what="a gauge", is_last=True)
    scenes.push(A, one)
    scenes.push(A, one)
    scenes.wait()
    scenes.push(A, one)
    scenes.get(A, two)
    scenes.push(A, two, is_last=True)
    scenes.push(A, two, is_last=True)
    scenes.push(A, two, is_last=True)
    scenes.get(A, two)
    scenes.wait()
    scenes.get(A, two)
    scenes.push(A, two)
    scenes.push(A, two)
    scenes.push(A, instance(7), b"\xff", is_last=True, what="garbage", wrong=3)


def connections(scenes: Scenes) -> None:
    """An instance is that of any connection that names it, and is forgotten with the connection that named it first."""
    one = instance(8)
    scenes.get(A, one)
    scenes.get(B, one)
    scenes.reconnect(B)
    scenes.get(B, one)
    scenes.reconnect(A)
    scenes.get(A, one)
    scenes.get(B, one)
    scenes.get(A, instance(9))
    scenes.reconnect(A)
    scenes.get(A, one)
    scenes.get(A, instance(9))


def changes(scenes: Scenes) -> None:
    """A change of the configs is for the client's next request."""
    one = instance(10)
    scenes.get(A, one)
    scenes.push(A, one)
    scenes.configure("all", interval_ms=str(INTERVAL_MS + 1))
    scenes.push(A, one)
    scenes.get(A, one)
    scenes.push(A, one)
    scenes.configure("other", match="client_id=nobody", metrics="a.")
    scenes.get(A, one)
    scenes.push(A, one)
    scenes.configure("other", match=None, metrics=None)
    scenes.push(A, one)
    scenes.get(A, one)


def selectors(scenes: Scenes) -> None:
    """Which subscriptions a client matches, and which metrics it gets."""
    scenes.get(A, instance(11))
    matches = [
        "client_id=app-a",
        "client_id=app",
        "client_id=app-.*",
        "client_id=APP-A",
        " client_id = app-[ac] ",
        f"client_instance_id={instance(12)}",
        "client_instance_id=.{22}",
        "client_instance_id=[A-Za-z0-9_-]*",
        "client_software_name=scenes",
        "client_software_name=unknown",
        "client_software_version=1\\..*",
        "client_software_version=2\\..*",
        "client_source_address=127\\.0\\.0\\.1",
        "client_source_address=/127.*",
        "client_source_port=[0-9]+",
        "client_id=app-a,client_software_name=scenes",
        "client_id=app-a,client_software_name=other",
        "client_id=app-b,client_id=app-a",
        "client_id=app-a,client_id=app-b",
    ]
    for match in matches:
        scenes.configure("one", match=match, metrics="x.", interval_ms="2000")
        scenes.get(A)
        scenes.get(B)
        scenes.get(A, instance(12))
        scenes.reconnect(A)
    scenes.configure("one", match=None, metrics=None, interval_ms="5000")
    scenes.get(A, instance(13))
    for count in (2, 3, 5, 12, 13, 24):
        scenes.configure("one", metrics=",".join(_PREFIXES[:count]))
        scenes.get(A, instance(13))
    scenes.configure("two", metrics="b.,a.,org.apache.kafka.producer.a.", interval_ms="7000")
    scenes.get(A, instance(13))
    scenes.configure("three", metrics="FB,Ea", interval_ms="300")  # of one hash
    scenes.get(A, instance(13))
    scenes.configure("four", metrics="Ea,c.")
    scenes.get(A, instance(13))
    scenes.configure("five", interval_ms="100")
    scenes.get(A, instance(13))
    scenes.configure("six", metrics="*,é.")
    scenes.get(A, instance(13))
    scenes.configure("six", match="client_id=b")
    scenes.get(A, instance(13))
    for name in ("one", "two", "three", "four", "five", "six"):
        scenes.configure(name, metrics=None, interval_ms=None, match=None)
    scenes.get(A, instance(13))


def play_java_patterns(scenes: Scenes) -> Notes:
    """Regular expressions that Java has and RE2 has not: minibroker differs."""
    for match in ("client_id=(?!app-b).*", "client_id=(a)pp-\\1", "client_id=app-a++"):
        scenes.configure("one", match=match, metrics="x.", interval_ms="2000")
        scenes.get(A)
        scenes.get(B)
    scenes.configure("one", match=None, metrics=None, interval_ms=None)
    return scenes.notes


def play_without_receiver(scenes: Scenes) -> Notes:
    """On a broker that does not list the APIs."""
    scenes.get(A, instance(1))
    scenes.push(A, instance(1), payload(), what="a gauge")
    scenes.push(A, instance(1), payload(), what="a gauge")
    return scenes.notes
