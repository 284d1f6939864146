"""`minibroker config`: explain the broker's properties, and check a properties file. Needs no broker."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from minibroker.cli.options import output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.cli.streams import printable
from minibroker.config import sources
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, BROKER_SYNONYMS, LIKE_KAFKA
from minibroker.config.kafka_only import ignored, nearest, warnings_of
from minibroker.config.reference import BROKER, CLUSTER_WIDE, KINDS, PER_BROKER, READ_ONLY, TOPIC, ReferenceEntry, entries, named
from minibroker.config.secret import HIDDEN, without_password
from minibroker.config.security_properties import security_property
from minibroker.errors import ConfigurationError, InvalidConfig

COLUMNS = ("kind", "name", "type", "unit", "default", "update_mode")
DIFFERENT_COLUMNS = ("kind", "name", "default", "kafka_default", "difference")
_CELL_MAX = 24
WIDTH = 100
_MODES = {
    READ_ONLY: "read-only: only before the broker starts",
    CLUSTER_WIDE: "cluster-wide: also while the broker runs, for all brokers or for one",
    PER_BROKER: "per-broker: also while the broker runs, for one broker and listener",
}


def _complete_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = {entry.name for kind in KINDS for entry in entries(kind)}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


@click.group(
    epilog="""\b
Examples:
  minibroker config list --different
  minibroker config explain log.retention.ms
  minibroker config check server.properties
"""
)
def config() -> None:
    """Explain the broker's properties, and check a properties file."""


@config.command("list", short_help="List properties, their defaults and how they differ from Apache Kafka's.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only properties of this kind; may be given several times.")
@click.option(
    "--different", is_flag=True, help="Only properties whose default or effect differs from Apache Kafka, or that have no effect."
)
@output_option(*FORMATS)
def list_properties(*, kinds: tuple[str, ...], different: bool, output: str) -> None:
    """List the properties of brokers, topics, groups and client metrics.

    -o json prints everything that 'explain' shows, and long defaults in full.

    KAFKA DEFAULT is the default of Apache Kafka; '-' if it has no default or no such property.
    """
    found = [entry for kind in kinds or KINDS for entry in entries(kind)]
    if different:
        found = [entry for entry in found if entry.has_other_default or not entry.is_kafkas or not entry.has_effect or entry.difference]
    items: list[dict[str, Any]] = [
        {**entry._asdict(), "kafka_default": entry.kafka_default if entry.is_kafkas else None, "behind": list(entry.behind)}
        for entry in found
    ]
    if output == "table":
        items = [{**item, **_in_a_table(item)} for item in items]
    emit(items, output, columns=DIFFERENT_COLUMNS if different else COLUMNS)


def _in_a_table(item: dict[str, Any]) -> dict[str, Any]:
    """Shorten long defaults for a table, and mark properties without effect in the column of differences."""
    texts = {name: str(item[name]) for name in ("default", "kafka_default") if item[name] is not None}
    cut = {name: f"{text[: _CELL_MAX - 3]}..." for name, text in texts.items() if len(text) > _CELL_MAX}
    words = [] if item["has_effect"] else ["No effect."]
    if not item["is_kafkas"]:
        words.append("Kafka documents no property of this name.")
    return {**cut, "difference": " ".join([*words, item["difference"]]).strip()}


@config.command(short_help="Explain a property.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=_complete_names)
def explain(names: tuple[str, ...]) -> None:
    """Explain a property: its effect, unit and default, when it may change, and how it differs from Apache Kafka's."""
    blocks = []
    for name in names:
        found = named(name)
        if found:
            blocks += ["\n".join(_explained(entry)) for entry in found]
        elif (why := ignored(name)) is not None:
            blocks.append(f"{name}\n  A property of Apache Kafka without effect here: {why.reason}.")
        else:
            near = nearest(name, {entry.name for kind in KINDS for entry in entries(kind)})
            advice = f": did you mean {near}?" if near else ". 'minibroker config list' lists all"
            raise click.ClickException(f"there is no property {name}{advice}")
    click.echo("\n\n".join(blocks))


@config.command(short_help="Check a properties file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-e", "--environment", is_flag=True, help="Apply the KAFKA_... variables of this environment as well, as 'serve' does.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings as well.")
def check(file: Path, *, environment: bool, strict: bool) -> None:
    """Check a properties file, and print errors, warnings, and values that are not the default. The exit code is 1 if there are errors."""
    properties = sources.from_file(file) | (sources.from_environment(os.environ) if environment else {})
    errors = list(_errors(properties))
    unknown = {name: text for name, text in properties.items() if name not in BROKER_PROPERTIES}
    warnings = warnings_of(unknown, listeners=BrokerConfig(properties).protocols_of_listeners if not errors else {})
    in_force = BrokerConfig({LIKE_KAFKA: properties.get(LIKE_KAFKA, "false")}) if not errors else BrokerConfig()
    defaults = {name: in_force.default(name) for name in properties if name in BROKER_PROPERTIES}
    props = {name: prop for name in properties if (prop := BROKER_PROPERTIES.get(name) or security_property(name)) is not None}
    defaults |= {name: prop.default for name, prop in props.items() if name not in defaults}
    other = {name: properties[name] for name in sorted(defaults) if properties[name].strip() != (defaults[name] or "")}
    for line in errors:
        click.echo(printable(f"error: {line}"))
    for line in warnings:
        click.echo(printable(f"warning: {line}"))
    for name, text in other.items():
        shown = HIDDEN if props[name].is_sensitive else without_password(text)
        click.echo(printable(f"set: {name}={shown} (default: {defaults[name] or 'none'})"))
    counts = f"{_counted(len(errors), 'error')}, {_counted(len(warnings), 'warning')}, {len(other)} of {len(properties)} not the default"
    click.echo(f"{file}: {counts}")
    if errors or (strict and warnings):
        raise click.exceptions.Exit(1)


def _errors(properties: dict[str, str]) -> Iterator[str]:
    """Yield all errors of single values; if there are none, the first error of their combination."""
    all_valid = True
    for name, text in sorted(properties.items()):
        try:
            prop = BROKER_PROPERTIES.get(name) or security_property(name)
            if prop is not None:
                prop.parse(text)
        except InvalidConfig as error:
            all_valid = False
            yield sources.with_origins(str(error), properties)
    if all_valid:
        try:
            BrokerConfig(properties)
        except ConfigurationError as error:
            yield str(error)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _explained(entry: ReferenceEntry) -> Iterator[str]:
    yield f"{entry.name} ({'broker property' if entry.kind == BROKER else f'{entry.kind} config'})"
    yield from textwrap.wrap(entry.documentation, WIDTH, initial_indent="  ", subsequent_indent="  ")
    for label, text in _facts(entry):
        lines = textwrap.wrap(text, WIDTH - 18)
        yield f"  {label:<14}  {lines[0]}"
        yield from (f"{'':18}{line}" for line in lines[1:])


def _facts(entry: ReferenceEntry) -> Iterator[tuple[str, str]]:
    yield "type", f"{entry.type}, {entry.unit}" if entry.unit else entry.type
    synonyms = BROKER_SYNONYMS.get(entry.name, ()) if entry.kind == BROKER else ()
    yield "default", entry.default or (_instead(synonyms) if entry.default is None else "empty")
    if entry.valid_values:
        yield "valid values", entry.valid_values
    yield "may change", _MODES.get(entry.update_mode, f"{entry.update_mode}, at any time")
    if synonyms:
        yield "see also", f"{', '.join(synonyms)}: the first of these that is set applies"
    if entry.behind:
        yield "when not set", f"{', '.join(entry.behind)} of the broker"
    yield "set it by", _ways(entry)
    yield "Apache Kafka", _comparison(entry)
    if not entry.has_effect:
        yield "effect", "none: minibroker accepts, checks and shows it, but does not act on it"


def _instead(synonyms: Iterable[str]) -> str:
    """Return what applies if a property without a default is not set."""
    other = next((name for name in synonyms if BROKER_PROPERTIES[name].default), None)
    return f"none: {other}={BROKER_PROPERTIES[other].default} applies" if other else "none"


def _ways(entry: ReferenceEntry) -> str:
    if entry.kind == BROKER:
        ways = f"{entry.name}=VALUE in a file or after 'serve --set', or {variable_of(entry.name)}"
        return (
            f"{ways}, or 'minibroker configs alter brokers --default -c {entry.name}=VALUE'" if entry.update_mode == CLUSTER_WIDE else ways
        )
    if entry.kind == TOPIC:
        return f"'minibroker topics create TOPIC -c {entry.name}=VALUE' or 'minibroker configs alter topics TOPIC -c {entry.name}=VALUE'"
    return f"'minibroker configs alter {'groups GROUP' if entry.kind == 'group' else 'client-metrics NAME'} -c {entry.name}=VALUE'"


def _comparison(entry: ReferenceEntry) -> str:
    if not entry.is_kafkas:
        return "does not document it, or has no such property"
    words = []
    if entry.has_other_default:
        words.append(
            f"its default is {entry.kafka_default or 'none'}{', as here with minibroker.like.kafka' if entry.is_switched else ''}."
        )
    if entry.difference:
        words.append(f"Here: {entry.difference}" if words else f"here: {entry.difference}")
    return " ".join(words) or "the same"


def variable_of(name: str) -> str:
    """Return the environment variable of a property: KAFKA_LOG_DIRS for log.dirs."""
    return f"{sources.PREFIX}{name.replace('_', '__').replace('-', '___').replace('.', '_').upper()}"
