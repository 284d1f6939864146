"""Records and handshakes by TLS and SASL, beside Apache Kafka on the same machine with the same client and certificates.

    .venv/bin/python benchmarks/secured.py [--mb 200] [--handshakes 300] [--rounds 3]

confluent-kafka produces records of 1 kB in batches of 64 kB and reads them again. The brokers take turns; the median of the rounds counts.
MB/s include the client, CPU seconds are those of the broker. A handshake is a new connection of TLS 1.3 with one ApiVersions request.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import kafka_process
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_ports

RECORD: Final = os.urandom(1024)
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_SSL")
API_VERSIONS: Final = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"
JAAS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


class Peer(NamedTuple):
    """A running broker."""

    name: str
    pid: int
    ports: dict[str, int]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settings(authority: Authority) -> dict[str, str]:
    """Return the properties of the listeners."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").file),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        "log.retention.bytes": "-1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    }


def client_of(peer: Peer, protocol: str, authority: Authority) -> dict[str, Any]:
    """Return the configuration of a client."""
    found: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{peer.ports[protocol]}", "security.protocol": protocol}
    if protocol != "PLAINTEXT":
        found["ssl.ca.location"] = str(authority.file)
    if protocol == "SASL_SSL":
        found |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
    return found


def produce(client: dict[str, Any], topic: str, count: int) -> None:
    """Produce records, and wait for all acknowledgements."""
    producer = Producer(client | {"linger.ms": 5, "batch.size": 65536, "acks": "all", "queue.buffering.max.messages": 200_000})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, RECORD)
                break
            except BufferError:
                producer.poll(0.05)
        if not number % 1000:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("records were not acknowledged")


def fetch(client: dict[str, Any], topic: str, count: int) -> None:
    """Read records from the beginning."""
    consumer = Consumer(client | {"group.id": "none", "enable.auto.commit": False, "fetch.message.max.bytes": 1 << 20})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen = 0
    while seen < count:
        seen += sum(1 for each in consumer.consume(min(1000, count - seen), 10.0) if not each.error())
    consumer.close()


def shake_hands(port: int, count: int, authority: Authority) -> None:
    """Connect by TLS one after the other, with a request on each connection."""
    context = ssl.create_default_context(cafile=str(authority.file))
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as secured:
            secured.sendall(API_VERSIONS)
            secured.recv(4)


def measured(peer: Peer, work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds that `work` takes, and the broker's CPU seconds."""
    used, began = cpu_s(peer.pid), time.perf_counter()
    work()
    return time.perf_counter() - began, cpu_s(peer.pid) - used


def measure(peers: list[Peer], authority: Authority, mb: int, handshakes: int, rounds: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Return rate and CPU by load and peer: MB/s and CPU s/GB, or handshakes/s and CPU ms each."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    count = mb * 1_000_000 // len(RECORD)
    for number in range(rounds):
        for peer in peers if number % 2 == 0 else peers[::-1]:
            for protocol in PROTOCOLS:
                client, topic = client_of(peer, protocol, authority), f"{protocol.lower()}-{mb}-{number}"
                admin = AdminClient(client)
                admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
                for name, work in (("produce", produce), ("fetch", fetch)):
                    seconds, cpu = measured(peer, partial(work, client, topic, count))
                    found.setdefault((f"{name} {protocol}", peer.name), []).append((mb / seconds, cpu / mb * 1000))
            seconds, cpu = measured(peer, partial(shake_hands, peer.ports["SSL"], handshakes, authority))
            found.setdefault(("handshakes", peer.name), []).append((handshakes / seconds, cpu / handshakes * 1000))
    medians = {}
    for key, figures in found.items():
        rates, costs = zip(*figures, strict=True)
        medians[key] = statistics.median(rates), statistics.median(costs)
    return medians


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=200, help="of records for each load")
    parser.add_argument("--handshakes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    vars(kafka_process)["SHORT_LIVED"] = ("-Xmx1g", "-XX:+UseG1GC")  # Kafka's own options; tests choose those of a quick start
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        authority = Authority(folder)
        first = free_ports(7)
        ours = dict(zip(PROTOCOLS, range(first, first + 3), strict=True))
        theirs = dict(zip(PROTOCOLS, range(first + 3, first + 6), strict=True))
        words = [word for name, value in settings(authority).items() for word in ("--set", f"{name}={value}")]
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ours.items())
        (folder / "ours").mkdir()
        (folder / "theirs").mkdir()
        more = [f"{name}://127.0.0.1:{port}" for name, port in theirs.items() if name != "PLAINTEXT"]
        broker = BrokerProcess(folder / "ours", *words, "--set", f"listeners={listeners}", port=-1)
        with KafkaProcess(folder / "theirs", settings=settings(authority), port=theirs["PLAINTEXT"], listeners=more) as kafka:
            peers = [Peer("minibroker", broker.pid, ours), Peer("Kafka", kafka._process.pid, theirs)]  # noqa: SLF001  a helper of tests
            for peer in peers:  # a JVM needs a while to be fast
                measure([peer], authority, options.mb // 4, options.handshakes, 1)
            found = measure(peers, authority, options.mb, options.handshakes, options.rounds)
        broker.kill()
    print(f"{'load':20} {'minibroker':>11} {'Kafka':>11} {'ratio':>6}   {'CPU ours':>9} {'Kafka':>9} {'ratio':>6}")
    for load in dict.fromkeys(name for name, _ in found):
        (rate, cpu), (other_rate, other_cpu) = found[load, "minibroker"], found[load, "Kafka"]
        print(f"{load:20} {rate:11.1f} {other_rate:11.1f} {rate / other_rate:6.2f}   {cpu:9.2f} {other_cpu:9.2f} {cpu / other_cpu:6.2f}")
    print("produce and fetch: MB/s, CPU seconds a GB; handshakes: a second, CPU ms each")


if __name__ == "__main__":
    main()
