"""What an application under read_committed is given, by the rules of Apache Kafka's consumer (CompletedFetch)."""

from __future__ import annotations

from collections.abc import Iterator

from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k01_fetch as schema
from tests.support.broker_in_memory import BrokerInMemory

VERSION = 12  #: of Fetch: the last that names topics


def committed_batches(result: schema.PartitionResult) -> Iterator[RecordBatch]:
    """Those of an answer whose records count."""
    waiting = sorted(result.aborted_transactions or (), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    for batch in split_batches(result.records or b""):
        while waiting and waiting[0].first_offset <= batch.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if batch.is_control:
            (record,) = decode_records(batch)
            if EndTransactionMarker.from_record(record).control_type is ControlType.ABORT:
                aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            yield batch
    assert not waiting, "a transaction that has no records in the answer"


def read_committed(broker: BrokerInMemory, topic: str, index: int) -> dict[int, bytes | None]:
    """Values by offset, from the log start to the last stable offset, answer after answer."""
    log = broker.cluster.partition(topic, index).log
    offset = log.log_start_offset
    values: dict[int, bytes | None] = {}
    while offset < log.last_stable_offset:
        wanted = schema.Partition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [schema.Topic(topic=topic, partitions=[wanted])]
        answer = broker.ask(schema.Request(max_wait_ms=0, min_bytes=1, isolation_level=1, topics=topics), VERSION)
        ((result,),) = [each.partitions for each in answer.responses]
        assert (result.error_code, result.last_stable_offset) == (0, log.last_stable_offset)
        for batch in committed_batches(result):
            assert batch.check_crc()
            values |= {record.offset: record.value for record in decode_records(batch) if record.offset >= offset}
        offset = max(batch.next_offset for batch in split_batches(result.records or b""))
    return values
