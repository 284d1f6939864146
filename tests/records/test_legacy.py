"""Formats v0 and v1 against the bytes of Apache Kafka 3.9.1 (tests/golden/captures/legacy.py), by themselves, and damaged."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import CorruptMessage, InvalidRecord, KafkaError, UnsupportedCompressionType, UnsupportedForMessageFormat
from minibroker.records.any_format import decode_records, read_batch, split_batches
from minibroker.records.batch import RecordBatch, TimestampType
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression, decompress
from minibroker.records.legacy import LegacyBatch, build_message_set, messages_of, with_old_checksum, with_right_checksum, write_message
from minibroker.records.record import Record
from tests.golden.captures.legacy import legacy_golden

SETS = [entry for entry in legacy_golden() if entry["kind"] == "set"]
NOW_MS = 1_700_000_000_000
OLD_CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)


def name_of(entry: dict[str, Any]) -> str:
    return f"v{entry['magic']}_{entry['codec']}" + ("_append_time" if entry["append_time"] else "")


def records_in(entry: dict[str, Any]) -> list[Record]:
    def binary(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    return [Record(offset, timestamp, binary(key), binary(value)) for offset, timestamp, key, value in entry["records"]]


def decoded(data: bytes | bytearray) -> list[Record]:
    return [record for batch in split_batches(data) for record in decode_records(batch)]


def one_set(records: list[Record], magic: int, codec: Compression) -> LegacyBatch:
    batch = read_batch(build_message_set(records, magic, compression=codec))
    assert isinstance(batch, LegacyBatch)
    return batch


def some(count: int, magic: int = 1, base_offset: int = 40) -> list[Record]:
    return [Record(base_offset + index, NOW_MS + index if magic else -1, b"key", b"value %d" % index) for index in range(count)]


def test_golden_sets_cover_all_formats_and_codecs() -> None:
    assert len(SETS) == 4 + 8


@pytest.mark.parametrize("entry", SETS, ids=name_of)
class TestGoldenSets:
    def test_decodes_like_kafka(self, entry: dict[str, Any]) -> None:
        data = bytes.fromhex(entry["data"])
        batches = list(split_batches(data))
        assert all(isinstance(batch, LegacyBatch) and batch.check_crc() and batch.magic == entry["magic"] for batch in batches)
        assert decoded(data) == records_in(entry)
        assert sum(batch.size for batch in batches) == len(data)
        assert [batch.base_offset for batch in batches] == ([1000, 1001, 1002, 1003] if entry["codec"] == "none" else [1000])
        assert batches[-1].last_offset == 1003
        assert batches[-1].next_offset == 1004
        assert sum(batch.record_count for batch in batches) == 4
        assert {batch.timestamp_type for batch in batches} == {TimestampType(entry["append_time"])}
        assert max(batch.max_timestamp for batch in batches) == max(record.timestamp for record in records_in(entry))

    def test_encodes_like_kafka(self, entry: dict[str, Any]) -> None:
        codec, time = Compression.from_name(entry["codec"]), TimestampType(entry["append_time"])
        ours = bytes(build_message_set(records_in(entry), entry["magic"], compression=codec, timestamp_type=time))
        theirs = bytes.fromhex(entry["data"])
        if codec is Compression.NONE:
            assert ours == theirs
            return
        (our_batch,), (their_batch,) = split_batches(ours), split_batches(theirs)
        head = slice(16, 30 if entry["magic"] else 22)  # magic, attributes, timestamp, key length
        assert (ours[:8], ours[head]) == (theirs[:8], theirs[head])
        our_value, their_value = bytes(our_batch.payload), bytes(their_batch.payload)
        if codec is Compression.LZ4 and entry["magic"] == 0:
            assert our_value[:7] == their_value[:7] == b"\x04\x22\x4d\x18\x60\x40\x1a"
            our_value, their_value = bytes(with_right_checksum(our_value)), bytes(with_right_checksum(their_value))
            assert their_value[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"
        assert decompress(codec, our_value) == decompress(codec, their_value)

    def test_every_truncation_is_a_torn_message(self, entry: dict[str, Any]) -> None:
        data = bytes.fromhex(entry["data"])
        ends = {0, *(batch.data.nbytes for batch in split_batches(data))}
        for end in range(1, len(data)):
            if end not in ends:
                whole = [batch.size for batch in split_batches(data[:end], allow_partial=True)]
                assert sum(whole) <= end
                if not whole:
                    with pytest.raises(CorruptMessage):
                        list(split_batches(data[:end]))

    def test_flipped_byte_is_detected(self, entry: dict[str, Any]) -> None:
        good = bytes.fromhex(entry["data"])
        first = read_batch(good)
        for position in range(12, first.size):
            data = bytearray(good)
            data[position] ^= 0x10
            try:
                assert not read_batch(data).check_crc(), position
            except CorruptMessage:
                assert position == 16  # magic 16 does not exist


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
@given(data=st.data())
def test_round_trip(magic: int, codec: Compression, data: st.DataObject) -> None:
    timestamps = st.integers(min_value=-1, max_value=2**62) if magic else st.just(-1)
    fields = st.none() | st.binary(max_size=40)
    gaps = data.draw(st.lists(st.integers(1, 1000), min_size=1, max_size=8))
    base_offset = data.draw(st.integers(0, 2**40))
    records = [
        Record(base_offset + sum(gaps[: index + 1]), data.draw(timestamps), data.draw(fields), data.draw(fields))
        for index in range(len(gaps))
    ]
    encoded = build_message_set(records, magic, compression=codec)
    batches = list(split_batches(encoded))
    assert decoded(encoded) == records
    assert all(batch.check_crc() for batch in batches)
    assert batches[0].base_offset == records[0].offset
    assert batches[-1].last_offset == records[-1].offset


@given(st.binary(max_size=200), st.integers(0, 199), st.integers(0, 255), st.sampled_from(OLD_CODECS), st.integers(0, 1))
def test_random_damage_raises_only_kafka_errors(noise: bytes, position: int, flip: int, codec: Compression, magic: int) -> None:
    good = build_message_set(some(3, magic), magic, compression=codec)
    good[position % len(good)] ^= flip
    for data in (noise, bytes(good)):
        try:
            for batch in split_batches(data):
                list(decode_records(batch))
        except KafkaError:
            continue


def test_legacy_batch_lacks_fields_its_format_does_not_have() -> None:
    batch = one_set(some(3), 1, Compression.GZIP)
    assert (batch.base_offset, batch.last_offset_delta, batch.record_count) == (40, 2, 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert batch.partition_leader_epoch == -1
    assert not any((batch.is_control, batch.is_transactional, batch.has_delete_horizon, batch.has_producer_id))
    assert not hasattr(batch, "bases_offset")
    assert repr(batch) == f"LegacyBatch(offset=42, size={batch.size}, magic=1, attributes=0x1)"


def test_unknown_attributes_are_ignored() -> None:
    out = bytearray()
    write_message(out, Record(5, NOW_MS, b"k", b"v"), 0, 0x38)
    batch = read_batch(out)
    assert batch.check_crc()
    assert batch.attributes == 0
    assert [*decode_records(batch)] == [Record(5, -1, b"k", b"v")]


def test_record_batch_rejects_old_formats() -> None:
    for data in (build_message_set(some(1), 1), build_message_set(some(1, 0), 0)):
        with pytest.raises(UnsupportedForMessageFormat):
            RecordBatch(data)


def test_mixed_formats_are_split() -> None:
    records = some(9)
    parts = [
        build_message_set([record._replace(timestamp=-1) for record in records[:2]], 0),
        build_message_set(records[2:4], 1, compression=Compression.LZ4),
        build_batch(records[4:], base_offset=44),
    ]
    assert [record.offset for record in decoded(b"".join(parts))] == list(range(40, 49))
    assert [batch.magic for batch in split_batches(b"".join(parts))] == [0, 0, 1, 2]


def test_set_with_offset_zero_counts_from_zero() -> None:
    """As librdkafka sends it to brokers."""
    batch = bytearray(one_set(some(3), 1, Compression.SNAPPY).data)
    batch[:8] = bytes(8)
    assert [record.offset for record in decoded(batch)] == [0, 1, 2]


def test_set_offset_below_its_messages_is_refused() -> None:
    batch = bytearray(one_set(some(3), 1, Compression.SNAPPY).data)
    batch[:8] = (1).to_bytes(8)
    with pytest.raises(InvalidRecord, match="offset 1 whose last message has offset 2"):
        decoded(batch)


def test_base_offset_is_derived_from_the_set_offset() -> None:
    """The offset is not under the CRC: where it is damaged, the set does not follow the one before."""
    for magic in (0, 1):
        good = bytes(one_set(some(3, magic), magic, Compression.GZIP).data)
        assert read_batch(good).base_offset == 40
        batch = read_batch((43).to_bytes(8) + good[8:])
        assert (batch.base_offset, batch.last_offset_delta, batch.record_count) == (41, 2, 3)


def wrapped(content: bytes, magic: int = 1, codec: int = Compression.GZIP, value: bytes | None = b"") -> bytes:
    """A set with a right CRC around `content`."""
    out = bytearray()
    packed = zlib.compress(content, wbits=31) if value == b"" else value
    write_message(out, Record(9, NOW_MS, None, packed), magic, codec)
    return bytes(out)


GOOD = bytes(build_message_set(some(2, 1, 0), 1))
NESTED = bytes(one_set(some(2, 1, 0), 1, Compression.GZIP).data)
WRONG_CRC = GOOD[:-1] + b"!"


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (wrapped(NESTED), InvalidRecord, "compressed message inside"),
        (wrapped(wrapped(wrapped(GOOD))), InvalidRecord, "compressed message inside"),
        (wrapped(b""), InvalidRecord, "without messages"),
        (wrapped(GOOD[:11]), InvalidRecord, "11 bytes are left over"),
        (wrapped(GOOD[:40]), InvalidRecord, "40 bytes are left over"),
        (wrapped(GOOD[:8] + bytes(4) + GOOD[12:]), InvalidRecord, "no message at position 0"),
        (wrapped(WRONG_CRC), CorruptMessage, "message 1 of a compressed set is corrupt"),
        (wrapped(GOOD, value=None), InvalidRecord, "value is null"),
        (wrapped(GOOD, value=b"no gzip"), InvalidRecord, "broken gzip"),
        (wrapped(GOOD, codec=4), InvalidRecord, "zstd in message format v1"),
        (wrapped(GOOD, codec=7), UnsupportedCompressionType, "id 7"),
        (wrapped(bytes(build_batch(some(2)))), InvalidRecord, "no message at position 0"),
        (wrapped(GOOD, magic=0, codec=Compression.LZ4, value=b"\x04\x22\x4d\x18\x60"), InvalidRecord, "less than its header"),
    ],
)
def test_invalid_sets_are_refused(data: bytes, kind: type[KafkaError], message: str) -> None:
    batch = read_batch(data)
    assert batch.check_crc()
    with pytest.raises(kind, match=message):
        list(decode_records(batch))
    with pytest.raises(kind, match=message):
        _ = batch.base_offset


@pytest.mark.parametrize("size", [11, 30, 40])
def test_torn_message_at_the_end_of_a_set(size: int) -> None:
    """Kafka took such sets and stored those of v1 as they came: readers pass over it, producers may not send it any more."""
    batch = read_batch(wrapped(GOOD + GOOD[:size]))
    assert isinstance(batch, LegacyBatch)
    assert [record.offset for record in decode_records(batch)] == [8, 9]
    with pytest.raises(InvalidRecord, match=f"{size} bytes are left over after 2 messages"):
        messages_of(batch, may_be_torn=False)


@pytest.mark.parametrize("cut", [1, 5, 9])
def test_lengths_that_do_not_fill_a_message_are_refused(cut: int) -> None:
    """One byte is missing, or stands behind the value: sums and sizes are right."""
    good = bytearray(build_message_set(some(1), 1))
    for body in (good[:-cut], good + bytes(cut)):
        body[8:12] = (len(body) - 12).to_bytes(4)
        body[12:16] = zlib.crc32(body[16:]).to_bytes(4)
        with pytest.raises(InvalidRecord):
            decoded(body)


@pytest.mark.parametrize("position", [26, 33])
def test_lengths_below_minus_one_are_refused(position: int) -> None:
    body = build_message_set([Record(0, 0, b"key", b"v")], 1)
    body[position : position + 4] = (-2).to_bytes(4, signed=True)
    body[12:16] = zlib.crc32(body[16:]).to_bytes(4)
    with pytest.raises(InvalidRecord, match="a length of -2"):
        decoded(body)


@pytest.mark.parametrize("codec", OLD_CODECS[1:])
@pytest.mark.parametrize("magic", [0, 1])
def test_decompression_bomb_is_refused(codec: Compression, magic: int) -> None:
    batch = one_set([Record(0, NOW_MS, None, bytes(1_000_000))], magic, codec)
    assert batch.size < 100_000
    with pytest.raises(InvalidRecord, match="100000 bytes"):
        messages_of(batch, max_bytes=100_000)
    with pytest.raises(InvalidRecord, match="100000 bytes"):
        list(decode_records(batch, max_bytes=100_000))


def test_append_time_of_a_set_applies_to_its_messages() -> None:
    batch = bytearray(one_set(some(3), 1, Compression.GZIP).data)
    batch[17] |= 8  # as a broker stamps it: the messages inside keep theirs
    batch[18:26] = (77).to_bytes(8)
    batch[12:16] = zlib.crc32(batch[16:]).to_bytes(4)
    assert [record.timestamp for record in decoded(batch)] == [77, 77, 77]


def test_v0_messages_inside_a_v1_set_have_no_timestamp() -> None:
    inner = bytes(build_message_set(some(2, 0, 0), 0))
    assert decoded(wrapped(inner)) == [Record(8, -1, b"key", b"value 0"), Record(9, -1, b"key", b"value 1")]


def test_lz4_header_checksums() -> None:
    from lz4 import frame

    for has_size in (False, True):
        good = frame.compress(b"some content", store_size=has_size)
        assert with_right_checksum(good) == good
        broken = bytearray(good)
        broken[14 if has_size else 6] ^= 0xFF
        assert with_right_checksum(broken) == good
    with pytest.raises(ValueError, match="bytes are too many"):
        with_old_checksum(b"\x04\x22\x4d\x18\x69" + bytes(20))


def test_zstd_is_not_supported() -> None:
    with pytest.raises(UnsupportedCompressionType):
        build_message_set(some(1), 1, compression=Compression.ZSTD)
