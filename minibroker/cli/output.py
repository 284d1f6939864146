"""Print results in the requested format. Names and order of fields are the same in all formats, and stable.

table   columns, for people          json    one array of objects
yaml    one list                     jsonl   one object per line
name    only names, one per line, for the shell
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import click

from minibroker.cli.streams import printable
from minibroker.storage.directory_files import format_uuid

FORMATS = ("table", "json", "jsonl", "yaml", "name")

Item = Mapping[str, Any]


def emit(
    items: Sequence[Item], output: str, *, columns: Sequence[str], name: str = "name", empty: str = "", is_single: bool = False
) -> None:
    """Print items.

    Args:
        items: objects with the same fields.
        output: one of FORMATS.
        columns: the fields of a table.
        name: the field that -o name prints.
        empty: what stderr says beside a table without rows.
        is_single: print the only item of JSON and YAML as an object instead of a list.
    """
    if is_single and output in {"json", "yaml"}:
        (item,) = items
        click.echo(json.dumps(item, ensure_ascii=False, indent=2) if output == "json" else yaml_text(item).rstrip("\n"))
    elif output == "table":
        click.echo(table(items, columns))
        if not items and empty:
            click.echo(empty, err=True)
    elif output == "name":
        for item in items:
            click.echo(item[name])
    elif output == "yaml":
        click.echo(yaml_text(list(items)), nl=False)
    elif output == "jsonl":
        for item in items:
            click.echo(json.dumps(item, ensure_ascii=False))
    else:
        click.echo(json.dumps(list(items), ensure_ascii=False, indent=2))


def table(items: Sequence[Item], columns: Sequence[str]) -> str:
    """Return columns under their names in capitals, with numbers right-aligned."""
    from tabulate import tabulate  # noqa: PLC0415  only tables pay for it

    headers = [column.replace("_", " ").upper() for column in columns]
    rows = [[_cell(item.get(column)) for column in columns] for item in items]
    if not rows:
        return "  ".join(headers)
    numeric = [all(isinstance(item.get(column), int) and not isinstance(item.get(column), bool) for item in items) for column in columns]
    alignment = ["right" if is_number else "left" for is_number in numeric]
    text = tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=alignment)
    return "\n".join(line.rstrip() for line in text.splitlines())


def yaml_text(value: Any) -> str:
    """Return a value as a YAML document."""
    import yaml  # noqa: PLC0415  only YAML pays for it

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


def id_text(topic_id: uuid.UUID) -> str | None:
    """Return a topic id as Kafka's tools print it: base64 for URLs, without padding; None for the zero id."""
    return format_uuid(topic_id) if topic_id.int else None


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(printable(str(part)) for part in value)
    if isinstance(value, dict):
        return ",".join(printable(f"{key}={part}") for key, part in value.items())
    return printable(str(value))
