"""Check the schema ids of produced records, as Confluent Server does for topics with `confluent.value.schema.validation`.

Produce is wrapped by `make_registry`, only on a broker with a schema registry. A request that names a
topic with validation is checked before its handler runs. Records without a schema of their subject
fail their batch with INVALID_RECORD. Null keys and values pass. Payloads are not decoded. The message
of a refused record is that of Confluent Server 7, as its users have published it (for example in
confluentinc/schema-registry, issue 2636), and a reason.

    TopicNameStrategy          TOPIC-key, TOPIC-value
    RecordNameStrategy         the full name of the record in the schema
    TopicRecordNameStrategy    TOPIC-NAME
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from minibroker.config.topic_properties import SCHEMA_PROPERTIES
from minibroker.dispatch import registry
from minibroker.dispatch.context import RequestContext, Services
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.middleware import after, wrapped
from minibroker.dispatch.registry import Handler
from minibroker.errors import InvalidRecord, KafkaError, UnknownServerError, WireError
from minibroker.records.batch import RecordBatch
from minibroker.records.steps import Steps
from minibroker.records.validate import MAX_RECORD_ERRORS, is_legacy, only_batch
from minibroker.registry.errors import RegistryError
from minibroker.registry.record_ids import Found, read_ids
from minibroker.registry.registry import Registry
from minibroker.registry.state import ContextIds
from minibroker.registry.stored_schema import AVRO, PROTOBUF
from minibroker.registry.subjects import DEFAULT_CONTEXT
from minibroker.schemas import k00_produce as schema
from minibroker.wire.schema import replace

_INTERCEPTOR: Final = "io.confluent.kafka.schemaregistry.validator.RecordSchemaValidator"
_PARTS: Final = ("key", "value")
_NAMES_MAX: Final = 1_000  #: names of schemas that are kept

Place = tuple[str, UUID, int]


class TopicRules(NamedTuple):
    """What a topic checks: the strategy of its keys and of its values; None: they are not checked."""

    key: str | None
    value: str | None


def rules_of(config: Mapping[str, str]) -> TopicRules | None:
    """Return the rules in the overrides of a topic; None: it checks nothing."""
    found = [_strategy(config, part) for part in _PARTS]
    return TopicRules(*found) if any(found) else None


def _strategy(config: Mapping[str, str], part: str) -> str | None:
    if config.get(f"confluent.{part}.schema.validation", "false").lower() != "true":
        return None
    name = f"confluent.{part}.subject.name.strategy"
    return config.get(name, str(SCHEMA_PROPERTIES[name].default)).rpartition(".")[2]


class SchemaValidation:
    """Checks what clients produce to one broker."""

    def __init__(self, find_registry: Callable[[Services], Registry]) -> None:
        """`find_registry` returns the registry of the broker that a request came to."""
        self._find_registry = find_registry

    def make_registry(self, load: Callable[[], registry.Registry] = registry.load) -> registry.Registry:
        """Return the handlers of a broker, with its Produce checked."""
        return wrapped(load(), self._around)

    def _around(self, handler: Handler) -> Handler:
        return handler.around(partial(self._serve, handler)) if handler.api.key == schema.API_KEY else handler

    def _serve(self, handler: Handler, ctx: RequestContext, request: schema.Request) -> Any:
        checked = [topic for topic in request.topic_data if self._rules_of(ctx, topic) is not None]
        if not checked:
            return handler.handle(ctx, request)
        return ctx.broker.slices.run(self._serve_checked(handler, ctx, request))

    def _rules_of(self, ctx: RequestContext, topic: schema.Topic) -> TopicRules | None:
        found = _find_topic(ctx, topic)
        return None if found is None or not found.config else rules_of(found.config)

    def _serve_checked(self, handler: Handler, ctx: RequestContext, request: schema.Request) -> Generator[Delayed | None, Any, Any]:
        schemas = self._find_registry(ctx.broker)
        failed: dict[Place, KafkaError] = {}
        try:
            yield from schemas.catch_up_in_steps()
        except RegistryError as error:
            problem = UnknownServerError(f"the schema registry cannot be read: {error.message}")
            failed = {_place(topic, each): problem for topic in request.topic_data for each in topic.partition_data}
        else:
            ids = schemas.state.ids_in(DEFAULT_CONTEXT)
            for topic in request.topic_data:
                rules, found = self._rules_of(ctx, topic), _find_topic(ctx, topic)
                if rules is None:
                    continue
                subjects = Subjects(found.name, rules, ids)
                for each in topic.partition_data:
                    try:
                        yield from _check(ctx, subjects, each)
                    except KafkaError as error:
                        failed[_place(topic, each)] = error.with_traceback(None)
                    yield None
        result = _serve_rest(handler, ctx, request, failed)
        return (yield result) if isinstance(result, Delayed) else result


def _find_topic(ctx: RequestContext, topic: schema.Topic) -> Any:
    cluster = ctx.broker.cluster
    if topic.name:
        return cluster.topics.get(topic.name)
    return cluster.image.topics_by_id.get(topic.topic_id)


def _place(topic: schema.Topic, partition: schema.Partition) -> Place:
    return topic.name, topic.topic_id, partition.index


def _check(ctx: RequestContext, subjects: Subjects, entry: schema.Partition) -> Generator[Delayed | None, Any, None]:
    """Check the batch of one partition. Raises InvalidRecord. What is wrong with it besides, the handler finds."""
    data = entry.records
    if not data:
        return
    view = memoryview(cast("memoryview", data))
    if is_legacy(view):
        raise InvalidRecord("records of message formats v0 and v1 cannot be checked for their schema ids: use a newer client")
    try:
        batch = only_batch(view, None)
    except KafkaError:
        return
    judge = _Judge(subjects, batch)
    steps: Steps[None] = read_ids(batch, judge)
    try:
        yield from ctx.broker.record_steps.do(steps)
    except KafkaError:
        if batch.check_crc():
            raise
        return  # a broken batch: the handler says so
    if judge.count:
        raise judge.error


class _Judge:
    """Finds the records of a batch that its topic refuses."""

    def __init__(self, subjects: Subjects, batch: RecordBatch) -> None:
        self._subjects = subjects
        self._base_timestamp = batch.base_timestamp
        self._found: list[tuple[int, str]] = []  #: the first MAX_RECORD_ERRORS
        self.count = 0

    def __call__(self, number: int, timestamp_delta: int, sizes: tuple[int, int], key: Found, value: Found) -> None:
        """Look at one record."""
        subjects = self._subjects
        reason = None
        if subjects.checks_value and sizes[1] >= 0 and value not in subjects.valid_values:
            reason = subjects.refusal("value", value)
        if reason is None and subjects.checks_key and sizes[0] >= 0 and key not in subjects.valid_keys:
            reason = subjects.refusal("key", key)
        if reason is None:
            return
        self.count += 1
        if self.count <= MAX_RECORD_ERRORS:
            key_size, value_size = (max(each, 0) for each in sizes)
            record = (
                f"DefaultRecord(offset={number}, timestamp={self._base_timestamp + timestamp_delta}, "
                f"key={key_size} bytes, value={value_size} bytes)"
            )
            self._found.append((number, f"Log record {record} is rejected by the record interceptor {_INTERCEPTOR}: {reason}"))

    @property
    def error(self) -> KafkaError:
        """The error for the batch."""
        error = InvalidRecord(f"One or more records have been rejected due to {self.count} record errors in total")
        error.record_errors = tuple(self._found)
        return error


class Subjects:
    """The subjects that the records of a topic have to belong to. Ids that were found valid are kept for the request."""

    def __init__(self, topic: str, rules: TopicRules, ids: ContextIds) -> None:
        self._topic = topic
        self._rules = rules
        self._ids = ids
        self.checks_key, self.checks_value = rules.key is not None, rules.value is not None
        self.valid_keys: set[Found] = set()
        self.valid_values: set[Found] = set()

    def refusal(self, part: str, found: Found) -> str | None:
        """Return why a key or value that is not null is refused; None: it is not."""
        if found is None:
            return f"the {part} has no schema id"
        reason = self._refusal(part, (self._rules.key if part == "key" else self._rules.value) or "", found)
        if reason is None:
            (self.valid_keys if part == "key" else self.valid_values).add(found)
        return reason

    def _refusal(self, part: str, strategy: str, schema_id: int | str) -> str | None:
        number = schema_id if isinstance(schema_id, int) else self._ids.by_digest.get(UUID(schema_id).bytes)
        content = None if number is None else self._ids.contents.get(number)
        if number is None or content is None:
            return f"there is no schema with the id {schema_id}, which the {part} names"
        if strategy == "TopicNameStrategy":
            subject: str | None = f"{self._topic}-{part}"
        else:
            name = record_name(content.schema_type, content.text)
            subject = name if strategy == "RecordNameStrategy" or name is None else f"{self._topic}-{name}"
        if subject is None:
            return f"the schema with the id {schema_id} of the {part} has no name, as {strategy} needs one"
        return None if subject in self._ids.versions.get(number, ()) else f"schema id {schema_id} does not belong to the subject {subject}"


@lru_cache(maxsize=_NAMES_MAX)
def record_name(schema_type: str, text: str) -> str | None:
    """Return the full name of the record in a schema as serializers build subjects from it; None: it has none."""
    if schema_type == PROTOBUF:
        package = re.search(r"^package ([\w.]+);$", text, re.MULTILINE)
        message = re.search(r"^message (\w+) \{", text, re.MULTILINE)
        return None if message is None else ".".join(each[1] for each in (package, message) if each is not None)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None  # another registry let it pass
    if not isinstance(found, dict):
        return None
    name, namespace = found.get("name" if schema_type == AVRO else "title"), found.get("namespace") if schema_type == AVRO else None
    if not isinstance(name, str) or not isinstance(namespace, str | None):
        return None
    return name if not name or not namespace or "." in name else f"{namespace}.{name}"


def _serve_rest(handler: Handler, ctx: RequestContext, request: schema.Request, failed: Mapping[Place, KafkaError]) -> Any:
    """Serve the partitions that passed, and join the errors of the others with the response."""
    if not failed:
        return handler.handle(ctx, request)
    kept = [
        replace(topic, partition_data=[each for each in topic.partition_data if _place(topic, each) not in failed])
        for topic in request.topic_data
    ]
    rest = replace(request, topic_data=[topic for topic in kept if topic.partition_data])

    def join(response: schema.Response) -> schema.Response:
        by_topic = {(each.name, each.topic_id): each for each in response.responses}
        for (name, topic_id, index), error in failed.items():
            result = by_topic.get((name, topic_id))
            if result is None:
                result = by_topic[name, topic_id] = schema.TopicResult(name=name, topic_id=topic_id, partition_responses=[])
                response.responses.append(result)
            result.partition_responses.append(_result(index, error))
        return response

    if request.acks == 0:
        if rest.topic_data:
            handler.handle(ctx, rest)
        place, error = next(iter(failed.items()))
        raise WireError(f"Produce with acks=0 to {place[0] or str(place[1])!r}-{place[2]} failed: {error}")
    return after(handler.handle(ctx, rest), join) if rest.topic_data else join(schema.Response(responses=[]))


def _result(index: int, error: KafkaError) -> schema.PartitionResult:
    return schema.PartitionResult(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=[
            schema.RecordError(batch_index=position, batch_index_error_message=message)
            for position, message in getattr(error, "record_errors", ())
        ],
        error_message=str(error),
    )
