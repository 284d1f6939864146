"""Answer like Apache Kafka where minibroker's handlers deliberately differ: the property `minibroker.like.kafka`.

    registry = like_kafka(registry, services)      once, at start; without the property this module is not imported

In Apache Kafka another node creates topics, and a broker knows them later. A client sees these
effects:

    Metadata          a topic that it auto-creates is UNKNOWN_TOPIC_OR_PARTITION at first, and exists some time later
    FindCoordinator   COORDINATOR_NOT_AVAILABLE until the internal topic exists
    CreateTopics      brokers do not know the topic yet when this is answered: Metadata and DescribeTopicPartitions leave it out
    old versions      those that Kafka 4 dropped (KIP-896) are not served. Produce 0 to 2 are still listed: librdkafka looks for them

Source: observed with Apache Kafka 4.3.1; AutoTopicCreationManager, ApiKeys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.dispatch.context import RequestContext, Services
from minibroker.dispatch.middleware import after, wrapped
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import CoordinatorNotAvailable, KafkaError, UnknownTopicOrPartition, WireError
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k10_find_coordinator,
    k19_create_topics,
    k32_describe_configs,
    k35_describe_log_dirs,
    k75_describe_topic_partitions,
)
from minibroker.wire.api import Api
from minibroker.wire.schema import NIL_UUID

CREATION_MS: Final = 50  #: until an auto-created topic exists; 30 to 200 ms in an idle Apache Kafka
PROPAGATION_MS: Final = 5  #: until brokers know a new topic; 0 to 10 ms in Apache Kafka, 100 ms on a busy machine

#: API key -> the lowest version that Apache Kafka 4 serves, where minibroker serves older ones
MIN_VERSIONS: Final = {
    k01_fetch.API_KEY: 4,
    k02_list_offsets.API_KEY: 1,
    k32_describe_configs.API_KEY: 1,
    k35_describe_log_dirs.API_KEY: 1,
}
_PRODUCE_SINCE: Final = 3

_LOG = logging.getLogger(__name__)


def like_kafka(registry: Registry, services: Services) -> Registry:
    """Return a registry of the same APIs that answers like Apache Kafka.

    All brokers of a cluster share its state.
    """
    late = LateTopics(services)
    around: dict[int, Callable[[Handler, Any, Any], Any]] = {
        k00_produce.API_KEY: _produced,
        k03_metadata.API_KEY: late.metadata,
        k10_find_coordinator.API_KEY: late.find_coordinator,
        k19_create_topics.API_KEY: late.create_topics,
        k75_describe_topic_partitions.API_KEY: late.describe_topic_partitions,
    }

    def wrap(handler: Handler) -> Handler:
        key = handler.api.key
        return handler.around(partial(around[key], handler)) if key in around else handler

    return Registry(map(_without_old_versions, registry.apis()), wrapped(registry, wrap).get)


def _without_old_versions(api: Api) -> Api:
    if api.key in MIN_VERSIONS:
        api = copy(api)
        api.min_version = MIN_VERSIONS[api.key]
    return api


def _produced(handler: Handler, ctx: RequestContext, request: k00_produce.Request) -> Any:
    if ctx.api_version < _PRODUCE_SINCE:
        raise WireError(f"Produce version {ctx.api_version} is not served: Apache Kafka 4 lists it and closes the connection")
    return handler.handle(ctx, request)


class _Coordinator(Protocol):
    def ensure_topic(self) -> None:
        """Create its internal topic unless it exists; raises KafkaError."""


class LateTopics:
    """Topics that are created later, and new topics that brokers do not know yet."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._to_create: dict[str, Callable[[], object]] = {}  #: by name, in the order of the requests
        self._hidden: dict[str, UUID] = {}  #: new topics that brokers do not know yet

    # Topics that do not exist yet

    def metadata(self, handler: Handler, ctx: RequestContext, request: k03_metadata.Request) -> Any:
        """Create missing topics later, and answer without new ones."""
        if request.allow_auto_topic_creation and ctx.broker.config.auto_create_topics_enable:
            for topic in request.topics or ():
                if topic.name and topic.topic_id == NIL_UUID and topic.name not in ctx.cluster.topics:
                    self._create_later(topic.name, partial(ctx.cluster.auto_create_topic, topic.name))
        metadata_request = k03_metadata.Request(
            topics=request.topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=request.include_cluster_authorized_operations,
            include_topic_authorized_operations=request.include_topic_authorized_operations,
        )
        is_for_all = request.topics is None or (ctx.api_version == 0 and not request.topics)
        return after(handler.handle(ctx, metadata_request), partial(self._without_hidden, is_for_all, _unknown_in_metadata))

    def find_coordinator(self, handler: Handler, ctx: RequestContext, request: k10_find_coordinator.Request) -> Any:
        """Raise CoordinatorNotAvailable until the internal topic of the coordinator exists."""
        coordinators = ctx.broker.coordinators
        by_key_type: dict[int, tuple[str, Callable[[], _Coordinator]]] = {
            k10_find_coordinator.GROUP: (CONSUMER_OFFSETS_TOPIC, lambda: coordinators.groups),
            k10_find_coordinator.TRANSACTION: (TRANSACTION_STATE_TOPIC, lambda: coordinators.transactions),
            k10_find_coordinator.SHARE: (SHARE_GROUP_STATE_TOPIC, lambda: coordinators.share_persister),
        }
        name, coordinator = by_key_type.get(request.key_type, ("", None))
        if coordinator is not None and name not in ctx.cluster.topics:
            self._create_later(name, coordinator().ensure_topic)
            raise CoordinatorNotAvailable
        return handler.handle(ctx, request)

    def _create_later(self, name: str, create: Callable[[], object]) -> None:
        if not self._to_create:
            self._services.clock.call_later_ms(CREATION_MS, self._create_next)
        self._to_create.setdefault(name, create)

    def _create_next(self) -> None:
        """Create one topic in each turn of the loop."""
        if not self._to_create:
            return
        name = next(iter(self._to_create))
        create = self._to_create.pop(name)
        try:
            create()
        except KafkaError as error:
            _LOG.info("could not create topic %s, which a client requested: %s", name, error)
        if self._to_create:
            self._services.clock.call_later_ms(0, self._create_next)

    # Topics that brokers do not know yet

    def create_topics(self, handler: Handler, ctx: RequestContext, request: k19_create_topics.Request) -> Any:
        """Hide the new topics for PROPAGATION_MS."""

        def remember(response: k19_create_topics.Response) -> k19_create_topics.Response:
            if not request.validate_only:
                self._hide([topic.name for topic in response.topics if topic.error_code == 0])
            return response

        return after(handler.handle(ctx, request), remember)

    def _hide(self, names: Iterable[str]) -> None:
        topics = self._services.cluster.topics
        new = {name: topics[name].topic_id for name in names if name in topics}
        self._hidden.update(new)

        def show() -> None:
            for name, topic_id in new.items():
                if self._hidden.get(name) == topic_id:
                    del self._hidden[name]

        if new:
            self._services.clock.call_later_ms(PROPAGATION_MS, show)

    def describe_topic_partitions(self, handler: Handler, ctx: RequestContext, request: k75_describe_topic_partitions.Request) -> Any:
        """Answer without new topics."""
        return after(handler.handle(ctx, request), partial(self._without_hidden, not request.topics, _unknown_in_description))

    def _without_hidden(self, is_for_all: bool, unknown: Callable[[Any], Any], response: Any) -> Any:
        if self._hidden:
            found = [topic if not self._is_new(topic) else unknown(topic) for topic in response.topics]
            response.topics = [topic for topic in found if topic.error_code == 0 or not is_for_all]
        return response

    def _is_new(self, topic: Any) -> bool:
        return bool(topic.error_code == 0 and self._hidden.get(topic.name) == topic.topic_id)


def _unknown_in_metadata(topic: k03_metadata.TopicResult) -> k03_metadata.TopicResult:
    return k03_metadata.TopicResult(
        error_code=UnknownTopicOrPartition.code,
        name=topic.name,
        topic_id=NIL_UUID,
        partitions=[],
        topic_authorized_operations=topic.topic_authorized_operations,
    )


def _unknown_in_description(topic: k75_describe_topic_partitions.TopicResult) -> k75_describe_topic_partitions.TopicResult:
    return k75_describe_topic_partitions.TopicResult(
        error_code=UnknownTopicOrPartition.code,
        name=topic.name,
        partitions=[],
        topic_authorized_operations=topic.topic_authorized_operations,
    )
