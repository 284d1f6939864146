from __future__ import annotations

import pytest

from minibroker.console.actions.producing import partition_of
from minibroker.console.annotated import annotated
from minibroker.console.bodies import body_of
from minibroker.console.forms import flag
from minibroker.console.reading import Transactions
from minibroker.console.scanning import UNSETTLED, Scan
from minibroker.console.values import PREVIEW_BYTES, shown, visible
from minibroker.records.any_format import read_batch
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k44_incremental_alter_configs, k51_alter_user_scram_credentials
from minibroker.storage.transaction_index import AbortedTxn


def test_values_are_previews_of_their_kind() -> None:
    assert shown(None)["kind"] == "null"
    assert shown(b'{"a":1}') == {"kind": "json", "text": '{\n  "a": 1\n}', "line": '{"a":1}', "size": 7, "is_cut": False}
    assert shown(b"\xff\xfe")["kind"] == "bytes"
    large = shown("ä".encode() * PREVIEW_BYTES)  # two bytes each: the cut may divide a letter
    assert large["is_cut"]
    assert large["kind"] == "text"
    assert large["size"] == 2 * PREVIEW_BYTES
    assert len(large["text"]) <= PREVIEW_BYTES
    assert shown(b"x" * (PREVIEW_BYTES - 1) + "ä".encode())["kind"] == "text"


def test_half_of_a_surrogate_pair_in_json_stays_escaped() -> None:
    found = shown(rb'{"a": "\ud800", "b": "\ud83d\ude00"}')
    assert found["kind"] == "json"
    assert found["text"].encode().decode() == '{\n  "a": "\\ud800",\n  "b": "\U0001f600"\n}'


def test_control_characters_and_directions_are_visible() -> None:
    assert visible("a\x00b\x1b\u202ec\n") == "a\u2400b\u241b<U+202E>c\n"


def test_bodies_hide_secrets_and_records() -> None:
    password = k51_alter_user_scram_credentials.Upsertion(name="ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"secret")
    body = body_of(k51_alter_user_scram_credentials.Request(deletions=[], upsertions=[password]))
    assert body["upsertions"][0]["salted_password"] == body["upsertions"][0]["salt"] == "[hidden]"
    config = k44_incremental_alter_configs.Config(name="ssl.keystore.password", config_operation=0, value="secret")
    resource = k44_incremental_alter_configs.Resource(resource_type=4, resource_name="1", configs=[config])
    assert "secret" not in str(body_of(k44_incremental_alter_configs.Request(resources=[resource], validate_only=False)))
    data = k00_produce.Partition(index=0, records=memoryview(b"private"))
    produce = k00_produce.Request(acks=1, timeout_ms=1, topic_data=[k00_produce.Topic(name="t", partition_data=[data])])
    assert body_of(produce)["topic_data"][0]["partition_data"][0]["records"] == "7 bytes"


def test_bodies_are_bounded() -> None:
    topics = [k00_produce.Topic(name="x" * 10_000, partition_data=[]) for _ in range(10_000)]
    body = body_of(k00_produce.Request(acks=1, timeout_ms=1, topic_data=topics))
    assert body["topic_data"][-1] == "... 9980 more"
    assert len(str(body)) < 10_000


def test_rows_have_what_consumers_do_not_see() -> None:
    records = [Record(index, 1_000 + index, b"k%d" % index, b"v") for index in range(3)]
    data = bytes(build_batch(records, base_offset=10, producer_id=4, producer_epoch=1, base_sequence=7, is_transactional=True))
    found = Scan(11, 10).run(data)
    assert [row["offset"] for row in found.rows] == [11, 12]
    assert {row["transaction"] for row in found.rows} == {UNSETTLED}
    assert [row["sequence"] for row in found.rows] == [8, 9]
    assert Scan(10, 2).run(data).next_offset == 12


def test_records_have_the_state_of_their_producers_transaction() -> None:
    aborted = Transactions([AbortedTxn(4, 10, 13, 14)], {})
    assert [aborted.state_of(4, offset) for offset in (9, 10, 13)] == ["committed", "aborted", "aborted"]
    assert aborted.state_of(5, 10) == "committed"
    assert [Transactions([], {4: 11}).state_of(4, offset) for offset in (10, 11)] == ["committed", "open"]


def test_damaged_batches_are_rows_with_an_error() -> None:
    data = bytearray(build_batch([Record(0, 0, b"k", b"v")]))
    data[61] = 0x7F  # the length of the record
    assert "cannot be read" in Scan(0, 10).run(bytes(data)).rows[0]["error"]


def test_bytes_of_a_batch_have_the_names_of_their_fields() -> None:
    data = bytes(build_batch([Record(0, 5, b"k", b"v")], base_offset=3))
    lines = annotated(data, read_batch(data))
    assert lines[0] == {"position": 0, "bytes": "00 00 00 00 00 00 00 03", "name": "base_offset", "value": "3"}
    assert next(line for line in lines if line["name"] == "crc")["value"].endswith("(valid)")
    assert lines[-1]["name"] == "record 0"
    assert "key k, value v" in lines[-1]["value"]


def test_fields_of_forms_may_be_any_json() -> None:
    assert not flag({"box": []}, "box")
    with pytest.raises(ValueError, match="partition must be a whole number"):
        partition_of({"partition": []}, 1, None)
