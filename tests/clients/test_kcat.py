"""kcat (librdkafka of a distribution, older than confluent-kafka's): produce, consume as JSON, metadata, offsets by time."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Read, Sent

pytestmark = [pytest.mark.kcat, pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")]


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["kcat", "-b", bootstrap, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def consumed(bootstrap: str, topic: str, *arguments: str) -> list[dict[str, Any]]:
    lines = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-J", "-o", "beginning", *arguments).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_kcat_are_read_by_others(codec: str, bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-H", "h=v", "-z", codec, stdin=b"one:1\ntwo:2\nempty:\n")

    found = CLIENTS["kafka-python"].read(bootstrap, topic, count=3)
    assert [(r.offset, r.record.key, r.record.value, r.record.headers) for r in found] == [
        (0, b"one", b"1", (("h", b"v"),)),
        (1, b"two", b"2", (("h", b"v"),)),
        (2, b"empty", None, (("h", b"v"),)),
    ]


def test_kcat_reads_records_of_others(bootstrap: str, topic: str) -> None:
    records = [Sent(b"k", b"v", (("h", b"x"),), 1_700_000_000_123), Sent(None, b"", (), 5), Sent(b"", None, (), 6)]
    CLIENTS["aiokafka"].write(bootstrap, topic, records)

    found = consumed(bootstrap, topic)
    assert [(m["offset"], m["key"], m["payload"], m["ts"], m.get("headers")) for m in found] == [
        (0, "k", "v", 1_700_000_000_123, ["h", "x"]),
        (1, None, "", 5, None),
        (2, "", None, 6, None),
    ]


def test_idempotent_producer(bootstrap: str, topic: str) -> None:
    lines = b"".join(b"%d\n" % i for i in range(1000))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-X", "batch.num.messages=50", stdin=lines)
    assert [int(m["payload"]) for m in consumed(bootstrap, topic)] == list(range(1000))


def test_exits_at_the_end_of_every_partition(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    kcat(bootstrap, "-P", "-t", topic, "-p", "2", stdin=b"only here\n")
    assert [(m["partition"], m["payload"]) for m in consumed(bootstrap, topic)] == [(2, "only here")]


def test_last_ones_and_a_single_one(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"".join(b"%d\n" % i for i in range(10)))
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-o", "-3").split() == [b"7", b"8", b"9"]
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-c", "1", "-q", "-o", "4").split() == [b"4"]


def test_metadata(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    found = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    (broker,) = found["brokers"]
    assert broker["name"].endswith(bootstrap.rpartition(":")[2])
    (described,) = found["topics"]
    assert described["topic"] == topic
    assert [(p["partition"], p["leader"], p["replicas"], p["isrs"]) for p in described["partitions"]] == [
        (i, broker["id"], [{"id": broker["id"]}], [{"id": broker["id"]}]) for i in range(3)
    ]


def test_offsets_by_time(bootstrap: str, topic: str) -> None:
    CLIENTS["kafka-python"].write(bootstrap, topic, [Sent(None, b"x", (), 1_000_000 * (i + 1)) for i in range(3)])

    def offset(at: int) -> bytes:
        return kcat(bootstrap, "-Q", "-t", f"{topic}:0:{at}")

    assert f"{topic} [0] offset 1".encode() in offset(1_500_000)
    assert f"{topic} [0] offset 0".encode() in offset(0)
    assert b"offset 3" in offset(-1)
    assert b"offset 0" in offset(-2)


def test_many_small_records_keep_their_order(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"".join(b"record %d\n" % i for i in range(20_000)))
    found = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-f", "%o %s\\n").splitlines()
    assert found == [b"%d record %d" % (i, i) for i in range(20_000)]


def test_adapters_agree_with_kcat(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-k", "key", stdin=b"value\n")
    (seen,) = consumed(bootstrap, topic)
    for name, client in CLIENTS.items():
        assert client.read(bootstrap, topic, count=1) == [Read(0, Sent(b"key", b"value", (), seen["ts"]))], name
