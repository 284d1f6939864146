"""Schemas of a folder, registered before clients can connect (minibroker/registry/schema_files.py has the names of the files)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from minibroker.errors import ConfigurationError
from minibroker.extras import install_command
from minibroker.registry.registry import Registry
from minibroker.registry.schema_files import read_schema_files, register_all
from minibroker.server.broker import Broker


async def register_schemas(folder: Path, broker: Broker) -> str:
    """Register the schemas of a folder with a running broker. Those that are registered already stay. Returns a line about it.

    Raises:
        ConfigurationError: it names the file that is not a schema, or is not compatible with earlier versions.
    """
    if find_spec("avro") is None:
        raise ConfigurationError(f"schemas: {folder}: avro is missing: {install_command('registry')}")
    schemas = read_schema_files(folder)
    await register_all(Registry(lambda: broker.nodes[0].services), schemas)
    return f"schemas of {folder} are registered: {len(schemas)}"
