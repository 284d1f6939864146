"""What real clients wrote, in our log directories, read by Apache Kafka's DumpLogSegments; and codecs as they are on disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.cluster.directories.test_storage_checking import check
from tests.support import java
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_directory, check_metadata_log

pytestmark = [pytest.mark.java]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: The records are of 2023.
SMALL = ("--set", "log.segment.bytes=100000", "--set", "log.index.interval.bytes=500", "--set", "log.retention.ms=-1")


def records(count: int) -> list[Sent]:
    return [Sent(b"k%d" % i, b"a value that compresses " * 8, (("h", b"v"),), 1_700_000_000_000 + i) for i in range(count)]


def fill(bootstrap: str) -> None:
    for name, client in CLIENTS.items():
        for codec in CODECS:
            for _ in range(2):
                client.write(bootstrap, f"{name}-{codec}", records(400), compression=codec)


def administer(bootstrap: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({"made": {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "-1"}}})
    admin.create_topics({"gone": {"num_partitions": 1, "replication_factor": 1}})
    admin.create_partitions({"made": 3})
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "made", {"max.message.bytes": "5000"})])
    admin.delete_topics(["gone"])
    admin.close()


@pytest.mark.parametrize("end", [BrokerProcess.stop, BrokerProcess.kill], ids=["stopped", "killed"])
def test_kafka_reads_our_directories(end: Callable[[BrokerProcess], object], tmp_path: Path) -> None:
    java.kafka_jars()
    with BrokerProcess(tmp_path, *SMALL) as broker:
        fill(broker.bootstrap)
        administer(broker.bootstrap)
        end(broker)
        if end is BrokerProcess.kill:  # the indexes of a killed broker are its own to mend
            broker.restart()
            assert broker.stop() == 0
    assert check(broker.data_dir) == []
    batches = check_directory(broker.data_dir)
    for name in CLIENTS:
        for codec in CODECS:
            written = batches[f"{name}-{codec}-0"]
            assert sum(int(batch["count"]) for batch in written) == 800
            assert {batch["compresscodec"] for batch in written} == {codec}, (name, codec)

    metadata = check_metadata_log(broker.data_dir)
    for wanted in (
        '"type":"TOPIC_RECORD"',
        '"type":"PARTITION_RECORD"',
        '"type":"CONFIG_RECORD"',
        '"type":"REMOVE_TOPIC_RECORD"',
        '"name":"made"',
    ):
        assert wanted in metadata
    assert '"type":"PRODUCER_IDS_RECORD"' in metadata


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_recompressing_topic_is_so_on_disk(codec: str, tmp_path: Path) -> None:
    java.kafka_jars()
    with BrokerProcess(tmp_path, "--set", f"compression.type={codec}", "--set", "log.retention.ms=-1") as broker:
        CLIENTS["aiokafka"].write(broker.bootstrap, "topic", records(100), compression="none")
        assert broker.stop() == 0
    assert {batch["compresscodec"] for batch in check_directory(broker.data_dir)["topic-0"]} == {codec}


def test_minibroker_dump_log_reads_its_own_files(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *SMALL) as broker:
        CLIENTS["confluent-kafka"].write(broker.bootstrap, "topic", records(100), compression="zstd")
        assert broker.stop() == 0
    minibroker = [sys.executable, "-m", "minibroker"]
    log = broker.data_dir / "topic-0" / "00000000000000000000.log"
    done = subprocess.run([*minibroker, "dump-log", str(log)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
