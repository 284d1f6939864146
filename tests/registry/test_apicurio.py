"""Apicurio's API, versions 2 and 3: what its serializers for Java ask, and the serializers themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from minibroker.registry.client import RegistryClient as RegistryOverHttp
from tests.registry.conftest import RegistryClient
from tests.registry.test_clients import HERE, steps
from tests.registry.test_served import url_of
from tests.support.broker_process import BrokerProcess
from tests.support.java import SHORT_LIVED, jars
from tests.support.soak import IS_SOAK

LOGGING = "org.slf4j:slf4j-simple:1.7.36"
FORMATS = ("avro", "jsonschema", "protobuf")
RELEASES = {
    "3.1.7": [*(f"io.apicurio:apicurio-registry-{each}-serde-kafka:3.1.7" for each in FORMATS), "org.apache.kafka:kafka-clients:4.1.1"],
    "2.6.5": [
        *(f"io.apicurio:apicurio-registry-serdes-{each}-serde:2.6.5.Final" for each in FORMATS),
        "org.apache.kafka:kafka-clients:3.9.1",
    ],
}
FIRST = '{"type":"record","name":"P","namespace":"s","fields":[{"name":"name","type":"string"}]}'
SECOND = FIRST.replace("]}", ',{"name":"age","type":"int","default":7}]}')
V2, V3 = "/apis/registry/v2", "/apis/registry/v3"
REFERENCE = {"groupId": "default", "artifactId": "orders-value", "version": "1", "name": "s.P"}


class Api:
    """Sends requests. A response is its JSON or text; that of a failure its status and the name of the error."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry

    async def __call__(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        session: aiohttp.ClientSession = self._registry._session
        async with session.request(method, self._registry._url + path, data=data, headers=headers) as response:
            assert response.content_type == "application/json"
            text = await response.text()
            resource = path.partition("?")[0]
            is_text = resource.endswith("/content") or ("/ids/" in resource and not resource.endswith("/references"))
            answer: Any = text if is_text and response.status == 200 else json.loads(text)
            return answer if response.status == 200 else (response.status, answer["name"])


@pytest.fixture
def api(registry: RegistryClient) -> Api:
    return Api(registry)


def artifact(text: str, name: str = "orders-value", kind: str = "AVRO", **content: Any) -> dict[str, Any]:
    return {"artifactId": name, "artifactType": kind, "firstVersion": {"content": {"content": text, "contentType": "x", **content}}}


def ids(version: int, schema_id: int) -> dict[str, Any]:
    return {"version": str(version), "state": "ENABLED", "globalId": schema_id, "contentId": schema_id}


async def test_artifacts_are_subjects_and_their_ids_those_of_schemas(api: Api, registry: RegistryClient) -> None:
    artifacts = f"{V3}/groups/default/artifacts"
    where = {"groupId": "default", "artifactId": "orders-value", "artifactType": "AVRO"}
    created = await api("POST", artifacts, artifact(FIRST))
    assert created == {"artifact": where, "version": where | ids(1, 1)}
    assert await registry.get("/subjects/orders-value/versions") == [1]
    assert await api("POST", artifacts, artifact(FIRST)) == (409, "RuleViolationException")
    again = f"{artifacts}?ifExists=FIND_OR_CREATE_VERSION"
    assert (await api("POST", again, artifact(FIRST)))["version"]["contentId"] == 1
    assert (await api("POST", again, artifact(SECOND)))["version"] == where | ids(2, 2)
    assert await api("POST", again, artifact('"int"')) == (409, "RuleViolationException")
    version = f"{artifacts}/orders-value/versions"
    assert await api("GET", f"{version}/branch=latest") == where | ids(2, 2)
    assert await api("GET", f"{version}/1") == where | ids(1, 1)
    assert await api("GET", f"{version}/1/content") == FIRST == await api("GET", f"{V3}/ids/contentIds/1")
    assert await api("GET", f"{V3}/ids/globalIds/2") == SECOND == await api("GET", f"{V2}/ids/globalIds/2")
    search = f"{V3}/search/versions?artifactId=orders-value&groupId=default&artifactType=AVRO"
    assert await api("POST", search, SECOND) == {"count": 1, "versions": [where | ids(2, 2)]}
    assert await api("POST", search, '"int"') == {"count": 0, "versions": []}


async def test_a_group_is_the_first_part_of_a_subject(api: Api, registry: RegistryClient) -> None:
    created = await api("POST", f"{V3}/groups/shop/artifacts", artifact(FIRST, "Order"))
    assert (created["version"]["groupId"], created["version"]["artifactId"]) == ("shop", "Order")
    assert await registry.get("/subjects") == ["shop.Order"]
    assert (await api("GET", f"{V3}/groups/shop/artifacts/Order/versions/1"))["contentId"] == 1


async def test_references_of_both_versions(api: Api, registry: RegistryClient) -> None:
    await registry.register("orders-value", FIRST)
    referring = '{"type":"record","name":"Q","fields":[{"name":"p","type":"s.P"}]}'
    await api("POST", f"{V3}/groups/default/artifacts", artifact(referring, "q", references=[REFERENCE]))
    found = [f"{V3}/ids/contentIds/2", f"{V3}/ids/globalIds/2", f"{V2}/ids/contentIds/2", f"{V3}/groups/default/artifacts/q/versions/1"]
    assert [await api("GET", f"{path}/references") for path in found] == [[REFERENCE]] * 4
    resolved = await api("GET", f"{V3}/ids/globalIds/2?references=DEREFERENCE")
    assert json.loads(resolved)["fields"][0]["type"]["name"] == "P"
    extended = {"Content-Type": "application/create.extended+json", "X-Registry-ArtifactId": "r", "X-Registry-ArtifactType": "AVRO"}
    body = {"content": referring, "references": [REFERENCE]}
    assert (await api("POST", f"{V2}/groups/default/artifacts", body, extended))["contentId"] == 2


async def test_version_2_has_other_paths_and_fields(api: Api) -> None:
    artifacts = f"{V2}/groups/default/artifacts"
    where = {"groupId": "default", "id": "orders-value", "type": "AVRO"}
    headers = {"X-Registry-ArtifactId": "orders-value", "X-Registry-ArtifactType": "AVRO", "Content-Type": "application/json"}
    assert await api("POST", artifacts, FIRST, headers) == where | ids(1, 1)
    assert await api("POST", artifacts, FIRST, headers) == (409, "RuleViolationException")
    assert await api("POST", f"{artifacts}?ifExists=RETURN_OR_UPDATE", SECOND, headers) == where | ids(2, 2)
    for latest in ("versions/latest/meta", "meta"):
        assert await api("GET", f"{artifacts}/orders-value/{latest}") == where | ids(2, 2)
    assert await api("POST", f"{artifacts}/orders-value/meta", FIRST) == where | ids(1, 1)
    assert await api("POST", f"{artifacts}/orders-value/meta", '"int"') == (404, "ArtifactNotFoundException")


async def test_requests_that_fail(api: Api) -> None:
    artifacts = f"{V3}/groups/default/artifacts"
    for body, status in (
        ("{", 400), ([], 422), ({}, 422), (artifact(FIRST, ""), 422), (artifact(FIRST, kind="GRAPHQL"), 422), (artifact("{"), 422),
        (artifact(FIRST, references=[1]), 422), (artifact("x" * 900_001), 422),
    ):  # fmt: skip
        assert await api("POST", artifacts, body) == (status, "BadRequestException"), body
    for path in ("/ids/contentIds/9", "/ids/globalIds/99999999999999999999", "/groups/default/artifacts/a/versions/1"):
        assert await api("GET", f"{V3}{path}") == (404, "ArtifactNotFoundException")
    assert await api("GET", f"{V3}/groups/default/artifacts/a/versions/x") == (422, "BadRequestException")
    assert await api("POST", f"{V3}/search/versions", FIRST) == (422, "BadRequestException")


@pytest.mark.skipif(not IS_SOAK, reason="fetches Apicurio's jars: MINIBROKER_SOAK=1 runs it")
@pytest.mark.parametrize(("release", "version"), [("3.1.7", "v3"), ("3.1.7", "v2"), ("2.6.5", "v2")])
def test_apicurios_serializers(tmp_path: Path, release: str, version: str) -> None:
    """They register, find, and read back Avro, JSON Schema and Protobuf. The id in their payloads is that of the schema for others."""
    folder = jars(f"apicurio-serdes-{release}", *RELEASES[release], LOGGING)
    program = str(HERE / "apicurio" / "ApicurioClient.java")
    with BrokerProcess(tmp_path, "--registry-port", "0") as broker:
        client = RegistryOverHttp(url_of(broker))
        items = json.dumps({"type": "object", "properties": {"item": {"type": "string"}}})
        client.post("/subjects/items-value/versions", {"schemaType": "JSON", "schema": items})
        command = ("java", "-Xmx256m", *SHORT_LIVED, "-cp", f"{folder}/*", program, f"{url_of(broker)}/apis/registry/{version}")
        avro, *others = steps(*command)
        assert others == ["finds schemas", "meets errors", "json 1", "protobuf 4"]
        assert client.get("/subjects") == ["items-value", "orders-value", "times-value"]
        payload = bytes.fromhex(avro.removeprefix("avro "))
        schema = client.get(f"/schemas/ids/{int.from_bytes(payload[1:5], 'big')}")["schema"]
        assert json.loads(schema) == json.loads(SECOND)
