"""kafka-console-producer: write a record for each line of stdin."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from minibroker.cli.input import Progress, messages
from minibroker.cli.kafka_tools.arguments import UsageError, client_of, parser, properties
from minibroker.client.producer import Producer
from minibroker.records.compression import Compression
from minibroker.records.record import Headers, Record

ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
_DEFAULTS = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
}


class LineReader:
    """Kafka's LineMessageReader: parses headers, key and value of a line; UsageError with the line number if one is missing."""

    def __init__(self, settings: dict[str, str]) -> None:
        texts = _DEFAULTS | settings
        flags = ("parse.key", "parse.headers", "ignore.error")
        self._has_key, self._has_headers, self._ignores_errors = (texts[name] == "true" for name in flags)
        names = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
        self._key_end, self._headers_end, self._headers_between, self._header_middle = (texts[name].encode() for name in names)
        self._null = settings["null.marker"].encode() if "null.marker" in settings else None
        self._number = 0

    def record(self, line: bytes) -> Record:
        """Return the record of one line."""
        self._number += 1
        headers: Headers = ()
        key: bytes | None = None
        rest: bytes = line
        if self._has_headers:
            before, rest = self._cut(rest, self._headers_end, "headers delimiter")
            headers = () if before is None or self._is_null(before) else tuple(map(self._header, before.split(self._headers_between)))
        if self._has_key:
            before, rest = self._cut(rest, self._key_end, "key separator")
            key = None if before is None or self._is_null(before) else before
        return Record(0, time.time_ns() // 1_000_000, key, None if self._is_null(rest) else rest, headers)

    def _cut(self, text: bytes, separator: bytes, what: str) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignores_errors:
            return None, text
        raise UsageError(f"No {what} found on line number {self._number}: '{text.decode(errors='replace')}'")

    def _header(self, text: bytes) -> tuple[str, bytes | None]:
        name, found, value = text.partition(self._header_middle)
        if not found and not self._ignores_errors:
            raise UsageError(f"No header key separator found in pair '{text.decode(errors='replace')}' on line number {self._number}")
        return name.decode(), None if not found or self._is_null(value) else value

    def _is_null(self, text: bytes) -> bool:
        return self._null is not None and text == self._null


def run(arguments: Sequence[str]) -> int:
    """Send lines as they arrive; 1 for an invalid line or a failure of the broker."""
    options = _parser().parse_args(arguments)
    reader = LineReader(properties([*options.property, *options.reader_property], options.reader_config))
    settings = properties([*options.producer_property, *options.command_property], options.command_config)
    acks = ACKS.get(options.request_required_acks or settings.get("acks", "all"), -1)
    codec = "gzip" if options.compression_codec is None else options.compression_codec or settings.get("compression.type", "none")
    idempotent = settings.get("enable.idempotence", "true") == "true" and acks == -1
    with client_of(options) as client:
        producer = Producer(client, options.topic, acks=acks, idempotent=idempotent, compression=Compression.from_name(codec))
        prompt = _prompter(producer.flush)
        prompt()
        try:
            for line in messages(Path("-"), b"\n", Progress(()), prompt):
                producer.add(reader.record(line.removesuffix(b"\r")))
        finally:  # lines before an invalid line are sent, as in Kafka's tool
            producer.flush()
    return 0


def _prompter(flush: Callable[[], None]) -> Callable[[], None]:
    """Return the function to call while there is no input: it flushes, and prints a prompt on a terminal."""
    if not sys.stdin.isatty():
        return flush

    def prompt() -> None:
        flush()
        print(">", end="", flush=True)

    return prompt


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser("kafka-console-producer", "This tool helps to read data from standard input and publish it to Kafka.")
    tool_parser.add_argument("--bootstrap-server", "--broker-list", required=True, metavar="HOST:PORT,...")
    tool_parser.add_argument("--topic", required=True)
    for name in ("property", "reader-property", "producer-property", "command-property"):
        tool_parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE")
    tool_parser.add_argument("--reader-config", type=argparse.FileType("rb"))
    tool_parser.add_argument("--command-config", "--producer.config", dest="command_config", type=argparse.FileType("rb"))
    tool_parser.add_argument("--compression-codec", nargs="?", default="", help="none, gzip (also without a value), snappy, lz4 or zstd.")
    tool_parser.add_argument("--request-required-acks", choices=list(ACKS))
    tool_parser.add_argument("--sync", action="store_true", help="Accepted; lines are always sent when no more input is available.")
    for name in ("batch-size", "timeout", "request-timeout-ms", "max-block-ms", "max-memory-bytes", "max-partition-memory-bytes"):
        tool_parser.add_argument(f"--{name}", type=int, help="Accepted; the client chooses its batch sizes itself.")
    for name in ("message-send-max-retries", "metadata-expiry-ms", "retry-backoff-ms", "socket-buffer-size"):
        tool_parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    tool_parser.add_argument("--line-reader", help=argparse.SUPPRESS, choices=["org.apache.kafka.tools.LineMessageReader"])
    return tool_parser
