"""Print consumed records: by a format, as JSON, YAML or a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from minibroker.cli.output import table, yaml_text
from minibroker.cli.records import RecordFormat, to_json
from minibroker.client.consumer import ConsumedRecord

if TYPE_CHECKING:
    from minibroker.cli.serdes import RecordDecoder

COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")


class Printer:
    """Prints records as they arrive."""

    def __init__(self, one: Callable[[ConsumedRecord], bytes]) -> None:
        self.out: BinaryIO = sys.stdout.buffer
        self.one = one

    def begin(self) -> None:
        """Print what precedes the first record."""

    def show(self, consumed: ConsumedRecord) -> None:
        """Format one record."""
        self.out.write(self.one(consumed))

    def flush(self) -> None:
        """Flush stdout."""
        self.out.flush()

    def end(self) -> None:
        """Print what follows the last record."""
        self.out.flush()


class _JsonPrinter(Printer):
    """Prints one JSON array, with an object per line."""

    separator = b"\n"

    def begin(self) -> None:
        self.out.write(b"[")

    def show(self, consumed: ConsumedRecord) -> None:
        self.out.write(self.separator + self.one(consumed).rstrip(b"\n"))
        self.separator = b",\n"

    def end(self) -> None:
        self.out.write(b"\n]\n")
        self.out.flush()


class _TablePrinter(Printer):
    """Collects records, and prints a table at the end."""

    def __init__(self, item: Callable[[ConsumedRecord], dict[str, Any]], columns: Sequence[str]) -> None:
        super().__init__(lambda _: b"")
        self._item = item
        self._columns = columns

    def begin(self) -> None:
        self.items: list[dict[str, Any]] = []

    def show(self, consumed: ConsumedRecord) -> None:
        item = self._item(consumed)
        item["headers"] = [f"{header['key']}={header['value']}" for header in item["headers"]]
        for part in ("key", "value"):
            if f"{part}_schema_id" in item:
                item[part] = json.dumps(item[part], ensure_ascii=False)
        self.items.append(item)

    def end(self) -> None:
        click.echo(table(self.items, self._columns))


def printer_of(output: str, form: str, *, null: bool, decoder: RecordDecoder | None, has_topics: bool) -> Printer:
    """Return the printer of a form of output.

    Args:
        output: a name of -o.
        form: the format of -f, for output `format`.
        null: print NULL for a null key, value or header.
        decoder: decodes keys and values by schema ids.
        has_topics: show the topic in tables, because there are several.
    """

    def item(consumed: ConsumedRecord) -> dict[str, Any]:
        found = to_json(consumed)
        return found if decoder is None else found | decoder.fields(consumed)

    def as_json(consumed: ConsumedRecord) -> bytes:
        return json.dumps(item(consumed), ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def as_yaml(consumed: ConsumedRecord) -> bytes:
        return yaml_text([item(consumed)]).encode()

    if output == "format":
        try:
            pieces = RecordFormat(form, null=b"NULL" if null else b"")
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="-f") from error
        return Printer(pieces if decoder is None else lambda consumed: pieces(decoder.as_text(consumed)))
    if output == "json":
        return _JsonPrinter(as_json)
    if output == "table":
        return _TablePrinter(item, ("topic", *COLUMNS) if has_topics else COLUMNS)
    return Printer(as_yaml if output == "yaml" else as_json)
