"""What makes the registry fast must not change what it answers: remembered responses, quick checks, and registrations in slices."""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from avro.errors import AvroException
from avro.name import Names
from avro.schema import make_avsc_object
from hypothesis import given
from hypothesis import strategies as st

from minibroker.registry.avro_text import AvroWriter
from minibroker.registry.avro_validity import is_plainly_valid
from minibroker.registry.registry import Registry
from minibroker.registry.requests import RememberedResponses, SchemaRequest
from minibroker.registry.schemas import Schemas
from tests.registry.conftest import RegistryClient, schema_body
from tests.registry.test_topic import INT, STRING, write
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.soak import examples

JAVA = json.loads((Path(__file__).parents[1] / "golden" / "avro_java_1.12.json").read_text(encoding="utf-8"))


@pytest.fixture
def look_ups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The subjects of look-ups that were served, and not answered as before."""
    served: list[str] = []
    original = Registry.look_up

    async def look_up(self: Registry, subject: str, request: SchemaRequest, **flags: Any) -> Any:
        served.append(subject)
        return await original(self, subject, request, **flags)

    monkeypatch.setattr(Registry, "look_up", look_up)
    return served


async def test_the_same_look_up_is_served_once_until_something_changes(registry: RegistryClient, look_ups: list[str]) -> None:
    await registry.register("a", INT)
    assert [await registry.look_up("a", INT) for _ in range(3)] == [1, 1, 1]
    assert look_ups == ["a"]
    assert await registry.look_up("a", ' "int"') == 1  # another body
    assert await registry.look_up("a", INT, deleted="true") == 1  # another query
    assert look_ups == ["a"] * 3
    await registry.register("b", INT)
    assert await registry.look_up("a", INT) == 1
    assert look_ups == ["a"] * 4


async def test_a_remembered_response_is_forgotten_when_it_is_no_longer_true(
    registry: RegistryClient, broker: BrokerInMemory, look_ups: list[str]
) -> None:
    await registry.register("a", INT)
    await registry.register("b", STRING)
    assert await registry.look_up("a", INT) == 1
    write(broker, {"keytype": "SCHEMA", "subject": "a", "version": 7, "magic": 1}, {"subject": "a", "version": 7, "id": 1, "schema": INT})
    assert await registry.look_up("a", INT) == 7  # of another registry
    await registry.send("PUT", "/config/a", {"alias": "b"})
    assert (await registry.look_up("a", INT))[:2] == (404, 40403)
    await registry.delete("/config/a")
    assert await registry.look_up("a", INT) == 7
    await registry.delete("/subjects/a")
    assert (await registry.look_up("a", INT))[:2] == (404, 40401)
    broker.cluster.delete_topic("_schemas")
    assert (await registry.look_up("a", INT, deleted="true"))[:2] == (404, 40401)
    assert len(look_ups) == 6


async def test_registering_again_is_remembered_and_registering_is_not(registry: RegistryClient) -> None:
    first = await registry.send("POST", "/subjects/a/versions", schema_body(INT))
    again = [await registry.send("POST", "/subjects/a/versions", schema_body(INT)) for _ in range(2)]
    assert again == [first, first]
    await registry.send("PUT", "/mode", {"mode": "READONLY"})
    assert (await registry.register("a", INT))[:2] == (422, 42205)
    await registry.send("PUT", "/mode", {"mode": "READWRITE"})
    versioned = {"metadata": {"properties": {"confluent:version": "1"}}}
    versions = [await registry.send("POST", "/subjects/v/versions", schema_body(INT, **versioned)) for _ in range(3)]
    assert [each["version"] for each in versions] == [1, 2, 3]  # each is a new version: none of the responses is repeated


async def test_comparisons_are_remembered_until_the_level_changes(registry: RegistryClient) -> None:
    await registry.register("a", INT)
    assert [await registry.is_compatible("a", STRING) for _ in range(2)] == [{"is_compatible": False}] * 2
    await registry.send("PUT", "/config", {"compatibility": "NONE"})
    assert await registry.is_compatible("a", STRING) == {"is_compatible": True}


async def test_long_bodies_and_those_with_references_are_not_remembered(registry: RegistryClient, look_ups: list[str]) -> None:
    long = {"type": "enum", "name": "E", "symbols": [f"S{each}" for each in range(2_000)]}
    await registry.register("a", long)
    references = [{"name": "E", "subject": "a", "version": 1}]
    await registry.register("r", INT, references=references)
    for _ in range(2):
        assert await registry.look_up("a", long) == 1
        assert await registry.look_up("r", INT, {"references": references}) == 1
    assert look_ups == ["a", "r"] * 2


def test_a_response_is_not_kept_if_another_request_has_seen_a_change() -> None:
    responses = RememberedResponses()
    assert responses.find("a", 1) is None
    assert responses.find("b", 2) is None
    responses.keep("a", 1, b"", "old")
    responses.keep("b", 2, b"", "new")
    assert (responses.find("a", 2), responses.find("b", 2)) == (None, "new")


async def test_other_requests_run_while_a_schema_is_registered(broker: BrokerInMemory) -> None:
    registry = Registry(lambda: broker.services)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def register(text: str) -> None:
        await registry.register("a", SchemaRequest.read({"schema": text}), normalize=False, form="")

    await register(INT)
    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    turns = 0
    await register('"long"')
    assert turns >= 3
    counting.cancel()


async def test_records_of_another_registry_that_come_during_a_registration_are_replayed(
    broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are before its own in the log: the registration must not skip them."""
    registry = Registry(lambda: broker.services)
    await registry.register("first", SchemaRequest.read({"schema": INT}), normalize=False, form="")
    new_version = Schemas._new_version

    def write_first(self: Schemas, *arguments: Any, **flags: Any) -> Any:
        write(broker, {"keytype": "MODE", "subject": "other", "magic": 0}, {"mode": "READONLY"})
        return new_version(self, *arguments, **flags)

    monkeypatch.setattr(Schemas, "_new_version", write_first)
    for number in range(2):
        await registry.register(f"a{number}", SchemaRequest.read({"schema": INT}), normalize=False, form="")
    assert sorted(registry.state.subjects) == ["a0", "a1", "first"]
    assert registry.state.modes == {"other": "READONLY"}


def library_accepts(nodes: list[Any]) -> bool:
    names = Names()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for each in nodes:
                make_avsc_object(each, names)
    except (AvroException, AttributeError, KeyError, TypeError, ValueError):
        return False
    return True


def plainly_valid(node: Any) -> bool | None:
    """What the quick check says of a schema; None where its normal form cannot be written."""
    try:
        return is_plainly_valid(AvroWriter(is_normal=True).write(node), set())
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def test_what_java_accepts_is_mostly_accepted_quickly_and_what_it_rejects_never() -> None:
    quick = {True: 0, False: 0}
    for schema, answer in JAVA["texts"]:
        node = json.loads(schema) if isinstance(schema, str) and schema[:1] in '"[{' else schema
        found = plainly_valid(node)
        if answer == "error" and found:
            assert library_accepts([AvroWriter(is_normal=True).write(node)])  # defaults and names of fields are checked later
        elif answer != "error":
            quick[bool(found)] += 1
    assert quick[True] > 2 * quick[False]


NAMES = st.sampled_from(["A", "B", "n.A", "n.m.B", "int", "record", "1", "a-b", "", "A\n", ".A", None])
LEAVES = st.sampled_from(
    ["int", "string", "null", "A", "n.A", "n.m.B", "union", {"type": "bytes", "logicalType": "decimal", "precision": 0}, 1]
)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    field = st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "a-b", "", 1]), "type": inner},
        optional={"order": st.sampled_from(["ignore", "up", None]), "default": st.sampled_from([1, "x", None]), "doc": st.just(1)},
    )
    symbols = st.lists(st.sampled_from(["X", "Y", "1", 1]), max_size=3)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["record", "error"]), "name": NAMES, "fields": st.lists(field, max_size=3)},
            optional={"namespace": st.sampled_from(["", "n"]), "logicalType": st.just([])},
        ),
        st.fixed_dictionaries(
            {"type": st.just("enum"), "name": NAMES, "symbols": symbols}, optional={"default": st.sampled_from(["X", 1])}
        ),
        st.fixed_dictionaries({"type": st.just("fixed"), "name": NAMES, "size": st.sampled_from([1, 0, -1, "1", True, 1.5])}),
    )


@given(node=st.recursive(LEAVES, schemas, max_leaves=8))
@examples(400)
def test_what_is_plainly_valid_is_valid_for_the_library(node: Any) -> None:
    if plainly_valid(node):
        assert library_accepts([AvroWriter(is_normal=True).write(node)])
