"""The topic `_schemas`: the bytes of its records, what is read of those of other registries, and what survives."""

from __future__ import annotations

import json
import logging
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import KafkaStorageError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.registry import json_text
from minibroker.registry.errors import RegistryError
from minibroker.registry.json_text import read_json, write_json
from minibroker.registry.protoc import ProtocError, compile_proto
from minibroker.registry.records import Key
from minibroker.registry.registry import Registry
from minibroker.registry.state import RegistryState
from minibroker.registry.stored_schema import Reference, SchemaContent
from tests.registry.conftest import RegistryClient
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.soak import examples

INT, STRING = '"int"', '"string"'


def written(broker: BrokerInMemory) -> list[tuple[str, str | None]]:
    """The keys and values in the topic."""
    log = broker.cluster.partition("_schemas", 0).log
    records = [each for batch in split_batches(log.read(0, 1 << 20, isolation=None)) for each in decode_records(batch)]
    return [(bytes(each.key or b"").decode(), None if each.value is None else bytes(each.value).decode()) for each in records]


def write(broker: BrokerInMemory, key: Any, value: Any) -> None:
    """Write a record as another registry would."""
    key, value = (each if each is None or isinstance(each, bytes) else json.dumps(each).encode() for each in (key, value))
    broker.append("_schemas", 0, bytes(build_batch([Record(0, 0, key, value)])))


async def test_records_have_the_bytes_of_confluents_registry(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.register("a", INT)
    await registry.register(":.c:b", STRING, references=[{"name": "n", "subject": ":.:a", "version": 1}])
    await registry.send("PUT", "/config", {"compatibility": "FULL"})
    await registry.send("PUT", "/config/a", {"compatibility": "NONE"})
    await registry.send("PUT", "/mode/a", {"mode": "READWRITE"})
    await registry.delete("/subjects/:.c:b")
    await registry.register("a", STRING)
    await registry.delete("/subjects/a/versions/2")
    await registry.delete("/subjects/a/versions/2", permanent="true")
    assert broker.cluster.topic("_schemas").config == {"cleanup.policy": "compact"}
    assert len(broker.cluster.topic("_schemas").partitions) == 1
    of_b = (
        '{"subject":":.c:b","version":1,"id":1,"references":[{"name":"n","subject":":.:a","version":1}],'
        '"schema":"\\"string\\"","deleted":false}'
    )
    second = '{"subject":"a","version":2,"id":2,"schema":"\\"string\\"","deleted":%s}'
    assert written(broker) == [
        (
            '{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            '{"subject":"a","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
        ),
        ('{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', '{"tenant":"default","context":".c"}'),
        (
            '{"keytype":"SCHEMA","subject":":.c:b","version":1,"magic":1}',
            of_b,
        ),
        ('{"keytype":"CONFIG","magic":0}', '{"compatibilityLevel":"FULL"}'),
        ('{"keytype":"CONFIG","subject":"a","magic":0}', '{"subject":"a","compatibilityLevel":"NONE"}'),
        ('{"keytype":"MODE","subject":"a","magic":0}', '{"subject":"a","mode":"READWRITE"}'),
        ('{"keytype":"DELETE_SUBJECT","subject":":.c:b","magic":0}', '{"subject":":.c:b","version":1}'),
        ('{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}', second % "false"),
        ('{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}', second % "true"),
        ('{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}', None),
    ]


async def test_another_registry_reads_all_that_was_registered(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.register("a", INT)
    await registry.send("PUT", "/config/a", {"compatibility": "NONE"})
    await registry.register("a", STRING, metadata={"properties": {"owner": "me"}})
    await registry.delete("/subjects/a/versions/1")
    other = Registry(lambda: broker.services)
    assert await other.get_version("a", None, with_deleted=False, form="") == await registry.get("/subjects/a/versions/2")
    assert await other.list_versions("a", with_deleted=True, only_deleted=False) == [1, 2]
    assert await other.get_config("a", is_in_scope=False) == {"compatibilityLevel": "NONE"}


async def test_records_of_other_registries_are_read(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.register("a", INT)
    # Karapace: spaces, other fields and their order; Confluent: md5, ts and offset.
    key = b'{"keytype": "SCHEMA", "subject": "k", "version": 1, "magic": 1}'
    write(broker, key, {"deleted": False, "id": 5, "schema": STRING, "subject": "k", "version": 1, "schemaType": None, "references": None})
    value = {"subject": "c", "version": 1, "id": 6, "md5": "x", "schema": '"long"', "deleted": False, "ts": 1, "offset": 3}
    write(broker, {"keytype": "SCHEMA", "subject": "c", "version": 1, "magic": 1}, value)
    write(broker, {"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"})
    write(broker, {"keytype": "NOOP", "magic": 0}, None)
    assert await registry.get("/subjects") == ["a", "c", "k"]
    assert (await registry.get("/schemas/ids/5"))["schema"] == STRING
    assert await registry.get("/config") == {"compatibilityLevel": "FULL"}
    assert await registry.register("a", '"double"') == (409, 409, (await registry.register("a", '"double"'))[2])
    assert await registry.register("new", '"double"') == 7
    write(broker, {"keytype": "CLEAR_SUBJECT", "subject": "k", "magic": 0}, {"subject": "k"})
    write(broker, {"keytype": "DELETE_SUBJECT", "subject": "c", "magic": 0}, {"subject": "c", "version": 1})
    assert await registry.get("/subjects") == ["a", "new"]
    assert await registry.get("/subjects", deleted="true") == ["a", "c", "new"]


KARAPACE = json.loads((Path(__file__).parents[1] / "golden" / "karapace_schemas.json").read_text(encoding="utf-8"))["records"]


async def test_records_of_karapace_are_read(registry: RegistryClient, broker: BrokerInMemory) -> None:
    """Subjects, versions, deletions (empty values), configurations and references, as Karapace itself answered after it wrote them."""
    await registry.register("first", INT)
    for key, value in KARAPACE:
        write(broker, key.encode(), None if value is None else value.encode())
    visible = ["a", "b", "del3", "del4", "j", "p", "q", "re", "ref"]
    assert await registry.get("/subjects", subjectPrefix="k-") == [f"k-{name}" for name in visible]
    assert await registry.get("/subjects", deletedOnly="true") == ["k-del1"]
    found = {name: await registry.get(f"/subjects/k-{name}/versions", deleted="true") for name in [*visible, "del1"]}
    assert {name: versions for name, versions in found.items() if versions != [1]} == {
        "a": [1, 2], "del1": [1, 2], "del3": [1, 2], "del4": [2], "re": [1, 2],
    }  # fmt: skip
    assert await registry.get("/config/k-a") == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert (await registry.get("/config/k-b"))[:2] == (404, 40408)
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert await registry.get("/subjects/k-p/versions/1/referencedby") == [17]
    assert await registry.get("/schemas/ids/16/versions") == [{"subject": "k-re", "version": 2}]
    fields = "Addr home = 1; map<string, int32> m = 2; E e = 3; enum E {X = 0;}"
    person = f'syntax = "proto3"; package a.b; import "addr.proto"; message P {{ {fields} }}'
    references = [{"name": "addr.proto", "subject": "k-p", "version": 1}]
    assert await registry.register("k-q", person, schemaType="PROTOBUF", references=references) == 17


async def test_a_deletion_deletes_what_other_registries_wrote_under_other_spellings_of_the_key(
    registry: RegistryClient, broker: BrokerInMemory
) -> None:
    """Compaction compares keys as bytes: with one tombstone only, the other record would come back."""
    await registry.register("a", INT)
    karapaces = '{"keytype":"CONFIG","subject":null,"magic":0}'
    old_karapaces = '{"keytype": "SCHEMA", "subject": "k", "version": 1, "magic": 1}'
    write(broker, karapaces.encode(), {"compatibilityLevel": "FULL"})
    write(broker, old_karapaces.encode(), {"subject": "k", "version": 1, "id": 5, "schema": STRING, "deleted": True})
    assert await registry.delete("/config") == {"compatibilityLevel": "FULL"}
    assert written(broker)[-2:] == [(karapaces, None), ('{"keytype":"CONFIG","magic":0}', None)]
    assert await registry.delete("/subjects/k", permanent="true") == [1]
    assert written(broker)[-2:] == [(old_karapaces, None), ('{"keytype":"SCHEMA","subject":"k","version":1,"magic":1}', None)]
    await registry.send("PUT", "/config", {"compatibility": "NONE"})
    await registry.delete("/config")
    assert written(broker)[-2][0] == written(broker)[-1][0] == '{"keytype":"CONFIG","magic":0}'


SPELLINGS = {
    "Avro": ("AVRO", {"type": "record", "name": "n.R", "fields": []}, '{"fields":[],"name":"R","namespace":"n","type":"record"}'),
    "escaped": ("AVRO", '{"type":"enum","name":"E","symbols":[],"doc":"é"}', '{"doc":"\\u00e9","name":"E","symbols":[],"type":"enum"}'),
    "JSON Schema": ("JSON", '{"type": "number", "maximum": 1.50}', '{"maximum":1.5,"type":"number"}'),
    "Protobuf": (
        "PROTOBUF", 'syntax = "proto3"; package p; message M { N n = 1; } message N {}',
        '// a comment\nsyntax = "proto3";\n\npackage p;\n\nmessage M {\n  N n = 1;\n}\nmessage N {}\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_schema_is_the_same_in_the_spelling_of_another_registry(
    registry: RegistryClient, broker: BrokerInMemory, name: str
) -> None:
    """Karapace sorts keys; Confluent's registry keeps comments of Protobuf, and the names of types as they are written."""
    schema_type, schema, stored = SPELLINGS[name]
    await registry.send("PUT", "/config", {"compatibility": "NONE"})
    value = {"subject": "k", "version": 1, "id": 5, "schema": stored, "schemaType": schema_type, "deleted": False}
    write(broker, {"keytype": "SCHEMA", "subject": "k", "version": 1, "magic": 1}, value)
    assert await registry.register("k", schema, schemaType=schema_type) == 5
    assert await registry.look_up("k", schema, {"schemaType": schema_type}) == 1
    assert await registry.get("/subjects/k/versions") == [1]


async def test_a_version_that_cannot_be_parsed_does_not_hinder_others(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.send("PUT", "/config", {"compatibility": "NONE"})
    key = {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}
    write(broker, key, {"subject": "a", "version": 1, "id": 5, "schema": '{"string"', "deleted": False})
    assert await registry.register("a", STRING) == 6
    assert await registry.look_up("a", STRING) == 2


async def test_records_that_no_registry_writes_are_skipped_and_logged(
    registry: RegistryClient, broker: BrokerInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await registry.register("a", INT)
    with caplog.at_level(logging.WARNING):
        for key, value in (
            (b"\xff", b"x"),
            ([], {}),
            ({"keytype": "SCHEMA", "subject": "x", "version": 1}, b"{"),
            ({"keytype": "SCHEMA", "subject": "x", "version": 1}, {"id": "1", "schema": INT}),
            ({"keytype": "SCHEMA", "subject": "x", "version": "1"}, {"id": 1, "schema": INT}),
            ({"keytype": "SCHEMA", "version": 1}, {"id": 1, "schema": INT}),
            ({"keytype": "SCHEMA", "subject": "x", "version": 1}, {"id": 1, "schema": INT, "references": ["y"]}),
            ({"keytype": "MODE", "subject": "x"}, {"mode": 1}),
            (b"[" * 500, b""),
        ):
            write(broker, key, value)
        assert await registry.get("/subjects", deleted="true") == ["a"]
    assert len(caplog.messages) == 9
    assert caplog.messages[0].startswith("_schemas: skipped the record at offset 1: a key that is not JSON")
    write(broker, {"keytype": "UNKNOWN"}, {"a": 1})  # of a newer registry
    assert await registry.register("b", INT) == 1


async def test_a_version_with_invalid_fields_does_not_hide_the_records_after_it(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.register("a", INT)
    wrong: tuple[dict[str, Any], ...] = (
        {"metadata": "m"},
        {"metadata": {"properties": {"a": 1}}},
        {"ruleSet": {"domainRules": [1]}},
        {"schemaType": ["AVRO"]},
        {"references": [{"name": "n", "subject": "a", "version": 1 << 40}]},
        {},
    )
    records = []
    for number, fields in enumerate(wrong):
        key = {"keytype": "SCHEMA", "subject": f"s{number}", "version": 1, "magic": 1}
        value = {"subject": f"s{number}", "version": 1, "id": 2 + number, "schema": STRING} | fields
        records.append(Record(number, 0, json.dumps(key).encode(), json.dumps(value).encode()))
    broker.append("_schemas", 0, bytes(build_batch(records)))
    assert await registry.get("/subjects") == ["a", "s5"]


async def test_a_deleted_topic_is_created_again(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.register("a", INT)
    broker.cluster.delete_topic("_schemas")
    assert await registry.get("/subjects") == []
    assert await registry.register("b", STRING) == 1


async def test_a_topic_that_cannot_be_written_is_an_error_of_the_store(registry: RegistryClient, broker: BrokerInMemory) -> None:
    await registry.register("a", INT)
    broker.cluster.partition("_schemas", 0).take_offline(KafkaStorageError("the disk is gone"))
    assert (await registry.register("b", STRING))[:2] == (500, 50001)
    with pytest.raises(RegistryError):
        await Registry(lambda: broker.services).list_contexts()


@pytest.mark.parametrize("value", [0.0, 1.0, -1.5, 1e7, 9999999.0, 1e-3, 0.00099, 1e100, 5e-324, 123456789.125, -0.0])
def test_doubles_are_read_back_as_they_were_written(value: float) -> None:
    assert read_json(write_json(value)) == value


def test_json_is_compact_and_keeps_characters_above_ascii() -> None:
    value = {"a": [1, True, None, 'é\x01\n"\\\U0001f600'], "b": {}}
    assert write_json(value) == '{"a":[1,true,null,"é\\u0001\\n\\"\\\\\U0001f600"],"b":{}}'
    assert read_json(write_json(value)) == value


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
    | st.sampled_from([1e16, 1e-7, "1.5", "1e-5", "\\u001f", "NaN", "\x1f", "\x7f"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=6,
)  # fmt: skip


@given(value=JSON_VALUES)
@examples(200)
def test_pythons_encoder_is_used_only_where_it_writes_what_java_does(value: Any) -> None:
    assert json_text.write_json(value) == json_text._write(value)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[1,]", "[" * 101 + "]" * 101, '"\\ud800"', '"\\udc00\\ud800"'])
def test_texts_that_are_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"column|levels|number|surrogates"):
        read_json(text)


def test_brackets_within_texts_are_not_levels() -> None:
    assert read_json('["' + "[" * 500 + '\\"{"]') == ["[" * 500 + '"{']


def test_the_depth_of_a_text_that_does_not_end_is_found_in_one_pass() -> None:
    """Each quote could begin a text: looked at again from each of them, this would take an hour."""
    with pytest.raises(ValueError, match="column"):
        read_json("[" * 90 + '"' + '\\"' * 400_000 + "[" * 90 + "\\")


def test_unknown_contexts_are_not_kept() -> None:
    state = RegistryState()
    found = [weakref.ref(state.ids_in(".any")), weakref.ref(state.ids_of(":.any:subject"))]
    assert [each() for each in found] == [None, None]


def test_a_long_chain_of_references_is_refused() -> None:
    broker = BrokerInMemory()
    registry = Registry(lambda: broker.services)
    for number in range(2_000):
        references = [{"name": "n", "subject": f"s{number - 1}", "version": 1}] if number else []
        value = {"id": number + 1, "schema": INT, "references": references}
        registry.state.replay(Key("SCHEMA", f"s{number}", 1), value)
    content = SchemaContent("AVRO", INT, (Reference("n", "s1999", 1),))
    with pytest.raises(RegistryError, match="the chain of references is too long"):
        registry.schemas.references_of(content, "x")


def test_names_that_are_files_and_folders_are_refused() -> None:
    for names in (("a", "a/b"), ("a/b", "a"), ("a", "a/b/c")):
        with pytest.raises(ProtocError, match="one of two names is the folder of the other"):
            compile_proto(dict.fromkeys(names, ""), "a")
