"""The metadata log as Apache Kafka's own DumpLogSegments reads it."""

from __future__ import annotations

import re

from tests.cluster.test_cluster import busy_broker
from tests.support.dump_log import check_metadata_log


def test_kafka_dump_log_reads_every_record() -> None:
    broker = busy_broker()
    broker.cluster.metadata.allocate_producer_id()
    broker.cluster.configs.alter_broker("1", {"message.max.bytes": "2000"})
    broker = broker.restart(clean=False)
    broker.cluster.create_topic("second-epoch")
    broker.cluster.close()

    output = check_metadata_log(broker.folder)

    assert (
        re.findall(r"LeaderChange: (\S+)", output)
        == ['{"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}'] * 2
    )
    kinds = re.findall(r'payload: {"type":"(\w+)","version":(\d)', output)
    assert {("FEATURE_LEVEL_RECORD", "0"), ("TOPIC_RECORD", "0"), ("PARTITION_RECORD", "2"), ("CONFIG_RECORD", "0")} <= set(kinds)
    assert {("REMOVE_TOPIC_RECORD", "0"), ("PRODUCER_IDS_RECORD", "0"), ("PARTITION_CHANGE_RECORD", "2")} <= set(kinds)
    assert '"name":"configured","topicId"' in output
    assert '{"resourceType":4,"resourceName":"1","name":"message.max.bytes","value":"2000"}' in output
    assert output.count("| offset:") == broker.cluster.metadata.last_offset + 1
