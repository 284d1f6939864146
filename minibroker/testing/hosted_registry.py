"""The schema registry of a broker under test.

This module is imported when a test uses the registry for the first time. The schemas are data of
the broker, which tests reset and restore.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from minibroker.dispatch.registry import Registry as ApiRegistry
from minibroker.errors import ConfigurationError
from minibroker.extras import install_command
from minibroker.http.server import HttpServer, Place
from minibroker.http.tls import https_context
from minibroker.registry.errors import RegistryError
from minibroker.registry.mounting import registry_of
from minibroker.registry.registry import Registry
from minibroker.registry.requests import read_settings
from minibroker.registry.schema_files import SchemaFile, register, register_all
from minibroker.registry.site import RegistrySite, failure
from minibroker.registry.validation import SchemaValidation
from minibroker.server.broker import Broker
from minibroker.testing.faults.registry_faults import RegistryFaults
from minibroker.testing.options import HOST, BrokerError

T = TypeVar("T")

_NEEDED: Final = ("avro", "aiohttp")


class HostedRegistry:
    """The registry of one hosted broker. No port is open before `url` is used."""

    def __init__(self, broker: Callable[[], Broker], faults: RegistryFaults, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Create the registry.

        Args:
            broker: returns the running broker.
            faults: they hit the requests over HTTP.
            schemas: registered at the start and at each reset.

        Raises:
            BrokerError: a package is missing.
        """
        if any(find_spec(each) is None for each in _NEEDED):
            raise BrokerError(f"the schema registry needs avro and aiohttp: {install_command('registry')}")
        self._broker = broker
        self._faults = faults
        self._schemas = [_schema_of(each) for each in schemas]
        self.site = self._new_site()
        self._server: HttpServer | None = None
        self._port = 0  #: from the first use on always the same
        self._url = ""
        self.may_listen = True  #: false: only `served_at` gives it an address

    def _new_site(self) -> RegistrySite:
        return registry_of(self._broker, partial(self._faults.serve, failure))

    def make_registry(self) -> ApiRegistry:
        """Return the handlers of a broker whose Produce checks schema ids."""
        return SchemaValidation(lambda _: self._registry).make_registry()

    @property
    def _registry(self) -> Registry:
        return self.site.registry

    async def url(self) -> str:
        """Return the address for clients. The first call opens a port."""
        if not self._url:
            if not self.may_listen:
                raise BrokerError("the broker has no schema registry: start it with 'serve --registry-port'")
            server = HttpServer()
            try:
                server.mount(self.site, Place(HOST, self._port, tls=self._tls()))
                await server.start()
            except ConfigurationError as error:
                raise BrokerError(str(error)) from error
            self._server = server
            self._url = server.url("registry")
            self._port = int(self._url.rpartition(":")[2])
        return self._url

    def _tls(self) -> ssl.SSLContext | None:
        """HTTPS with the certificate of a broker that has TLS; a test may exchange it."""
        has_tls = any(each.secured is not None for each in self._broker().listeners)
        return https_context(lambda: self._broker().listeners) if has_tls else None

    def served_at(self, url: str) -> None:
        """Use the address at which another server has the site."""
        self._url = url

    async def stop(self) -> None:
        """Close the port. The next start has the same one, if a test used it."""
        server, self._server, self._url = self._server, None, ""
        self.site = self._new_site()  # its locks belong to the event loop
        if server is not None:
            await server.stop()

    async def register_schemas(self) -> None:
        """Register the schemas of the options. BrokerError: one is invalid."""
        try:
            await register_all(self._registry, self._schemas)
        except ConfigurationError as error:
            raise BrokerError(str(error)) from error

    # What is registered

    async def subjects(self) -> list[str]:
        """Return the subjects of all contexts."""
        return await _answer(self._registry.list_subjects(":*:", with_deleted=False, only_deleted=False))

    async def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject."""
        return await _answer(self._registry.list_versions(subject, with_deleted=False, only_deleted=False))

    async def schema(self, schema_id: int) -> dict[str, Any]:
        """Return the schema of an id."""
        return {"schemaType": "AVRO"} | await _answer(self._registry.get_by_id(schema_id, None, form="", with_max_id=False))

    async def version(self, subject: str, version: int | None) -> dict[str, Any]:
        """Return a version of a subject; None: the newest one."""
        return {"schemaType": "AVRO"} | await _answer(self._registry.get_version(subject, version, with_deleted=False, form=""))

    async def register(self, schema: Mapping[str, Any]) -> int:
        """Register a schema, and return its id."""
        return await _answer(register(self._registry, _schema_of(schema)))

    async def set_compatibility(self, level: str, subject: str | None) -> None:
        """Set the level of a subject, or the global one."""

        async def change() -> None:
            await self._registry.put_config(subject, read_settings({"compatibility": level}))

        await _answer(change())


def _schema_of(schema: Mapping[str, Any]) -> SchemaFile:
    return SchemaFile(**{**schema, "references": tuple(schema.get("references") or ())})


async def _answer(work: Awaitable[T]) -> T:
    """Await a request to the registry. Raises BrokerError with its message."""
    try:
        return await work
    except RegistryError as error:
        raise BrokerError(f"registry: {error.message} ({error.error_code})") from error
