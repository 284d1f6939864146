"""A request in pieces is answered as the whole request: for each API that is cut, in each version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minibroker.config.request_limits import QUOTA_ALTERATIONS_MAX, REPEATED_MAX
from minibroker.dispatch import registry
from minibroker.dispatch.delayed import Answer, Delayed
from minibroker.dispatch.pieces import MergedResponse, Pieces
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import InvalidRequest, PolicyViolation, WireError
from minibroker.schemas import (
    k02_list_offsets,
    k03_metadata,
    k09_offset_fetch,
    k21_delete_records,
    k27_write_txn_markers,
    k49_alter_client_quotas,
)
from minibroker.schemas import k19_create_topics as k19
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from minibroker.wire.schema import NIL_UUID, Struct
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.worst_frames import distinct, empty, worst_frames

SIZE = 600
TOPICS = {"0": 3, "1": 1, "2": 2, "a": 1, "orders": 4}

CLUSTER_ID = "HhN01S-QTZihtB2FMV6HvA"

#: where elements that are alike change each other's answers: they may be in different pieces, as no client asks twice
ALIKE_DIFFER = {k02_list_offsets.API_KEY, k21_delete_records.API_KEY, k27_write_txn_markers.API_KEY}

CUT = [handler.api.key for handler in registry.load() if handler.pieces and not handler.pieces[0].is_atomic]


def broker(key: int, *, piece_size: int | None) -> BrokerInMemory:
    """A broker that cuts requests of one API into pieces of that size, or does not."""
    memory = BrokerInMemory(topics=TOPICS, config={"auto.create.topics.enable": "false", "cluster.id": CLUSTER_ID})
    handler = registry.load().get(key)
    assert handler is not None
    pieces = [
        Pieces(".".join(each.request), ".".join(each.answer), size=piece_size, key=each.key, beside=each.beside)
        for each in handler.pieces
        if piece_size
    ]
    memory.services.registry = Registry()
    memory.services.registry.add(Handler(handler.api, handler.handle, pieces=pieces))
    return memory


def answer(memory: BrokerInMemory, key: int, frame: bytes) -> Any:
    """The response, decoded; None where the connection is closed or there is no answer."""
    handler = memory.services.registry.get(key)
    assert handler is not None
    api, version = handler.api, int.from_bytes(frame[2:4], "big")
    found: Answer | Delayed | None
    try:
        found = memory.dispatcher.dispatch(memory.connection, memoryview(bytearray(frame)))
    except WireError:
        return None
    if isinstance(found, Delayed):
        memory.clock.advance(1000)
        assert found.is_done
        found = found.answer
    if not found:
        return None
    data = b"".join(map(bytes, found))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    _, position = decode_response_header(data[4:], response_header_version(api, version))
    return decode(api.Response, data[4 + position :], version, flexible=api.flexible(version))


def unordered(value: Any) -> Any:
    """The same whatever the order of lists, and without what is random or time."""
    if isinstance(value, Struct):
        return (type(value).__name__, *(unordered(getattr(value, name)) for name in value.declared_))
    if isinstance(value, list):
        return ("list", *sorted((unordered(each) for each in value), key=repr))
    return str(value != NIL_UUID) if isinstance(value, UUID) else value


@pytest.mark.parametrize("key", CUT)
def test_a_request_in_pieces_is_answered_as_the_whole(key: int) -> None:
    schema = next(handler for handler in registry.load() if handler.api.key == key).api
    module = __import__(schema.Request.__module__, fromlist=["Request"])
    whole, pieces = broker(key, piece_size=None), broker(key, piece_size=3)
    texts = (distinct(),) if key in ALIKE_DIFFER else (empty, distinct())
    for version in {*module.VERSIONS, min(max(module.FLEXIBLE_SINCE or 0, module.VERSIONS[0]), module.VERSIONS[1])}:
        for frame in [frame for text in texts for frame in worst_frames(module, version, SIZE, text)]:
            expected, found = answer(whole, key, frame), answer(pieces, key, frame)
            assert (found is None) == (expected is None)
            assert unordered(found) == unordered(expected), version


def test_pieces_are_small_and_nothing_is_lost() -> None:
    pieces = Pieces("groups.topics.partition_indexes", "groups.topics.partitions", size=10)

    def topic(name: str, count: int | None) -> Any:
        return k09_offset_fetch.GroupTopic(name=name, partition_indexes=list(range(count or 0)))

    groups = [
        k09_offset_fetch.Group(group_id="a", topics=[topic("x", 3), topic("y", 25), topic("z", 0)]),
        k09_offset_fetch.Group(group_id="all", topics=None),
        *(k09_offset_fetch.Group(group_id=f"small {number}", topics=[topic("x", 1)]) for number in range(20)),
    ]
    request = k09_offset_fetch.Request(groups=groups, require_stable=True)
    cut = [piece for piece in pieces.cut(None, request) if piece is not None]
    seen: list[Any] = []
    for piece in cut:
        assert piece.request.require_stable
        assert sum(pieces._weight(group, pieces.request[1:]) for group in piece.request.groups) <= 12
        for group in piece.request.groups:
            for each in group.topics if group.topics is not None else [None]:
                seen += [(group.group_id, each and each.name, index) for index in (each.partition_indexes if each else ())] or [
                    (group.group_id, each and each.name, None)
                ]
    expected = (
        [("a", "x", index) for index in range(3)] + [("a", "y", index) for index in range(25)] + [("a", "z", None), ("all", None, None)]
    )
    assert seen == expected + [(f"small {number}", "x", 0) for number in range(20)]


def test_a_topic_in_several_pieces_is_one_in_the_answer() -> None:
    memory = broker(k02_list_offsets.API_KEY, piece_size=3)
    partitions = [k02_list_offsets.Partition(partition_index=index % 4, timestamp=-1) for index in range(20)]
    request = k02_list_offsets.Request(
        replica_id=-1,
        topics=[
            k02_list_offsets.Topic(name="0", partitions=partitions[:1]),
            k02_list_offsets.Topic(name="orders", partitions=partitions),
            k02_list_offsets.Topic(name="1", partitions=partitions[:2]),
        ],
    )
    response = memory.ask(request, 7)
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("0", 1), ("orders", 20), ("1", 2)]
    assert [each.partition_index for each in response.topics[1].partitions] == [index % 4 for index in range(20)]


def test_request_too_large_to_split_is_refused() -> None:
    memory = BrokerInMemory()
    for count, error_code in ((QUOTA_ALTERATIONS_MAX, 0), (QUOTA_ALTERATIONS_MAX + 1, PolicyViolation.code)):
        entries = [
            k49_alter_client_quotas.Entry(
                entity=[k49_alter_client_quotas.Entity(entity_type="user", entity_name=f"{count}-{number}")],
                ops=[k49_alter_client_quotas.Operation(key="producer_byte_rate", value=1.0, remove=False)],
            )
            for number in range(count // 3)  # an entry, its type and its operation
        ]
        removal = k49_alter_client_quotas.Operation(key="consumer_byte_rate", value=0.0, remove=True)
        entries[0].ops.extend([removal] * (count % 3))
        response = memory.ask(k49_alter_client_quotas.Request(entries=entries, validate_only=False))
        assert {entry.error_code for entry in response.entries} == {error_code}
        assert len(response.entries) == len(entries)
        assert len(memory.cluster.image.kept.quotas) == QUOTA_ALTERATIONS_MAX // 3


def test_entity_with_too_many_types_is_refused() -> None:
    memory = BrokerInMemory()
    parts = [k49_alter_client_quotas.Entity(entity_type=f"type-{number}", entity_name="a") for number in range(QUOTA_ALTERATIONS_MAX)]
    request = k49_alter_client_quotas.Request(entries=[k49_alter_client_quotas.Entry(entity=parts, ops=[])], validate_only=False)
    (entry,) = memory.ask(request).entries
    assert (entry.error_code, entry.entity) == (PolicyViolation.code, [])


def test_equal_elements_are_in_one_piece() -> None:
    memory = broker(k03_metadata.API_KEY, piece_size=2)
    names = ["orders", "0", "1", "2", "orders", "a", "0", "orders"]
    request = k03_metadata.Request(topics=[k03_metadata.Topic(name=name) for name in names], allow_auto_topic_creation=False)
    assert [topic.name for topic in memory.ask(request).topics] == ["orders", "0", "1", "2", "a"]


@pytest.mark.parametrize("repeated", [REPEATED_MAX, REPEATED_MAX + 1])
def test_excessive_duplicates_are_refused_alone(repeated: int) -> None:
    memory = BrokerInMemory()
    names = ["often"] * repeated + ["once"]
    topics = [k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names]
    counts: list[int] = []
    handler = registry.load().get(k19.API_KEY)
    assert handler is not None

    def see(ctx: Any, request: Any) -> Any:
        counts.append(len(request.topics))
        return handler.handle(ctx, request)

    memory.services.registry = Registry()
    memory.services.registry.add(Handler(handler.api, see, handler.module, handler.pieces))
    answer = memory.ask(k19.Request(topics=topics, timeout_ms=1000, validate_only=False))
    assert {(topic.name, topic.error_code) for topic in answer.topics} == {("often", InvalidRequest.code), ("once", 0)}
    assert sum(counts) == (repeated + 1 if repeated <= REPEATED_MAX else 1)
    assert list(memory.cluster.topics) == ["once"]


def test_the_first_error_and_the_longest_time_are_kept() -> None:
    merged = MergedResponse(Pieces("topics", "topics"), 8, flexible=True)
    for throttle_ms, error_code in ((3, 0), (7, 15), (5, 16)):
        merged.add(k09_offset_fetch.Response(throttle_time_ms=throttle_ms, error_code=error_code, topics=[]), 0)
    response = merged.response()
    assert (response.throttle_time_ms, response.error_code) == (7, 15)
