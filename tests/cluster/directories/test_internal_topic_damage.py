"""FAULTS 1 to 5 in the topics of the coordinators: a segment of one partition is damaged, and the broker is started again.

The broker starts. The log keeps what is before the damage, or all but the damaged batch. The coordinators serve what is left of the
damaged partition, and all of the others. One line in the log names the partition that lost something. As observed with Apache Kafka
4.3.1 (which refuses to start on a zero-filled tail after a clean stop), with two deliberate differences:

- Apache Kafka does not check the CRC of a batch that a coordinator loads. It serves whatever a flipped byte made of a record. Here the
  batch is left out.
- A damaged batch of `__transaction_state` may be a decision about any transactional id of the partition, so none of them is served.
  Apache Kafka serves those that are before the damage, and loses the others.
"""

from __future__ import annotations

import logging
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from crc32c import crc32c

from minibroker.coordinator.share_state.records import InitialState, StateBatch, StateKey, StateUpdate
from minibroker.coordinator.stored_topic import partition_of
from minibroker.errors import InvalidRequest, NotCoordinator
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE
from minibroker.schemas import k69_consumer_group_describe as k69
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.schemas import k77_share_group_describe as k77
from minibroker.storage.checkpoint_file import RECOVERY_POINT
from minibroker.storage.directory_files import CLEAN_SHUTDOWN
from minibroker.storage.record_frame import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, RecordFrame
from tests.support import consumer_members, group_members
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import commit, fetch, groups_of
from tests.support.share_states import persister_of
from tests.support.soak import first_of, stride
from tests.support.transactional_ids import coordinator_of, init_producer

CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}
NAMES = [f"name-{number}" for number in range(8)]
FRAMES: dict[str, RecordFrame] = {
    "__consumer_offsets": CONSUMER_OFFSETS,
    "__transaction_state": TRANSACTION_STATE,
    "__share_group_state": SHARE_GROUP_STATE,
}
UNKNOWN = struct.pack(">h", 99)
EVERY_BYTE = stride(11)  #: that many-th one is flipped

State = object
#: What the coordinator of a topic knows of each name; None where it knows nothing, "refused" where it does not serve it.
States = dict[str, State]


def offset_of(broker: BrokerInMemory, name: str) -> State:
    found = fetch(broker, group=name)
    return "refused" if found == {("error", 16): None} else found.get(("orders", 0))


def transaction_of(broker: BrokerInMemory, name: str) -> State:
    try:
        metadata = coordinator_of(broker).get(name)
    except NotCoordinator:
        return "refused"
    return None if metadata is None else (metadata.state, metadata.producer_epoch)


def share_of(broker: BrokerInMemory, name: str) -> State:
    key = StateKey(name, broker.cluster.topics["orders"].topic_id, 0)
    try:
        return persister_of(broker).read(key, -1).start_offset
    except NotCoordinator:
        return "refused"
    except InvalidRequest:
        return None


STATE_OF: dict[str, Callable[[BrokerInMemory, str], State]] = {
    "__consumer_offsets": offset_of,
    "__transaction_state": transaction_of,
    "__share_group_state": share_of,
}


def home_of(topic: str, broker: BrokerInMemory, name: str) -> int:
    if topic == "__share_group_state":
        return partition_of(StateKey(name, broker.cluster.topics["orders"].topic_id, 0).coordinator_key, 2)
    return partition_of(name, 2)


def states_of(broker: BrokerInMemory, topic: str) -> States:
    return {name: STATE_OF[topic](broker, name) for name in NAMES}


class Original(NamedTuple):
    """A stopped broker's folder, and the state of each name after each of its records, by topic."""

    folder: Path
    is_clean: bool
    steps: dict[str, dict[str, list[State]]]


def fill(folder: Path) -> dict[str, dict[str, list[State]]]:
    """Each name has two records in each topic, the second ones after the first ones of all names."""
    broker = BrokerInMemory({"orders": 1}, CONFIG, folder=folder)
    groups_of(broker)
    persister_of(broker).ensure_topic()
    topic_id = broker.cluster.topics["orders"].topic_id
    steps: dict[str, dict[str, list[State]]] = {topic: {name: [] for name in NAMES} for topic in FRAMES}
    for turn in range(2):
        for number, name in enumerate(NAMES):
            commit(broker, {("orders", 0): 10 * turn + number}, group=name)
            init_producer(broker, name)
            if turn:
                update = StateUpdate(1, 0, number + 1, 1, [StateBatch(number, number, 2, 1)])
                persister_of(broker).write(StateKey(name, topic_id, 0), update)
            else:
                persister_of(broker).initialize(name, [InitialState(topic_id, 0, 1, number)])
        for topic in FRAMES:
            for name, state in states_of(broker, topic).items():
                steps[topic][name].append(state)
    broker.services.coordinators.stop()
    broker.cluster.close()
    return steps


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp(request.param) / "data"
    steps = fill(folder)
    if request.param == "killed":
        (folder / CLEAN_SHUTDOWN).unlink()
        (folder / RECOVERY_POINT).unlink()
    return Original(folder, request.param == "stopped", steps)


class Batch(NamedTuple):
    """One of a segment, which has one record here."""

    position: int
    size: int
    name: str
    key: bytes
    value: bytes


def batches_of(topic: str, segment: Path) -> list[Batch]:
    found, position = [], 0
    for batch in split_batches(segment.read_bytes()):
        [record] = decode_records(batch)
        decoded = FRAMES[topic].decode(record.key, record.value)
        assert decoded is not None
        key = decoded.key
        name = getattr(key, "group", None) or getattr(key, "group_id", None) or key.transactional_id
        found.append(Batch(position, batch.size, name, bytes(record.key or b""), bytes(record.value or b"")))
        position += batch.size
    return found


def segment_of(folder: Path, topic: str, index: int) -> Path:
    return folder / f"{topic}-{index}" / "00000000000000000000.log"


def with_record(data: bytes, batch: Batch, before: bytes, after: bytes) -> bytes:
    """The log with a record that a newer version wrote, with the right CRC."""
    changed = bytearray(data)
    part = slice(batch.position + HEADER_SIZE, batch.position + batch.size)
    assert changed[part].count(before) == 1
    changed[part] = changed[part].replace(before, after)
    summed = crc32c(bytes(changed[batch.position + ATTRIBUTES_POSITION : batch.position + batch.size]))
    struct.pack_into(">I", changed, batch.position + CRC_POSITION, summed)
    return bytes(changed)


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]


class Damaged(NamedTuple):
    """What is left: the file, and the batches that a coordinator is to know; None where it serves none of the partition."""

    data: bytes
    left: list[Batch] | None
    is_told: bool = True  #: whether the log has a line of it


#: By the log's bytes, its batches, which of them is hit, its topic, and whether the broker was stopped cleanly.
Damage = Callable[[bytes, list[Batch], int, str, bool], Damaged]


def torn_tail(data: bytes, batches: list[Batch], _: int, _topic: str, _clean: bool) -> Damaged:
    return Damaged(data[:-7], batches[:-1])


def truncated(data: bytes, batches: list[Batch], hit: int, _topic: str, _clean: bool) -> Damaged:
    return Damaged(data[: batches[hit].position + 20], batches[:hit])


def emptied(_data: bytes, _batches: list[Batch], _hit: int, _topic: str, clean: bool) -> Damaged:
    return Damaged(b"", [], is_told=clean)  # without a checkpoint there is no trace of what was in it


def zeros_after(data: bytes, batches: list[Batch], _hit: int, _topic: str, _clean: bool) -> Damaged:
    return Damaged(data + bytes(4096), batches)


def zero_filled(data: bytes, batches: list[Batch], hit: int, _topic: str, _clean: bool) -> Damaged:
    at = batches[hit].position
    return Damaged(data[:at] + bytes(len(data) - at), batches[:hit])


def flipped_byte(data: bytes, batches: list[Batch], hit: int, topic: str, clean: bool) -> Damaged:
    at = batches[hit].position + batches[hit].size - 3
    if not clean:
        return Damaged(flipped(data, at), batches[:hit])
    return Damaged(flipped(data, at), None if topic == "__transaction_state" else batches[:hit] + batches[hit + 1 :])


def unknown_key(data: bytes, batches: list[Batch], hit: int, _topic: str, _clean: bool) -> Damaged:
    key = batches[hit].key
    return Damaged(with_record(data, batches[hit], key, UNKNOWN + key[2:]), batches[:hit] + batches[hit + 1 :])


def unknown_value(data: bytes, batches: list[Batch], hit: int, _topic: str, _clean: bool) -> Damaged:
    value = batches[hit].value
    return Damaged(with_record(data, batches[hit], value, UNKNOWN + value[2:]), None)


def missing_indexes(data: bytes, batches: list[Batch], _hit: int, _topic: str, _clean: bool) -> Damaged:
    return Damaged(data, batches, is_told=False)


DAMAGES: list[Damage] = [
    torn_tail,
    truncated,
    emptied,
    zeros_after,
    zero_filled,
    flipped_byte,
    unknown_key,
    unknown_value,
    missing_indexes,
]


def restarted(folder: Path) -> BrokerInMemory:
    return BrokerInMemory(config=CONFIG, folder=folder)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("topic", FRAMES)
def test_one_damaged_partition(damage: Damage, topic: str, original: Original, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(original.folder, folder := tmp_path / "data")
    segment = segment_of(folder, topic, 0)
    batches = batches_of(topic, segment)
    assert len(batches) >= 4
    hit = next(
        each for each in range(len(batches) // 2, len(batches) - 1) if batches[each].name not in {b.name for b in batches[each + 1 :]}
    )
    damaged = damage(segment.read_bytes(), batches, hit, topic, original.is_clean)
    segment.write_bytes(damaged.data)
    if damage is missing_indexes:
        for path in segment.parent.glob("*.*index"):
            path.unlink()

    with caplog.at_level(logging.WARNING):
        broker = restarted(folder)
        found = {each: states_of(broker, each) for each in FRAMES}

    expected = {each: {name: steps[-1] for name, steps in original.steps[each].items()} for each in FRAMES}
    for name in NAMES:
        if home_of(topic, broker, name) == 0:
            expected[topic][name] = expected_of(original.steps[topic][name], name, batches, damaged.left, topic)
    assert found == expected
    lines = [record.getMessage() for record in caplog.records]
    said = [line for line in lines if f"{topic}-0" in line]
    assert not any("\n" in line for line in lines)
    most = 2 if original.is_clean else 1  # that the stop was clean, but the log is not, is a line
    assert damaged.is_told <= len(said) <= most * damaged.is_told, lines
    assert not any(f"{other}-{index}" in line for line in lines for other in FRAMES for index in range(2) if (other, index) != (topic, 0))
    go_on(broker, topic, found[topic])


def expected_of(steps: list[State], name: str, batches: list[Batch], left: list[Batch] | None, topic: str) -> State:
    """The state of a name after those of its records that are left."""
    if left is None:
        return "refused"
    mine = [batch for batch in batches if batch.name == name]
    known = [number for number, batch in enumerate(mine) if batch in left]
    if topic == "__share_group_state" and 0 not in known:
        return None  # an update says nothing without its snapshot
    return steps[known[-1]] if known else None


def go_on(broker: BrokerInMemory, topic: str, found: States) -> None:
    """What is served can be written, and a second start knows it, and the rest as it was."""
    served = [name for name, state in found.items() if state not in {"refused", None}]
    if topic == "__consumer_offsets":
        for name in served:
            commit(broker, {("orders", 0): 99}, group=name)
            found[name] = 99
    # After a crash recovery cuts the log at a damaged batch, and with it go states that were refused.
    again = broker.restart(clean="refused" in found.values())
    assert states_of(again, topic) == found
    again.cluster.close(clean=False)


def with_members(folder: Path) -> None:
    """A group of each kind with a member, and offsets of others, in two partitions."""
    broker = BrokerInMemory({"t": 2}, CONFIG, folder=folder)
    groups_of(broker)
    for name in NAMES:
        commit(broker, {("t", 0): 1}, group=name)
    for group in ("a", "b"):
        assert consumer_members.join(broker, "member", group=f"consumers-{group}").error_code == 0
        assert group_members.stable(broker, group=f"classic-{group}").error_code == 0
        heartbeat = k76.Request(group_id=f"share-{group}", member_id="member", member_epoch=0, subscribed_topic_names=["t"])
        assert broker.ask(heartbeat).error_code == 0
    broker.clock.advance(10_000)
    broker.services.coordinators.stop()
    broker.cluster.close()


def test_flipped_byte_does_not_stop_a_coordinator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is flipped in the records of members: every group can be described or is refused, and those of the other partition live."""
    with_members(folder := tmp_path / "data")
    broker = restarted(folder)
    groups = [*NAMES, *(f"{kind}-{group}" for kind in ("consumers", "classic", "share") for group in ("a", "b"))]
    before = described(broker, groups)
    assert {partition_of(group, 2) for group in groups} == {0, 1}
    broker.services.coordinators.stop()
    broker.cluster.close()
    for index in range(2):
        segment = segment_of(folder, "__consumer_offsets", index)
        whole = segment.read_bytes()
        for position in range(first_of(EVERY_BYTE), len(whole), EVERY_BYTE):
            segment.write_bytes(flipped(whole, position))
            caplog.clear()
            broker = restarted(folder)
            after = described(broker, groups)
            broker.cluster.close(clean=False)
            others = [group for group in groups if partition_of(group, 2) != index]
            assert {group: after[group] for group in others} == {group: before[group] for group in others}, position
            if after != before:
                assert any(f"__consumer_offsets-{index}" in record.getMessage() for record in caplog.records), position
        segment.write_bytes(whole)


def described(broker: BrokerInMemory, groups: list[str]) -> dict[str, object]:
    """What DescribeGroups, and an OffsetFetch, answer of each."""
    consumers = broker.ask(k69.Request(group_ids=groups, include_authorized_operations=False)).groups
    sharers = broker.ask(k77.Request(group_ids=groups, include_authorized_operations=False)).groups
    return {
        group: (str(consumer), str(sharer), str(group_members.describe(broker, group)), fetch(broker, group=group))
        for group, consumer, sharer in zip(groups, consumers, sharers, strict=True)
    }
