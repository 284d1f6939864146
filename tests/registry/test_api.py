"""The REST API over HTTP, on a broker in memory: requests of each kind, and each error code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import Any
from urllib.parse import quote

import pytest

from minibroker.registry.errors import RegistryError
from minibroker.registry.requests import read_rule_set
from tests.registry.conftest import RegistryClient, schema_body
from tests.support.broker_in_memory import BrokerInMemory

INT, STRING = '"int"', '"string"'


def record(*fields: str, **more: Any) -> dict[str, Any]:
    """A record of int fields; those with a name that ends with = have a default."""
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": each.rstrip("="), "type": "int"} | ({"default": 0} if each.endswith("=") else {}) for each in fields],
        **more,
    }


async def test_names_of_subjects_may_have_any_printable_characters(registry: RegistryClient) -> None:
    names = ["{braces}", "a b", "a%2Fb", "a/b", "é", "a?b#c", "}{"]
    for name in names:
        quoted = quote(name, safe="")
        await registry.register(quoted, INT)
        assert await registry.get(f"/subjects/{quoted}/versions") == [1]
        assert (await registry.get(f"/subjects/{quoted}/versions/1"))["subject"] == name
        assert await registry.look_up(quoted, INT) == 1
        assert await registry.is_compatible(quoted, INT) == {"is_compatible": True}
        assert await registry.send("PUT", f"/config/{quoted}", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
        assert await registry.send("PUT", f"/mode/{quoted}", {"mode": "READWRITE"}) == {"mode": "READWRITE"}
    assert await registry.get("/subjects") == sorted(names)
    assert await registry.delete(f"/subjects/{quote('{braces}', safe='')}") == [1]


async def test_a_schema_is_registered_once(registry: RegistryClient) -> None:
    assert await registry.register("a", record("x")) == 1
    assert await registry.register("a", record("x")) == 1
    assert await registry.register("b", record("x")) == 1
    assert await registry.register("a", record("x", "y=")) == 2
    assert await registry.get("/subjects") == ["a", "b"]
    assert await registry.get("/subjects/a/versions") == [1, 2]
    latest = await registry.get("/subjects/a/versions/latest")
    assert (latest["subject"], latest["version"], latest["id"]) == ("a", 2, 2)
    assert json.loads(latest["schema"]) == record("x", "y=")
    assert latest == await registry.get("/subjects/a/versions/2") == await registry.get("/subjects/a/versions/-1")
    assert json.loads((await registry.get("/schemas/ids/2"))["schema"]) == record("x", "y=")
    assert await registry.get("/schemas/ids/2/schema") == await registry.get("/subjects/a/versions/2/schema") == record("x", "y=")
    assert await registry.get("/schemas/ids/1/subjects") == ["a", "b"]
    assert await registry.get("/schemas/ids/1/versions") == [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}]
    assert (await registry.get("/schemas/ids/1", fetchMaxId="true"))["maxId"] == 2
    assert (await registry.get(f"/schemas/guids/{latest['guid']}"))["schema"] == latest["schema"]
    assert await registry.get(f"/schemas/guids/{latest['guid']}/ids") == [{"context": ".", "id": 2}]
    assert [(each["subject"], each["version"]) for each in await registry.get("/schemas", latestOnly="true")] == [("a", 2), ("b", 1)]
    assert len(await registry.get("/schemas", subjectPrefix="a")) == 2
    assert "AVRO" in await registry.get("/schemas/types")


async def test_look_ups_find_the_version_of_a_schema(registry: RegistryClient) -> None:
    await registry.register("a", record("x"))
    await registry.register("a", record("x", "y="))
    assert await registry.look_up("a", record("x")) == 1
    assert await registry.look_up("a", {"fields": [{"type": "int", "name": "x"}], "name": "R", "type": "record"}) == 1
    assert await registry.look_up("a", record("z")) == (404, 40403, "Schema not found")
    assert await registry.look_up("b", record("x")) == (404, 40401, "Subject 'b' not found.")
    assert (await registry.look_up("a", "{"))[:2] == (422, 42201)


async def test_a_normalized_schema_equals_all_its_spellings(registry: RegistryClient) -> None:
    one, other = {"type": "object", "properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "a": {}}, "type": "object"}
    await registry.send("PUT", "/config", {"compatibility": "NONE"})
    assert await registry.register("a", one, schemaType="JSON") != await registry.register("a", other, schemaType="JSON")
    await registry.send("PUT", "/config/n", {"normalize": True})
    first = await registry.register("n", one, schemaType="JSON")
    assert await registry.register("n", other, schemaType="JSON") == first
    assert await registry.look_up("n", other, {"schemaType": "JSON"}) == 1
    assert await registry.get("/subjects/n/versions") == [1]


async def test_the_order_of_attributes_does_not_make_another_avro_schema(registry: RegistryClient) -> None:
    """As in Confluent's registry, which compares the parsed schemas."""
    one, other = record("x", able=1, bee=2), record("x", bee=2, able=1)
    first = await registry.register("a", one)
    assert await registry.register("a", other) == first
    assert await registry.look_up("a", other) == 1
    assert await registry.get("/subjects/a/versions") == [1]


async def test_what_does_not_exist(registry: RegistryClient) -> None:
    await registry.register("a", INT)
    assert await registry.get("/subjects/b/versions") == (404, 40401, "Subject 'b' not found.")
    assert await registry.get("/subjects/b/versions/1") == (404, 40401, "Subject 'b' not found.")
    assert await registry.get("/subjects/a/versions/2") == (404, 40402, "Version 2 not found.")
    assert (await registry.get("/subjects/a/versions/zero"))[:2] == (422, 42202)
    assert (await registry.get("/subjects/a/versions/0"))[:2] == (422, 42202)
    assert (await registry.get("/subjects/a/versions/2147483648"))[:2] == (422, 42202)
    assert await registry.get("/schemas/ids/9") == (404, 40403, "Schema 9 not found")
    assert (await registry.get("/schemas/guids/x"))[:2] == (404, 40403)
    assert await registry.delete("/subjects/b") == (404, 40401, "Subject 'b' not found.")
    assert await registry.delete("/subjects/a/versions/2") == (404, 40402, "Version 2 not found.")
    assert (await registry.get("/config/a"))[:2] == (404, 40408)
    assert (await registry.get("/mode/a"))[:2] == (404, 40409)
    assert (await registry.delete("/config/a"))[:2] == (404, 40401)
    assert (await registry.get("/nowhere"))[:2] == (404, 404)
    assert (await registry.send("PUT", "/subjects"))[:2] == (405, 405)


async def test_bodies_that_cannot_be_read(registry: RegistryClient) -> None:
    path = "/subjects/a/versions"
    assert (await registry.send("POST", path, b"{"))[:2] == (400, 400)
    assert (await registry.send("POST", path, b"[" * 1000))[:2] == (400, 400)
    assert (await registry.send("POST", path, []))[:2] == (422, 422)
    assert (await registry.send("POST", path, {"schema": 1}))[:2] == (422, 422)
    assert (await registry.send("POST", path, {"schema": ""}))[:2] == (422, 42201)
    assert (await registry.send("POST", path, {"schema": INT, "references": [{"name": "x"}]}))[:2] == (422, 422)
    assert (await registry.send("POST", path, {"schema": INT, "references": [{"name": "x", "subject": "y", "version": 1}]}))[:2] == (
        422,
        42201,
    )
    assert (await registry.send("POST", path, {"schema": INT, "schemaType": "XML"}))[:2] == (422, 42201)
    assert (await registry.send("POST", path, {"schema": json.dumps("x" * 1_000_000)}))[:2] == (422, 42209)
    assert (await registry.send("POST", path, b" " * 3_000_000))[:2] == (413, 413)
    assert (await registry.register("__GLOBAL", INT))[:2] == (422, 42208)
    assert (await registry.register("a%00b", INT))[:2] == (422, 42208)
    assert await registry.get("/subjects") == []


async def test_incompatible_schemas_are_refused_with_the_reason(registry: RegistryClient) -> None:
    await registry.register("a", record("x"))
    status, code, message = await registry.register("a", record("x", "y"))
    assert (status, code) == (409, 409)
    assert message.startswith('Schema being registered is incompatible with an earlier schema for subject "a", details: [{errorType:')
    assert "The field 'y' at path '/fields/1' in the new schema has no default value and is missing in the old schema" in message
    assert "{oldSchemaVersion: 1}" in message
    assert "compatibility: 'BACKWARD'" in message
    assert await registry.is_compatible("a", record("x", "y")) == {"is_compatible": False}
    verbose = await registry.is_compatible("a", record("x", "y"), "latest", verbose="true")
    assert not verbose["is_compatible"]
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
    assert await registry.is_compatible("a", record("x", "y="), "1", verbose="true") == {"is_compatible": True, "messages": []}
    assert await registry.is_compatible("new", record("x")) == {"is_compatible": True}
    assert await registry.is_compatible("new", record("x"), "latest") == {"is_compatible": True}
    assert (await registry.is_compatible("a", record("x"), "7"))[:2] == (404, 40402)
    assert (await registry.is_compatible("a", "{"))[:2] == (422, 42201)
    assert not (await registry.is_compatible("a", "{", verbose="true"))["is_compatible"]


#: What may follow two versions, [x] and [x, y=], under each level.
FOLLOWERS = {
    "NONE": {"string": True, "x": True, "x y z": True, "x y": True, "y=": True, "x= y= z=": True},
    "BACKWARD": {"string": False, "x": True, "x y z": False, "x y": True, "y=": True, "x= y= z=": True},
    "BACKWARD_TRANSITIVE": {"string": False, "x": True, "x y z": False, "x y": False, "y=": True, "x= y= z=": True},
    "FORWARD": {"string": False, "x": True, "x y z": True, "x y": True, "y=": False, "x= y= z=": True},
    "FORWARD_TRANSITIVE": {"string": False, "x": True, "x y z": True, "x y": True, "y=": False, "x= y= z=": True},
    "FULL": {"string": False, "x": True, "x y z": False, "x y": True, "y=": False, "x= y= z=": True},
    "FULL_TRANSITIVE": {"string": False, "x": True, "x y z": False, "x y": False, "y=": False, "x= y= z=": True},
}


async def test_each_level_lets_its_followers_pass(registry: RegistryClient) -> None:
    await registry.register("a", record("x"))
    await registry.register("a", record("x", "y="))
    found: dict[str, dict[str, bool]] = {}
    for level, followers in FOLLOWERS.items():
        assert await registry.send("PUT", "/config/a", {"compatibility": level}) == {"compatibility": level}
        found[level] = {}
        for each in followers:
            answer = await registry.is_compatible("a", STRING if each == "string" else record(*each.split()))
            found[level][each] = answer["is_compatible"]
    assert found == FOLLOWERS


async def test_configurations_of_subjects_contexts_and_all(registry: RegistryClient) -> None:
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert await registry.send("PUT", "/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert await registry.get("/config") == {"compatibilityLevel": "FULL"}
    assert await registry.get("/config/a", defaultToGlobal="true") == {"compatibilityLevel": "FULL"}
    fields = {"alias": "other", "normalize": True, "compatibilityGroup": "major", "defaultMetadata": {"properties": {"owner": "me"}}}
    assert await registry.send("PUT", "/config/a", fields) == fields
    assert await registry.get("/config/a") == fields
    assert (await registry.get("/config/a", defaultToGlobal="true"))["compatibilityLevel"] == "FULL"
    assert await registry.send("PUT", "/config/a", {"alias": None}) == {key: fields[key] for key in fields if key != "alias"}
    await registry.send("PUT", "/config/:.test:", {"compatibility": "NONE"})
    assert (await registry.get("/config/:.test:b", defaultToGlobal="true"))["compatibilityLevel"] == "NONE"
    assert (await registry.delete("/config/a"))["compatibilityGroup"] == "major"
    assert await registry.delete("/config") == {"compatibilityLevel": "FULL"}
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert (await registry.send("PUT", "/config", {"compatibility": "SIDEWAYS"}))[:2] == (422, 42203)
    assert (await registry.send("PUT", "/config/a", {"normalize": "yes"}))[:2] == (422, 422)
    bad_rules = {"domainRules": [{"name": "r", "mode": "UPGRADE"}]}
    assert (await registry.send("PUT", "/config/a", {"defaultRuleSet": bad_rules}))[:2] == (422, 42210)


async def test_fields_of_another_type_are_rejected_in_configurations(registry: RegistryClient) -> None:
    rule = {"name": "r", "mode": "WRITE"}
    fields: list[dict[str, Any]] = [{"expr": [1]}, {"doc": {}}, {"tags": "PII"}, {"tags": [1]}, {"params": ["x"]}, {"params": {"x": 1}}]
    sent = [{"overrideRuleSet": {"domainRules": [rule | each]}} for each in fields]
    for body in (*sent, {"compatibilityGroup": {"major": "1"}}, {"alias": {"a": "b"}}):
        assert (await registry.send("PUT", "/config/a", body))[:2] == (422, 422), body
    unhashable = {"overrideRuleSet": {"domainRules": [rule | {"mode": ["WRITE"]}]}}
    assert (await registry.send("PUT", "/config/a", unhashable))[:2] == (422, 42210)
    levels: list[object] = [[], {}, 5]
    for level in levels:
        assert (await registry.send("PUT", "/config/a", {"compatibilityLevel": level}))[:2] == (422, 42203)
    assert await registry.register("a", record("x")) == 1


def test_a_rule_is_not_compared_with_all_others() -> None:
    comparisons = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

    rules = [{"name": Name(f"rule {index}"), "mode": "WRITE"} for index in range(200)]
    read_rule_set({"domainRules": rules})
    assert comparisons < len(rules)
    with pytest.raises(RegistryError, match="duplicate name 'rule 7'"):
        read_rule_set({"domainRules": [*rules, rules[7]]})


async def test_a_compatibility_group_is_compared_with_itself_only(registry: RegistryClient) -> None:
    await registry.send("PUT", "/config/a", {"compatibilityGroup": "major"})
    assert await registry.register("a", record("x"), metadata={"properties": {"major": "1"}}) == 1
    assert await registry.register("a", STRING, metadata={"properties": {"major": "2"}}) == 2
    assert (await registry.register("a", STRING, metadata={"properties": {"major": "1"}}))[:2] == (409, 409)
    found = await registry.get("/subjects/a/metadata", key="major", value="1")
    assert (found["version"], found["metadata"]) == (1, {"properties": {"major": "1"}})
    assert (await registry.get("/subjects/a/metadata", key="major", value="3"))[:2] == (404, 40403)


async def test_metadata_and_rules_are_kept_merged_and_returned(registry: RegistryClient) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true", "disabled": False}
    await registry.send("PUT", "/config/a", {"overrideMetadata": {"properties": {"team": "x"}}, "defaultRuleSet": {"domainRules": [rule]}})
    metadata = {"tags": {"R.x": ["PII"]}, "properties": {"team": "y", "owner": "me"}, "sensitive": ["owner"]}
    await registry.register("a", record("x"), metadata=metadata)
    found = await registry.get("/subjects/a/versions/1")
    assert found["metadata"] == {"tags": {"R.x": ["PII"]}, "properties": {"owner": "me", "team": "x"}, "sensitive": ["owner"]}
    assert found["ruleSet"] == {"domainRules": [rule]}
    # Without metadata of its own, a schema gets those of the last version: both as a new version and in a look-up.
    assert await registry.look_up("a", record("x")) == 1
    await registry.register("a", record("x", "y="))
    assert (await registry.get("/subjects/a/versions/2"))["metadata"] == found["metadata"]
    assert (await registry.register("a", INT, metadata={"properties": {"a": 1}}))[:2] == (422, 422)


async def test_modes(registry: RegistryClient) -> None:
    assert await registry.get("/mode") == {"mode": "READWRITE"}
    await registry.register("a", INT)
    assert await registry.send("PUT", "/mode/a", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert (await registry.register("a", STRING))[:2] == (422, 42205)
    assert (await registry.delete("/subjects/a"))[:2] == (422, 42205)
    assert (await registry.send("PUT", "/config/a", {"compatibility": "NONE"}))[:2] == (422, 42205)
    assert await registry.get("/mode/a") == {"mode": "READONLY"}
    assert await registry.delete("/mode/a") == {"mode": "READONLY"}
    assert (await registry.delete("/mode/a"))[:2] == (404, 40401)
    assert (await registry.send("PUT", "/mode", {"mode": "BROKEN"}))[:2] == (422, 42204)
    assert (await registry.send("PUT", "/mode", {"mode": "IMPORT"}))[:2] == (422, 42205)
    await registry.send("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    await registry.send("PUT", "/mode/a", {"mode": "READWRITE"})
    assert (await registry.register("a", INT))[:2] == (422, 42205)
    assert await registry.get("/mode/a", defaultToGlobal="true") == {"mode": "READONLY_OVERRIDE"}


async def test_modes_of_a_context_are_deleted_together(registry: RegistryClient) -> None:
    for subject in ("a", "b", ":.c:", ":.c:a", ":.d:a"):
        await registry.send("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    assert await registry.delete("/mode/a", recursive="true") == {"mode": "READONLY"}
    assert await registry.get("/mode/b") == {"mode": "READONLY"}  # a subject has no others in it
    assert await registry.delete("/mode/:.c:", recursive="true") == {"mode": "READONLY"}
    assert (await registry.get("/mode/:.c:a"))[:2] == (404, 40409)
    assert await registry.get("/mode/:.d:a") == {"mode": "READONLY"}
    assert await registry.delete("/mode", recursive="true") == {"mode": None}
    assert (await registry.get("/mode/b"))[:2] == (404, 40409)


async def test_imports_choose_ids_and_versions(registry: RegistryClient) -> None:
    assert (await registry.register("a", INT, id=7, version=3))[:2] == (422, 42205)
    await registry.send("PUT", "/mode", {"mode": "IMPORT"}, force="true")
    assert await registry.register("a", INT, id=6, version=3) == 6
    assert await registry.register("a", INT, id=7, version=3) == 7
    assert (await registry.get("/schemas/ids/6"))[:2] == (404, 40403)  # as after a compaction of the topic
    assert (await registry.register("a", STRING, id=7, version=4))[:2] == (422, 42205)
    assert (await registry.register("a", STRING))[:2] == (422, 42205)
    await registry.send("PUT", "/mode", {"mode": "READWRITE"})
    assert await registry.register("b", STRING) == 8
    assert await registry.get("/subjects/a/versions") == [3]


async def test_soft_and_permanent_deletions(registry: RegistryClient) -> None:
    await registry.send("PUT", "/config", {"compatibility": "NONE"})
    await registry.register("a", INT)
    await registry.register("a", STRING)
    assert (await registry.delete("/subjects/a/versions/1", permanent="true"))[:2] == (404, 40407)
    assert (await registry.delete("/subjects/a", permanent="true"))[:2] == (404, 40405)
    assert await registry.delete("/subjects/a/versions/1") == 1
    assert (await registry.delete("/subjects/a/versions/1"))[:2] == (404, 40406)
    assert await registry.get("/subjects/a/versions") == [2]
    assert await registry.get("/subjects/a/versions", deleted="true") == [1, 2]
    assert await registry.get("/subjects/a/versions", deletedOnly="true") == [1]
    assert (await registry.get("/subjects/a/versions/1"))[:2] == (404, 40402)
    assert (await registry.get("/subjects/a/versions/1", deleted="true"))["deleted"] is True
    assert (await registry.get("/schemas/ids/1"))["schema"] == INT
    assert await registry.look_up("a", INT) == (404, 40403, "Schema not found")
    assert await registry.look_up("a", INT, deleted="true") == 1
    assert await registry.delete("/subjects/a") == [2]
    assert (await registry.delete("/subjects/a"))[:2] == (404, 40404)
    assert await registry.get("/subjects") == []
    assert await registry.get("/subjects", deletedOnly="true") == ["a"]
    assert await registry.register("a", '"long"') == 3
    assert await registry.get("/subjects/a/versions") == [3]
    assert await registry.delete("/subjects/a/versions/latest") == 3
    await registry.send("PUT", "/config/a", {"compatibility": "FULL"})
    assert await registry.delete("/subjects/a", permanent="true") == [1, 2, 3]
    assert await registry.get("/subjects", deleted="true") == []
    assert (await registry.get("/config/a"))[:2] == (404, 40408)
    assert await registry.get("/schemas/ids/1") == (404, 40403, "Schema 1 not found")
    assert await registry.register("a", INT) == 4  # ids are not used again while the registry runs


async def test_a_schema_that_returns_after_its_deletion_keeps_its_id(registry: RegistryClient) -> None:
    assert await registry.register("a", INT) == 1
    await registry.delete("/subjects/a")
    assert await registry.register("a", INT) == 1
    assert await registry.get("/subjects/a/versions", deleted="true") == [2]


async def test_references(registry: RegistryClient) -> None:
    address = {"type": "record", "name": "Address", "namespace": "x", "fields": []}
    person = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": "x.Address"}]}
    reference = {"name": "x.Address", "subject": "address", "version": 1}
    await registry.register("address", address)
    assert await registry.register("person", person, references=[reference]) == 2
    assert (await registry.get("/schemas/ids/2"))["references"] == [reference]
    assert await registry.get("/subjects/address/versions/1/referencedby") == [2]
    assert await registry.get("/subjects/person/versions/1/referencedby") == []
    assert (await registry.delete("/subjects/address/versions/1"))[:2] == (422, 42206)
    assert (await registry.delete("/subjects/address"))[:2] == (422, 42206)
    inline = {**person, "fields": [{"name": "home", "type": address}]}
    assert await registry.look_up("person", inline) == 1
    resolved = await registry.get("/schemas/ids/2", format="resolved")
    assert json.loads(resolved["schema"])["fields"][0]["type"]["name"] == "Address"
    await registry.delete("/subjects/person")
    assert await registry.get("/subjects/address/versions/1/referencedby") == []
    assert await registry.get("/subjects/address/versions/1/referencedby", deleted="true") == [2]
    assert await registry.delete("/subjects/address") == [1]


async def test_contexts_have_ids_of_their_own(registry: RegistryClient) -> None:
    await registry.register("a", INT)
    assert await registry.register(":.test:b", STRING) == 1
    assert await registry.register(":.:c", STRING) == 2
    assert await registry.get("/contexts") == [".", ".test"]
    assert await registry.get("/subjects") == [":.test:b", "a", "c"]
    assert await registry.get("/subjects", subjectPrefix="") == ["a", "c"]
    assert await registry.get("/subjects", subjectPrefix=":.test:") == [":.test:b"]
    assert (await registry.get("/schemas/ids/1"))["schema"] == INT
    assert (await registry.get("/schemas/ids/1", subject=":.test:"))["schema"] == STRING
    assert (await registry.get("/subjects/b/versions/1"))["subject"] == ":.test:b"
    assert await registry.look_up("b", STRING) == 1


async def test_lists_are_paged(registry: RegistryClient) -> None:
    for name in "abcde":
        await registry.register(name, INT)
    assert await registry.get("/subjects", offset="1", limit="2") == ["b", "c"]
    assert await registry.get("/subjects", offset="4") == ["e"]
    assert [each["subject"] for each in await registry.get("/schemas", limit="1")] == ["a"]
    for offset in ("x", "\u00b2", "9" * 5_000):
        assert (await registry.get("/subjects", offset=offset))[:2] == (400, 400)


@pytest.mark.parametrize(
    "kind, references, runs_in_loop",
    [("AVRO", [], True), ("AVRO", [{"name": "n", "subject": "other", "version": 1}], False), ("JSON", [], False)],
)
async def test_what_may_be_large_is_compared_in_a_thread(
    registry: RegistryClient, monkeypatch: pytest.MonkeyPatch, kind: str, references: list[Any], runs_in_loop: bool
) -> None:
    await registry.register("other", record("a", name="n"))
    threads: list[threading.Thread] = []

    def compare(*_: Any) -> list[str]:
        threads.append(threading.current_thread())
        return []

    monkeypatch.setattr("minibroker.registry.schemas.incompatibilities", compare)
    for number in range(2):
        schema = record(f"f{number}", doc="x" * 600) if kind == "AVRO" else {"description": f"{number}" * 600}
        assert await registry.register("a", schema, schemaType=kind, references=references) == number + 2
    assert (threads[-1] is threading.current_thread()) is runs_in_loop


async def test_one_thread_compares_at_a_time(registry: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await registry.register("a", {"description": "x" * 600}, schemaType="JSON")
    both, are_parallel = threading.Barrier(2), []

    def compare(*_: Any) -> list[str]:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.1)
        are_parallel.append(not both.broken)
        return []

    monkeypatch.setattr("minibroker.registry.schemas.incompatibilities", compare)
    wanted = [schema_body({"description": f"{number}" * 600}, schemaType="JSON") for number in range(2)]
    await asyncio.gather(*(registry.send("POST", "/compatibility/subjects/a/versions", each) for each in wanted))
    assert are_parallel == [False, False]


async def test_numbers_in_addresses_have_a_limit(registry: RegistryClient) -> None:
    await registry.register("a", INT)
    digits = "0" * 10 + "1" * 5_000  # Python reads at most 4,300 at a time
    assert (await registry.get(f"/schemas/ids/9{digits}"))[:2] == (404, 40403)
    assert (await registry.get(f"/schemas/ids/9{digits}/versions"))[:2] == (404, 40403)
    assert (await registry.get(f"/subjects/a/versions/{digits}"))[:2] == (422, 42202)
    assert (await registry.get("/subjects/a/versions/2147483648"))[:2] == (422, 42202)


async def test_parallel_registrations_get_ids_of_their_own(registry: RegistryClient) -> None:
    ids = await asyncio.gather(*(registry.register(f"s{number % 5}", record(f"f{number}=")) for number in range(50)))
    assert sorted(ids) == list(range(1, 51))
    versions = [await registry.get(f"/subjects/s{number}/versions") for number in range(5)]
    assert versions == [list(range(1, 11))] * 5


async def test_the_registry_describes_itself(registry: RegistryClient, broker: BrokerInMemory) -> None:
    assert await registry.get("/") == {}
    assert "version" in await registry.get("/v1/metadata/version")
    assert (await registry.get("/v1/metadata/id"))["scope"]["clusters"]["kafka-cluster"] == broker.cluster.cluster_id


async def test_a_long_schema_is_parsed_in_a_thread(registry: RegistryClient) -> None:
    long = record(*(f"field{number}=" for number in range(2_000)))
    assert await registry.register("a", long) == 1
    assert await registry.register("a", long) == 1
    assert await registry.register("a", {**long, "doc": "x"}) == 2


async def test_a_page_of_a_browser_is_refused(registry: RegistryClient) -> None:
    async with registry._session.post(
        f"{registry._url}/subjects/a/versions", json=schema_body(INT), headers={"Origin": "http://example.org"}
    ) as response:
        assert response.status == 403
        assert (await response.json(content_type=None))["error_code"] == 403


async def test_an_alias_stands_for_its_subject(registry: RegistryClient) -> None:
    assert await registry.register("orders-value", '"int"') == 1
    await registry.send("PUT", "/config/old-value", {"alias": "orders-value"})
    assert (await registry.get("/subjects/old-value/versions/latest"))["subject"] == "orders-value"
    assert await registry.look_up("old-value", '"int"') == 1
    assert await registry.register("old-value", '"long"') == 2
    assert (await registry.is_compatible("old-value", '"string"'))["is_compatible"] is False
    assert await registry.get("/schemas/ids/1/versions", subject="old-value") == [{"subject": "orders-value", "version": 1}]
    assert await registry.get("/subjects") == ["orders-value"]
    assert await registry.get("/config/old-value") == {"alias": "orders-value"}  # a configuration has no aliases
    await registry.send("PUT", "/config/orders-value", {"alias": "old-value"})
    assert (await registry.get("/subjects/old-value/versions/1"))["subject"] == "orders-value"  # one step only
    assert await registry.get("/subjects/orders-value/versions") == (404, 40401, "Subject 'old-value' not found.")


async def test_long_lists_leave_room_for_other_requests(registry: RegistryClient) -> None:
    for number in range(420):
        await registry.register(f"s{number:03}", {"type": "fixed", "name": f"F{number}", "size": 4})
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    found = await registry.get("/schemas")
    counting.cancel()
    assert [each["subject"] for each in found] == [f"s{number:03}" for number in range(420)]
    assert [each["subject"] for each in await registry.get("/schemas", offset="100", limit="60")] == [f"s{n:03}" for n in range(100, 160)]
    assert await registry.get("/schemas", subjectPrefix="none") == []
    assert len(await registry.get("/subjects")) == 420
    assert turns >= 420 // 50  # a turn for each slice


async def test_contexts_are_filtered_and_deleted(registry: RegistryClient, broker: BrokerInMemory) -> None:
    for name in ("one", "two"):
        await registry.register(f":.{name}:a", '"int"')
    assert await registry.get("/contexts") == [".", ".one", ".two"]
    assert await registry.get("/contexts", contextPrefix=".t") == [".two"]
    assert await registry.delete("/contexts/:.one:") == (422, 42211, "The specified context ':.one:' is not empty.")
    await registry.delete("/subjects/:.one:a")
    assert (await registry.delete("/contexts/:.one:"))[1] == 42211
    await registry.delete("/subjects/:.one:a", permanent="true")
    assert [await registry.status("DELETE", path) for path in ("/contexts/:.one:", "/contexts/.nowhere")] == [204, 204]
    assert await registry.get("/contexts") == [".", ".two"]
