"""A schema registry on a broker in memory, and the client that tests ask it with."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from minibroker.http.server import HttpServer, Place
from minibroker.registry.registry import Registry
from minibroker.registry.site import RegistrySite
from tests.support.broker_in_memory import BrokerInMemory


class RegistryClient:
    """Sends requests. A failed one is returned as its status and error code."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def send(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """The JSON of the response, or (HTTP status, error code, message)."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._session.request(method, self._url + path, data=data, params=query) as response:
            answer = json.loads(await response.read())
            assert response.content_type == "application/vnd.schemaregistry.v1+json"
            return answer if response.status == 200 else (response.status, answer["error_code"], answer["message"])

    async def status(self, method: str, path: str) -> int:
        """The HTTP status of a response without a body."""
        async with self._session.request(method, self._url + path) as response:
            assert await response.read() == b""
            return response.status

    async def get(self, path: str, **query: str) -> Any:
        """GET."""
        return await self.send("GET", path, **query)

    async def delete(self, path: str, **query: str) -> Any:
        """DELETE."""
        return await self.send("DELETE", path, **query)

    async def register(self, subject: str, schema: Any, **fields: Any) -> Any:
        """Register a schema, which is a text or is JSON. Returns its id, or the error."""
        answer = await self.send("POST", f"/subjects/{subject}/versions", schema_body(schema, **fields))
        return answer["id"] if isinstance(answer, dict) else answer

    async def look_up(self, subject: str, schema: Any, fields: dict[str, Any] | None = None, **query: str) -> Any:
        """Returns the version of a schema, or the error."""
        answer = await self.send("POST", f"/subjects/{subject}", schema_body(schema, **(fields or {})), **query)
        return answer["version"] if isinstance(answer, dict) else answer

    async def is_compatible(self, subject: str, schema: Any, version: str = "", **query: str) -> Any:
        """Whether a schema could follow all versions, or one."""
        path = f"/compatibility/subjects/{subject}/versions" + (f"/{version}" if version else "")
        return await self.send("POST", path, schema_body(schema), **query)


def schema_body(schema: Any, **fields: Any) -> dict[str, Any]:
    return {"schema": schema if isinstance(schema, str) else json.dumps(schema), **fields}


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory()


@pytest.fixture
async def registry(broker: BrokerInMemory) -> AsyncIterator[RegistryClient]:
    server = HttpServer()
    server.mount(RegistrySite(Registry(lambda: broker.services)), Place())
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield RegistryClient(session, server.url("registry"))
    await server.stop()
