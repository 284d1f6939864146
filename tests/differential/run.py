"""The run: draws operations, sends each to both brokers, keeps the model and collects what differs."""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import Any, Final

from minibroker.client.errors import ClientError
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k19_create_topics,
    k22_init_producer_id,
    k32_describe_configs,
)
from tests.differential.admin import Admin, id_of
from tests.differential.allowed import is_allowed
from tests.differential.data import Data, Operation, Producer, Session
from tests.differential.twins import CLOSED, KAFKAS, OURS, SIDES, Twins, differences
from tests.support.becoming import wait_until

TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "plain": (3, {}),
    "one": (1, {}),
    "compacted": (1, {"cleanup.policy": "compact"}),
    "append-time": (2, {"message.timestamp.type": "LogAppendTime"}),
    "to-gzip": (1, {"compression.type": "gzip"}),
    "small": (1, {"max.message.bytes": "3000"}),
    "both": (1, {"cleanup.policy": "compact,delete"}),
}
MADE_MAX: Final = 8  #: topics that CreateTopics may leave behind
_METADATA: Final = 12


class Run:
    """One seed's run over a pair of brokers."""

    def __init__(self, twins: Twins, seed: int, *, like_kafka: bool = False) -> None:
        self.like_kafka = like_kafka
        self.random = Random(seed)
        self.twins = twins
        self.data = Data(self.random, twins, int(time.time() * 1000) - 60_000)
        twins.append_times_from_ms = self.data.now_ms + 30_000
        self.admin = Admin(self.random, twins, self.data)
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []  #: differences that nobody allowed
        self.deleted = 0

    def run(self, count: int) -> None:
        """`count` operations and as many more as the model needs."""
        for name, (partition_count, configs) in TOPICS.items():
            self._create(name, partition_count, configs)
        wait_until(self._has_producer, lambda: "producer ids")
        kinds = {
            self._produce: 40, self._fetch: 30, self._session_fetch: 25, self._list_offsets: 20, self._offset_for_leader_epoch: 6,
            self._delete_records: 4, self._metadata: 12, self._create_topics: 6, self._delete_topics: 4, self._create_partitions: 3,
            self._incremental_alter_configs: 5, self._alter_configs: 3, self._describe_configs: 8, self._describe_topic_partitions: 5,
            self._describe_cluster: 1, self._api_versions: 1, self._init_producer: 1,
        }  # fmt: skip
        steps, weights = list(kinds), list(kinds.values())
        while sum(self.counts.values()) < count:
            self.random.choices(steps, weights)[0]()

    def compare(self, operation: Operation) -> tuple[Any, Any] | None:
        """Send it to both; their answers when they agree, None when not."""
        try:
            answers = self.answers(operation)
        except ClientError as error:
            raise AssertionError(f"{operation.schema.__name__} v{operation.version} {operation.note}") from error
        self.counts[operation.schema.__name__.rpartition(".")[2]] += 1
        ours, kafkas = (_sorted(operation.schema, self.twins.plain(answers[side], side)) for side in SIDES)
        differing = [each for each in differences(ours, kafkas) if not is_allowed(operation, each, like_kafka=self.like_kafka)]
        if differing:
            number = sum(self.counts.values())
            words = "\n    ".join(differing[:8])
            self.found.append(f"{number}: {operation.schema.__name__} v{operation.version} {operation.note[:600]}\n    {words}")
        return answers

    def answers(self, operation: Operation) -> tuple[Any, Any]:
        """Ours and Kafka's, raw."""
        return self.twins.ask(operation.schema, operation.version, operation.make, is_answered=operation.is_answered)

    # -- records ----------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        operation = self.data.produce()
        ours, _ = self.compare(operation) or (None, None)
        if not isinstance(ours, k00_produce.Response):
            return
        names = {ids[OURS]: name for name, ids in self.twins.topic_ids.items()}
        for topic in ours.responses:
            name = topic.name or names.get(topic.topic_id, "")
            for result in topic.partition_responses:
                if result.error_code == 0:  # the last offset is not told; the next ListOffsets or Fetch corrects it
                    self.data.ends[name, result.index] = max(self.data.ends.get((name, result.index), 0), result.base_offset + 1)

    def _init_producer(self) -> None:
        answers = self.compare(self.data.init_producer_id())
        if answers and all(isinstance(each, k22_init_producer_id.Response) and each.error_code == 0 for each in answers):
            self.data.producers.append(Producer(self.twins.learn_producer((answers[OURS].producer_id, answers[KAFKAS].producer_id))))

    def _has_producer(self) -> bool:
        """Kafka is up before it has producer ids to give."""
        request = k22_init_producer_id.Request(transactional_id=None, transaction_timeout_ms=1000)
        answers = self.twins.ask(k22_init_producer_id, 0, lambda _: request)
        if answers[KAFKAS].error_code:
            return False
        self.data.producers.append(Producer(self.twins.learn_producer((answers[OURS].producer_id, answers[KAFKAS].producer_id))))
        return len(self.data.producers) >= 4

    def _fetch(self) -> None:
        self.compare(self.data.fetch())

    def _session_fetch(self) -> None:
        operation, session = self.data.session_fetch()
        answers = self.compare(operation)
        if answers is None or CLOSED in answers:
            return
        ours, kafkas = answers
        if session is not None:
            if ours.error_code == 0 and ours.session_id:
                session.epoch += 1
            elif ours.error_code == 0 and session in self.data.sessions:
                self.data.sessions.remove(session)  # no partition was left in it
        elif ours.session_id and kafkas.session_id:
            self.data.sessions.append(Session((ours.session_id, kafkas.session_id), operation.version))

    def _list_offsets(self) -> None:
        self.compare(self.data.list_offsets())

    def _offset_for_leader_epoch(self) -> None:
        self.compare(self.data.offset_for_leader_epoch())

    def _delete_records(self) -> None:
        self.compare(self.data.delete_records())

    # -- topics -----------------------------------------------------------------------------------------------------

    def _create(self, name: str, partition_count: int, configs: dict[str, str]) -> None:
        topic = k19_create_topics.Topic(
            name=name,
            num_partitions=partition_count,
            replication_factor=1,
            assignments=[],
            configs=[k19_create_topics.Config(name=key, value=value) for key, value in configs.items()],
        )
        request = k19_create_topics.Request(topics=[topic])
        answers = self.compare(Operation(k19_create_topics, 7, lambda _: request, note=name))
        assert answers is not None
        self._created(request, answers)

    def _create_topics(self) -> None:
        operation = self.admin.create_topics()
        request = operation.make(OURS)
        if sum(name.startswith("made") for name in self.data.partitions) >= MADE_MAX and not request.validate_only:
            return
        answers = self.compare(operation)
        if answers and CLOSED not in answers and not request.validate_only:
            self._created(request, answers)

    def _created(self, request: Any, answers: tuple[Any, Any]) -> None:
        for topic in {topic.name: topic for topic in request.topics}.values():
            results = [result for answer in answers for result in answer.topics if result.name == topic.name]
            if [result.error_code for result in results] == [0, 0]:
                self._learn(topic.name)

    def _learn(self, name: str, at_least: int = 1) -> None:
        """Wait until both serve the topic, and note its id and size."""
        found: list[Any] = []

        def is_served() -> bool:
            found[:] = self._described(name)
            return all(id_of(each, name) and len(each.topics[0].partitions) >= at_least for each in found)

        wait_until(is_served, lambda: f"metadata of {name}: {found}")
        count = len(found[OURS].topics[0].partitions)
        wait_until(lambda: self._has_logs(name, count), lambda: f"logs of {name}")
        ours, kafkas = (id_of(each, name) for each in found)
        assert ours is not None
        assert kafkas is not None
        self.twins.learn_topic(name, (ours, kafkas))
        self.data.partitions[name] = count

    def _has_logs(self, name: str, count: int) -> bool:
        """Kafka names a leader before that has opened its logs."""
        partitions = [k02_list_offsets.Partition(partition_index=index, timestamp=-1) for index in range(count)]
        request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name=name, partitions=partitions)])
        answers = self.twins.ask(k02_list_offsets, 5, lambda _: request)
        return not any(each.error_code for answer in answers for each in answer.topics[0].partitions)

    def _described(self, name: str) -> tuple[Any, Any]:
        request = k03_metadata.Request(topics=[k03_metadata.Topic(name=name)], allow_auto_topic_creation=False)
        return self.twins.ask(k03_metadata, _METADATA, lambda _: request)

    def _delete_topics(self) -> None:
        operation = self.admin.delete_topics()
        answers = self.compare(operation)
        if not answers or CLOSED in answers:
            return
        for result in answers[OURS].responses:
            if result.error_code == 0 and result.name in self.data.partitions:
                self._forget(result.name)

    def _forget(self, name: str) -> None:
        wait_until(lambda: all(id_of(each, name) is None for each in self._described(name)), lambda: f"deletion of {name}")
        self.deleted += 1
        self.twins.learn_topic(f"deleted-{self.deleted}", self.twins.topic_ids.pop(name))
        del self.data.partitions[name]
        self.data.ends = {key: end for key, end in self.data.ends.items() if key[0] != name}
        for producer in self.data.producers:
            producer.next = {key: sequence for key, sequence in producer.next.items() if key[0] != name}

    def _create_partitions(self) -> None:
        operation = self.admin.create_partitions()
        answers = self.compare(operation)
        (requested, *_), is_draft = operation.make(OURS).topics, operation.make(OURS).validate_only
        if answers and CLOSED not in answers and not is_draft and [each.results[0].error_code for each in answers] == [0, 0]:
            self._learn(requested.name, requested.count)

    # -- configs ----------------------------------------------------------------------------------------------------

    def _incremental_alter_configs(self) -> None:
        self._alter(self.admin.incremental_alter_configs())

    def _alter_configs(self) -> None:
        self._alter(self.admin.alter_configs())

    def _alter(self, operation: Operation) -> None:
        answers = self.compare(operation)
        if not answers or CLOSED in answers:
            return
        (resource,) = operation.make(OURS).resources
        codes = [answer.responses[0].error_code for answer in answers]
        if codes == [0, 0] and resource.resource_type == 2:
            name = resource.resource_name
            wait_until(
                lambda: len({str(each) for each in self._configs(name)}) == 1, lambda: f"configs: {operation.note} {self._configs(name)}"
            )

    def _configs(self, name: str) -> list[Any]:
        requested = k32_describe_configs.Resource(resource_type=2, resource_name=name, configuration_keys=None)
        answers = self.twins.ask(k32_describe_configs, 4, lambda _: k32_describe_configs.Request(resources=[requested]))
        return [sorted((each.name, each.value) for each in answer.results[0].configs if each.config_source == 1) for answer in answers]

    def _describe_configs(self) -> None:
        self.compare(self.admin.describe_configs())

    def _metadata(self) -> None:
        self.compare(self.admin.metadata())

    def _describe_topic_partitions(self) -> None:
        self.compare(self.admin.describe_topic_partitions())

    def _describe_cluster(self) -> None:
        self.compare(self.admin.describe_cluster())

    def _api_versions(self) -> None:
        self.compare(self.admin.api_versions())


#: lists whose order Kafka leaves to hash maps, or shuffles on purpose (DeleteTopics)
_UNORDERED: Final = {
    "topics", "responses", "results", "partitions", "partition_responses", "configs", "results_by_transaction", "topic_results",
    "results_by_partition", "results_by_topic_v3_and_below", "transaction_states", "active_producers", "aborted_transactions",
    "unknown_state_filters",
}  # fmt: skip
_KEYS: Final = (
    "name", "topic", "topic_id", "resource_name", "index", "partition_index", "partition", "transactional_id", "producer_id",
    "first_offset", "error_code",
)  # fmt: skip


def _sorted(schema: Any, answer: Any) -> Any:
    """With the lists sorted whose order says nothing."""
    if isinstance(answer, dict):
        if schema is k01_fetch and "responses" in answer:
            answer["responses"] = _merged(answer["responses"])
        inner = {key: _sorted(schema, value) for key, value in answer.items()}
        return {key: sorted(value, key=_key) if key in _UNORDERED and isinstance(value, list) else value for key, value in inner.items()}
    return [_sorted(schema, each) for each in answer] if isinstance(answer, list) else answer


def _merged(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fetch answers list a topic again when another came between, and Kafka puts those that it does not know last."""
    merged: dict[tuple[str, Any], dict[str, Any]] = {}
    for topic in topics:
        merged.setdefault((topic["topic"], topic["topic_id"]), topic | {"partitions": []})["partitions"].extend(topic["partitions"])
    return list(merged.values())


def _key(element: Any) -> tuple[str, ...]:
    if not isinstance(element, dict):
        return (f"{element!s:>12}",)
    return tuple(f"{element.get(name)!s:>12}" for name in _KEYS)
