"""`minibroker schemas`: the schemas of any registry with Confluent's API."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from minibroker.cli.options import output_option, timeout_option
from minibroker.cli.output import FORMATS, emit
from minibroker.cli.registry import login_options
from minibroker.cli.schema_files import TYPES, Login, read_references, schema_file
from minibroker.cli.serdes import make_client
from minibroker.config import sources
from minibroker.registry.client import RegistryClient, RegistryRefused, path

_DEFAULT_URL: Final = "http://localhost:8081"
_URL_HELP: Final = f"The schema registry.  [default: schema.registry.url of --command-config, else {_DEFAULT_URL}]"
_CONFIG_HELP: Final = "Properties of the registry's client, as for Confluent's: schema.registry.url and others."
_PAGE: Final = 1_000  #: schemas of one request
_LIST_COLUMNS: Final = ("subject", "version", "id", "type", "references")
_COLUMNS: Final = ("subject", "version", "id", "type")
_CONFIG_COLUMNS: Final = ("subject", "compatibility", "normalize", "alias", "inherited")
_SUBJECT_DELETED, _VERSION_DELETED = 40404, 40406
_NO_CONFIG, _NO_MODE = 40408, 40409
_LEVELS: Final = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")
_MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
_DIFFERENCE: Final = re.compile(r"""\{errorType:['"](\w+)['"], description:['"](.*?)['"]?(?:, additionalInfo:'(.*)')?\}""", re.DOTALL)
_PATH: Final = re.compile(r"(?:path:? |package at )'([^']*)'")
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
Command = Callable[..., Any]


def _registry_command(function: Command) -> Command:
    """Give a command of `schemas` the options of a registry, and pass it the client."""

    @click.option("-r", "--registry", "registry_url", metavar="URL", envvar="MINIBROKER_REGISTRY_URL", show_envvar=True, help=_URL_HELP)
    @login_options
    @click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False),
        envvar="MINIBROKER_COMMAND_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help=_CONFIG_HELP,
    )
    @timeout_option("Time-out of a request, after which the command fails with exit code 124.")
    @functools.wraps(function)
    def run(*args: Any, registry_url: str | None, login: Login, command_config: str | None, timeout: float, **options: Any) -> Any:
        properties: Mapping[str, str] = {}
        if command_config is not None:
            properties = sources.from_file(Path(command_config))
        url = registry_url or properties.get("schema.registry.url") or _DEFAULT_URL
        return function(make_client(url, properties, login, timeout), *args, **options)

    return run


@click.group(
    epilog="""\b
Examples:
  minibroker schemas list
  minibroker schemas get orders-value
  minibroker schemas register orders-value order.avsc
  minibroker schemas check orders-value order.avsc
  minibroker schemas delete orders-value 2 --permanent
  minibroker schemas config orders-value --compatibility FULL
  minibroker schemas mode --set READONLY
"""
)
def schemas() -> None:
    """List, show, register, check and delete schemas, and configure subjects."""


def _file_options(function: Command) -> Command:
    for option in (
        click.option(
            "--reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION",
            help="A version of another subject that the schema references by NAME. Repeat it for more.",
        ),
        click.option("--type", "schema_type", type=click.Choice(list(TYPES.values()), case_sensitive=False),
                     help="The type of the schema.  [default: by the end of FILE: .avsc, .json or .proto]"),
        click.option("--normalize", is_flag=True, help="Ignore differences of spelling, for example the order of attributes."),
    ):  # fmt: skip
        function = option(function)
    return function


@schemas.command("list")
@click.argument("prefix", default="")
@click.option("--versions", "all_versions", is_flag=True, help="List all versions, not only the latest.")
@click.option("--deleted", is_flag=True, help="Include versions that are deleted, but not permanently.")
@output_option(*FORMATS)
@_registry_command
def list_schemas(client: RegistryClient, *, prefix: str, all_versions: bool, deleted: bool, output: str) -> None:
    """List subjects with their latest schema.

    With PREFIX, lists only subjects that start with it.
    """
    items = [
        {
            "subject": each["subject"],
            "version": each["version"],
            "id": each["id"],
            "type": each.get("schemaType") or "AVRO",
            "references": [f"{name['subject']}:{name['version']}" for name in each.get("references") or ()],
            "deleted": bool(each.get("deleted")),
        }
        for each in _all_schemas(client, prefix, latest_only=not all_versions, deleted=deleted)
    ]
    emit(items, output, columns=(*_LIST_COLUMNS, "deleted") if deleted else _LIST_COLUMNS, name="subject", empty="No schemas.")


def _all_schemas(client: RegistryClient, prefix: str, *, latest_only: bool, deleted: bool) -> Iterator[dict[str, Any]]:
    """Yield schemas page by page. A registry may not know pages, and send everything each time."""
    seen: set[tuple[str, int]] = set()
    while True:
        offset = len(seen)
        page = client.get(
            "/schemas", subjectPrefix=prefix or ":*:", latestOnly=latest_only, deleted=deleted, offset=offset or None, limit=_PAGE
        )
        for each in page:
            if (each["subject"], each["version"]) not in seen:
                seen.add((each["subject"], each["version"]))
                yield each
        if len(page) != _PAGE or len(seen) == offset:
            return


@schemas.command()
@click.argument("subject", required=False)
@click.argument("version", default="latest")
@click.option("--id", "schema_id", type=click.IntRange(min=0), metavar="N", help="The schema of an id, instead of SUBJECT.")
@output_option("schema", "json", "yaml")
@_registry_command
def get(client: RegistryClient, *, subject: str | None, version: str, schema_id: int | None, output: str) -> None:
    """Print a schema.

    VERSION is a number; without it, the latest. `-o json` adds id, type, references and the rest.
    """
    if (subject is None) == (schema_id is None):
        raise click.UsageError("give SUBJECT or --id")
    if schema_id is not None:
        found = {"id": schema_id} | client.get(path("schemas", "ids", schema_id))
    else:
        found = client.get(path("subjects", subject, "versions", version))
    found.setdefault("schemaType", "AVRO")
    if output == "schema":
        click.echo(_readable(found))
    else:
        emit([found], output, columns=())


def _readable(found: dict[str, Any]) -> str:
    if found["schemaType"] == "PROTOBUF":
        return str(found["schema"]).rstrip("\n")
    try:
        return json.dumps(json.loads(found["schema"]), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return str(found["schema"])


@schemas.command()
@click.argument("subject")
@click.argument("file", type=_FILE)
@_file_options
@output_option(*FORMATS)
@_registry_command
def register(
    client: RegistryClient, *, subject: str, file: Path, references: tuple[str, ...], schema_type: str | None, normalize: bool, output: str
) -> None:
    """Register the schema in FILE under SUBJECT.

    Prints its version and id, also if it was registered already. Fails if it is not compatible with earlier versions.
    """
    body = schema_file(file, schema_type) | {"references": read_references(references)}
    registered = client.post(path("subjects", subject, "versions"), body, normalize=normalize)
    version = registered.get("version")
    if version is None:  # older registries return only the id
        version = client.post(path("subjects", subject), body, normalize=normalize)["version"]
    item = {"subject": subject, "version": version, "id": registered["id"], "type": body["schemaType"]}
    emit([item], output, columns=_COLUMNS, name="id")


@schemas.command()
@click.argument("subject")
@click.argument("file", type=_FILE)
@click.option("--version", metavar="VERSION", help="Compare with this version, or with 'latest'.  [default: as a registration does]")
@_file_options
@output_option("table", "json", "jsonl", "yaml")
@_registry_command
def check(
    client: RegistryClient,
    *,
    subject: str,
    file: Path,
    version: str | None,
    references: tuple[str, ...],
    schema_type: str | None,
    normalize: bool,
    output: str,
) -> None:
    """Check whether the schema in FILE is compatible with SUBJECT.

    Registers nothing. Prints each incompatibility with its path and reason, and exits with 1 if there are any.
    """
    body = schema_file(file, schema_type) | {"references": read_references(references)}
    resource = path("compatibility", "subjects", subject, "versions", *([] if version is None else [version]))
    answer = client.post(resource, body, verbose=True, normalize=normalize)
    items = _differences(answer.get("messages") or [])
    if answer["is_compatible"]:
        if output == "table":
            click.echo(f"{file} is compatible with {subject}")
        else:
            emit([], output, columns=())
        return
    emit(items, output, columns=("error", "path", "reason"))
    raise click.ClickException(f"{file} is not compatible with {subject}")


def _differences(messages: list[str]) -> list[dict[str, Any]]:
    """The incompatibilities in the messages of a registry; other messages say which version and level it compared with."""
    items: list[dict[str, Any]] = []
    for message in messages:
        found = _DIFFERENCE.fullmatch(message.strip())
        if found is not None:
            place = _PATH.search(found[2])
            items.append({"error": found[1], "path": place[1] if place else None, "reason": found[2]})
        elif not message.startswith("{"):
            items.append({"error": None, "path": None, "reason": message})
    return items


@schemas.command()
@click.argument("subject")
@click.argument("version", required=False)
@click.option("--permanent", is_flag=True, help="Delete it permanently, so that its id becomes unknown.")
@output_option(*FORMATS)
@_registry_command
def delete(client: RegistryClient, *, subject: str, version: str | None, permanent: bool, output: str) -> None:
    """Delete a subject, or one VERSION of it.

    Without --permanent, clients can still read records with its id, and `register` restores it.
    """
    resource = path("subjects", subject) if version is None else path("subjects", subject, "versions", version)
    try:
        deleted = client.delete(resource)
    except RegistryRefused as error:
        if not permanent or error.error_code not in {_SUBJECT_DELETED, _VERSION_DELETED}:
            raise
        deleted = []
    if permanent:
        if version == "latest" and isinstance(deleted, int):
            resource = path("subjects", subject, "versions", deleted)  # now another one is the latest
        deleted = client.delete(resource, permanent=True)
    versions = deleted if isinstance(deleted, list) else [deleted]
    emit(
        [{"subject": subject, "version": each, "permanent": permanent} for each in versions],
        output,
        columns=("subject", "version", "permanent"),
        name="version",
    )


@schemas.command()
@click.argument("subject", required=False)
@click.option(
    "--compatibility",
    type=click.Choice(_LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help=f"Set the level by which registrations are checked: {', '.join(_LEVELS)}.",
)
@click.option("--normalize/--no-normalize", default=None, help="Set whether registrations ignore differences of spelling.")
@click.option("--alias", metavar="OTHER", help="Serve requests for SUBJECT from the subject OTHER. An empty OTHER removes the alias.")
@click.option("--delete", "is_deleted", is_flag=True, help="Delete the configuration, so that the global one or the default applies.")
@output_option("table", "json", "jsonl", "yaml")
@_registry_command
def config(
    client: RegistryClient,
    *,
    subject: str | None,
    compatibility: str | None,
    normalize: bool | None,
    alias: str | None,
    is_deleted: bool,
    output: str,
) -> None:
    """Show or change the configuration of SUBJECT, or the global one.

    Changes the settings that the options name, and prints the configuration that applies then. `inherited` means that SUBJECT
    has no configuration itself.
    """
    resource = path("config", *_named(subject))
    changes = {"compatibility": compatibility, "normalize": normalize, "alias": None if alias is None else alias or None}
    given = {name: value for name, value in changes.items() if value is not None or (name == "alias" and alias == "")}
    if is_deleted and given:
        raise click.UsageError("--delete and other changes exclude each other")
    if "alias" in given and subject is None:
        raise click.UsageError("--alias needs SUBJECT")
    if is_deleted:
        client.delete(resource)
    elif given:
        client.send("PUT", resource, given)
    found, is_inherited = _own_or_inherited(client, resource, _NO_CONFIG)
    level = found.pop("compatibilityLevel", None)
    emit([{"subject": subject, "compatibility": level, **found, "inherited": is_inherited}], output, columns=_CONFIG_COLUMNS)


@schemas.command()
@click.argument("subject", required=False)
@click.option("--set", "mode", type=click.Choice(_MODES, case_sensitive=False), metavar="MODE", help=f"Set the mode: {', '.join(_MODES)}.")
@click.option("--force", is_flag=True, help="Set IMPORT even if there are schemas.")
@click.option("--delete", "is_deleted", is_flag=True, help="Delete the mode of SUBJECT, so that the global one applies.")
@output_option("table", "json", "jsonl", "yaml")
@_registry_command
def mode(client: RegistryClient, *, subject: str | None, mode: str | None, force: bool, is_deleted: bool, output: str) -> None:
    """Show or set the mode of SUBJECT, or the global one.

    READONLY refuses registrations and deletions. READONLY_OVERRIDE does so for all subjects, regardless of their modes. IMPORT lets
    clients register schemas with their ids and versions.
    """
    resource = path("mode", *_named(subject))
    if is_deleted and (mode is not None or subject is None):
        raise click.UsageError("--delete needs SUBJECT and excludes --set")
    if is_deleted:
        client.delete(resource)
    elif mode is not None:
        client.send("PUT", resource, {"mode": mode}, force=force)
    found, is_inherited = _own_or_inherited(client, resource, _NO_MODE)
    emit([{"subject": subject, "mode": found["mode"], "inherited": is_inherited}], output, columns=("subject", "mode", "inherited"))


def _named(subject: str | None) -> list[str]:
    return [] if subject is None else [subject]


def _own_or_inherited(client: RegistryClient, resource: str, missing: int) -> tuple[dict[str, Any], bool]:
    """A setting of a subject, or the one that it inherits."""
    try:
        return dict(client.get(resource)), False
    except RegistryRefused as error:
        if error.error_code != missing:
            raise
    return dict(client.get(resource, defaultToGlobal=True)), True
