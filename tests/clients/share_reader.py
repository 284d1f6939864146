"""A member of a share group by raw requests: what it is given it acknowledges record by record, as it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import ModuleType, TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from minibroker.client.client import Client
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.schemas import k78_share_fetch as k78
from minibroker.schemas import k79_share_acknowledge as k79

ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP_RESOURCE = 32
TIMEOUT_S = 60.0

Given = dict[int, int]  #: how often each offset was delivered


class ShareReader:
    """Of a topic with one partition, from its beginning. Leaves when its context ends."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, max_records: int = 500) -> None:
        self._group, self._topic, self.member_id = group, topic, str(uuid4())
        self._max_records = max_records
        self._client = Client(bootstrap, timeout_ms=int(TIMEOUT_S * 1000))
        self._connection = self._client.to_any(self._client.deadline())
        earliest = k44.Config(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = k44.Resource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[earliest])
        self._ask(k44, k44.Request(resources=[resource], validate_only=False))
        self._topic_id = self._join()
        self._session_epoch = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._acknowledge({}, is_last=True)
            assert self._ask(k76, k76.Request(group_id=self._group, member_id=self.member_id, member_epoch=-1)).error_code == 0
        self._client.close()

    def _ask(self, schema: ModuleType, request: Any) -> Any:
        return self._connection.ask(schema, request, self._client.deadline())

    def _until(self, attempt: Callable[[], Any]) -> Any:
        """Its first answer that is one."""
        end = time.monotonic() + TIMEOUT_S
        while not (found := attempt()):
            assert time.monotonic() < end
            time.sleep(0.1)
        return found

    def _join(self) -> UUID:
        """The id of the topic, when its partition is given to the member."""

        def join() -> UUID | None:
            self._ask(k10, k10.Request(coordinator_keys=[self._group], key_type=0))
            request = k76.Request(group_id=self._group, member_id=self.member_id, member_epoch=0, subscribed_topic_names=[self._topic])
            assignment = self._ask(k76, request).assignment
            return assignment.topic_partitions[0].topic_id if assignment is not None and assignment.topic_partitions else None

        found: UUID = self._until(join)
        return found

    def fetch(self) -> Given:
        """What it is given next; asked until there is something."""
        given: Given = self._until(self.fetch_once)
        return given

    def fetch_once(self) -> Given:
        topics = [] if self._session_epoch else [k78.Topic(topic_id=self._topic_id, partitions=[_partition(k78)])]
        answer = self._ask(
            k78,
            k78.Request(
                group_id=self._group,
                member_id=self.member_id,
                share_session_epoch=self._session_epoch,
                max_wait_ms=500,
                min_bytes=1,
                max_records=self._max_records,
                batch_size=self._max_records,
                share_acquire_mode=1,
                topics=topics,
                forgotten_topics_data=[],
            ),
        )
        assert answer.error_code == 0
        self._session_epoch += 1
        acquired = [each for topic in answer.responses for partition in topic.partitions for each in partition.acquired_records]
        return {offset: each.delivery_count for each in acquired for offset in range(each.first_offset, each.last_offset + 1)}

    def acknowledge(self, kinds: Mapping[int, int]) -> None:
        """Say what became of records, by offset."""
        self._acknowledge(kinds)

    def _acknowledge(self, kinds: Mapping[int, int], *, is_last: bool = False) -> None:
        batches = [
            k79.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset, kind in sorted(kinds.items())
        ]
        topics = [k79.Topic(topic_id=self._topic_id, partitions=[_partition(k79, batches)])] if batches else []
        request = k79.Request(
            group_id=self._group, member_id=self.member_id, share_session_epoch=-1 if is_last else self._session_epoch, topics=topics
        )
        answer = self._ask(k79, request)
        errors = {each.error_code for topic in answer.responses for each in topic.partitions}
        assert (answer.error_code, errors - {0}) == (0, set())
        self._session_epoch += 1


def _partition(schema: ModuleType, batches: list[Any] | None = None) -> Any:
    return schema.Partition(partition_index=0, acknowledgement_batches=batches or [])
