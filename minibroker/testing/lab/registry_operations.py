"""The schema registry of a broker under test: where it is, and what is registered.

    minibroker.registry.url          the address for clients; the first use opens the port
    minibroker.registry.subjects     ["orders-value"]
    minibroker.registry.schema(1)    {"schema": ..., "schemaType": ..., ...}

Each call reads the topic `_schemas`, and needs no request over HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minibroker.testing.lab.declaration import OperationGroup, operation, reading
from minibroker.testing.options import schemas_of

if TYPE_CHECKING:
    from minibroker.registry.schema_files import Schemas
    from minibroker.testing.hosted_registry import HostedRegistry


class RegistryOperations(OperationGroup, prefix="registry"):
    """The schema registry of one broker."""

    def __init__(self, hosted: Callable[[], HostedRegistry]) -> None:
        """`hosted` returns the registry. It raises BrokerError if a package is missing."""
        self._hosted = hosted

    @property
    @operation
    async def url(self) -> str:
        """Show the address of the schema registry.

        A broker of the test kit starts it at the first use. 'serve' has one with --registry-port.
        """
        return await self._hosted().url()

    @property
    @reading
    async def subjects(self) -> list[str]:
        """List the subjects, without deleted ones, of all contexts."""
        return await self._hosted().subjects()

    @reading
    async def versions(self, subject: str) -> list[int]:
        """List the versions of a subject."""
        return await self._hosted().versions(subject)

    @reading
    async def schema(self, id: int) -> dict[str, Any]:  # noqa: A002  JSON's name
        """Show the schema of an id.

        Returns `schema` (its text) and `schemaType`, and `references`, `metadata` and `ruleSet` where it has them.
        """
        return await self._hosted().schema(id)

    @reading
    async def version(self, subject: str, version: int | None = None) -> dict[str, Any]:
        """Show a version of a subject, by default the newest one.

        Returns `subject`, `version` and `id`, and what `schema` returns.
        """
        return await self._hosted().version(subject, version)

    @operation
    async def register(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> int:
        """Register a schema.

        Returns its id. A reference without a version is to the newest one.
        """
        return await self._hosted().register(
            {"subject": subject, "text": schema, "schema_type": schema_type, "references": references or []}
        )

    @operation
    async def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or of all."""
        await self._hosted().set_compatibility(level, subject)

    def load(self, schemas: Schemas | str | os.PathLike[str]) -> None:
        """Register the schemas of a folder, or of files by subject (docs/testing.md)."""
        for each in schemas_of(schemas):
            self.register(each["subject"], each["text"], each["schema_type"], [*each["references"]])
