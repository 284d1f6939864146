"""`minibroker api-versions`: the equivalent of kafka-broker-api-versions, and the table of our own broker without starting one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

import minibroker.schemas
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client.client import Client
from minibroker.client.connection import api_name
from minibroker.client.errors import ClientError
from minibroker.dispatch.registry import load
from minibroker.schemas import k18_api_versions

COLUMNS = ("node_id", "address", "api_key", "name", "min_version", "max_version", "usable")
OUR_COLUMNS = ("api_key", "name", "min_version", "max_version", "flexible_since")
FEATURE_COLUMNS = ("node_id", "address", "name", "min_version", "max_version", "finalized")


@click.command(
    "api-versions",
    epilog="""\b
Examples:
  minibroker api-versions -b localhost:9092
  minibroker api-versions --features -o json
  minibroker api-versions --ours
""",
)
@click.option("--ours", is_flag=True, help="Show what 'minibroker serve' of this version serves, without a broker.")
@click.option("--features", is_flag=True, help="Show the features of each broker instead of its APIs.")
@output_option(*FORMATS)
@client_command
def api_versions(client: Client, *, ours: bool, features: bool, output: str) -> None:
    """Show which APIs and versions brokers serve.

    Asks every broker of the cluster. USABLE is the highest version that this client and the broker share.
    """
    if ours:
        emit(served_by_us(), output, columns=OUR_COLUMNS)
        return
    client.metadata([])
    items: list[dict[str, Any]] = []
    errors: list[Exception] = []
    for node_id, address in sorted(client.brokers.items()):
        try:
            answer = client.to_node(node_id, client.deadline()).api_versions
        except ClientError as error:
            errors.append(error)
            continue
        rows = _features(answer) if features else apis_of(answer)
        items += [{"node_id": node_id, "address": str(address), **row} for row in rows]
    emit(items, output, columns=FEATURE_COLUMNS if features else COLUMNS)
    fail_with(errors)


def served_by_us() -> list[dict[str, Any]]:
    """Return the APIs that this package serves, by key."""
    return [
        {
            "api_key": api.key,
            "name": api.name,
            "min_version": api.min_version,
            "max_version": api.max_version,
            "flexible_since": api.flexible_since if api.flexible_since <= api.max_version else None,
        }
        for api in load().apis()
    ]


def apis_of(answer: k18_api_versions.Response) -> list[dict[str, Any]]:
    """Return a row for each API, with the version that our client would send."""
    known = _known_versions()
    rows = []
    for api in sorted(answer.api_keys, key=lambda api: api.api_key):
        low, high = known.get(api.api_key, (0, -1))
        usable = min(high, api.max_version)
        rows.append(
            {
                "api_key": api.api_key,
                "name": api_name(api.api_key),
                "min_version": api.min_version,
                "max_version": api.max_version,
                "usable": usable if usable >= max(low, api.min_version) else None,
            }
        )
    return rows


def _features(answer: k18_api_versions.Response) -> list[dict[str, Any]]:
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return [
        {
            "name": feature.name,
            "min_version": feature.min_version,
            "max_version": feature.max_version,
            "finalized": finalized.get(feature.name),
        }
        for feature in sorted(answer.supported_features, key=lambda feature: feature.name)
    ]


def _known_versions() -> dict[int, tuple[int, int]]:
    """Return the versions that our schemas declare, by API key."""
    stems = [module.name for module in iter_modules(minibroker.schemas.__path__) if module.name.startswith("k")]
    modules = [import_module(f"minibroker.schemas.{stem}") for stem in stems]
    return {module.API_KEY: module.VERSIONS for module in modules}
