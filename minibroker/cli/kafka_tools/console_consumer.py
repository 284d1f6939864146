"""kafka-console-consumer: print records of topics to stdout, with --group as a member of a group."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from minibroker.cli.kafka_tools.arguments import UsageError, client_of, parser, properties
from minibroker.client.client import Client
from minibroker.client.consumer import ConsumedRecord
from minibroker.client.offsets import EARLIEST, ISOLATION_LEVELS, LATEST, list_offsets
from minibroker.client.reading import GroupReader, Reader, TopicsReader
from minibroker.client.routing import TopicPartition
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.log.log_config import LONG_MAX
from minibroker.records.batch import INT32_MAX, TimestampType

POLL_MS = 200
_TYPES = {TimestampType.CREATE_TIME: b"CreateTime", TimestampType.LOG_APPEND_TIME: b"LogAppendTime"}
_NUMBER = re.compile(r"(Long|Integer|Short)Deserializer$")
_BYTES = re.compile(r"(^|(String|ByteArray|ByteBuffer|Bytes)Deserializer)$")
_INT = re.compile(r"[+-]?[0-9]{1,10}")
_COMMIT_INTERVAL_MS = 5_000  #: Kafka's default of auto.commit.interval.ms


class Formatter:
    """Kafka's DefaultMessageFormatter: the parts of a record to print, and their separators."""

    def __init__(self, settings: dict[str, str]) -> None:
        def is_on(name: str, *, default: bool = False) -> bool:
            return settings.get(name, str(default)).strip().lower() == "true"

        names = ("print.timestamp", "print.partition", "print.offset", "print.headers", "print.key")
        self._timestamp, self._partition, self._offset, self._headers, self._key = map(is_on, names)
        self._value = is_on("print.value", default=True)
        self._between = settings.get("key.separator", "\t").encode()
        self._end = settings.get("line.separator", "\n").encode()
        self._between_headers = settings.get("headers.separator", ",").encode()
        self._null = settings.get("null.literal", "null").encode()
        self._key_text, self._value_text = (_deserializer(settings.get(f"{part}.deserializer", "")) for part in ("key", "value"))

    def __call__(self, consumed: ConsumedRecord) -> bytes:
        """Return one record as bytes."""
        record = consumed.record
        parts = []
        if self._timestamp:
            parts.append(b"%s:%d" % (_TYPES[consumed.timestamp_type], record.timestamp))
        if self._partition:
            parts.append(b"Partition:%d" % consumed.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            pairs = [name.encode() + b":" + (self._null if value is None else value) for name, value in record.headers]
            parts.append(self._between_headers.join(pairs) if pairs else b"NO_HEADERS")
        if self._key:
            parts.append(self._null if record.key is None else self._key_text(record.key))
        if self._value:
            parts.append(self._null if record.value is None else self._value_text(record.value))
        return self._between.join(parts) + self._end


def _deserializer(deserializer: str) -> Callable[[bytes], bytes]:
    """Return the function that formats a value: numbers as text, other bytes unchanged; UsageError for other classes."""
    if _NUMBER.search(deserializer):
        return lambda content: b"%d" % int.from_bytes(content, "big", signed=True)
    if _BYTES.search(deserializer) is None:
        raise UsageError(f"{deserializer} is not supported: give Kafka's deserializer for String, ByteArray, Long, Integer or Short")
    return bytes


def run(arguments: Sequence[str]) -> int:
    """Print records up to a count, until none arrives for too long, or forever."""
    options = _parser().parse_args(arguments)
    if (options.topic is None) == (options.include is None):
        raise UsageError("Exactly one of --include/--topic is required.")
    if options.offset is not None and options.partition is None:
        raise UsageError("The partition is required when offset is specified.")
    _check_offset(options.offset)
    settings = properties([*options.consumer_property, *options.command_property], options.command_config)
    commit_interval_ms = _commit_interval_ms(settings)
    isolation = _isolation(settings.get("isolation.level", options.isolation_level))
    group = options.group or settings.get("group.id")
    formatter = Formatter(properties([*options.property, *options.formatter_property], options.formatter_config))
    count = 0
    with client_of(options) as client:
        topics = _topics(client, options)
        reset = EARLIEST if options.from_beginning or settings.get("auto.offset.reset") == "earliest" else LATEST
        if group and options.partition is None:
            source: Reader = GroupReader(
                client,
                group,
                topics,
                lambda keys: _offsets(client, keys, reset, isolation),
                isolation=isolation,
                commit_interval_ms=commit_interval_ms,
            )
        else:
            source = TopicsReader(client, _starts(client, topics, options, reset, isolation), isolation=isolation)
        try:
            for each in _until(source, options.max_messages, options.timeout_ms):
                sys.stdout.buffer.write(formatter(each))
                source.consumed(each)
                count += 1
        except KeyboardInterrupt:
            pass
        finally:
            sys.stdout.buffer.flush()
            source.close()
    print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser("kafka-console-consumer", "This tool helps to read data from Kafka topics and outputs it to standard output.")
    tool_parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT,...")
    tool_parser.add_argument("--topic")
    tool_parser.add_argument("--include", "--whitelist", metavar="REGEX")
    tool_parser.add_argument("--partition", type=int)
    tool_parser.add_argument("--offset", help="earliest, latest or a number; with --partition.")
    tool_parser.add_argument("--from-beginning", action="store_true")
    tool_parser.add_argument("--max-messages", type=int, default=-1)
    tool_parser.add_argument("--timeout-ms", type=int, default=-1, help="Exit if no record arrives for this time.")
    tool_parser.add_argument("--group")
    tool_parser.add_argument("--isolation-level", choices=list(ISOLATION_LEVELS), default="read_uncommitted")
    for name in ("property", "formatter-property", "consumer-property", "command-property"):
        tool_parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE")
    tool_parser.add_argument("--formatter-config", type=argparse.FileType("rb"))
    tool_parser.add_argument("--command-config", "--consumer.config", dest="command_config", type=argparse.FileType("rb"))
    tool_parser.add_argument("--skip-message-on-error", action="store_true", help="Accepted: bytes are printed as they are.")
    return tool_parser


def _topics(client: Client, options: argparse.Namespace) -> list[str]:
    if options.topic is not None:
        return [client.topic(options.topic, create=True).name or ""]
    try:
        pattern = re.compile(options.include)
    except re.error as error:
        raise UsageError(f"{options.include} is an invalid regex.") from error
    found = [topic.name or "" for topic in client.metadata(None).topics if pattern.fullmatch(topic.name or "") and not topic.is_internal]
    if not found:
        raise UnknownTopicOrPartition(f"topics: none matches {options.include}")
    return sorted(found)


def _starts(client: Client, topics: Sequence[str], options: argparse.Namespace, reset: int, isolation: int) -> dict[TopicPartition, int]:
    """Return where to start all partitions, or the one of --partition."""
    keys: list[TopicPartition] = []
    for topic in topics:
        partitions = [partition.partition_index for partition in client.topic(topic).partitions]
        if options.partition is not None and options.partition not in partitions:
            raise UnknownTopicOrPartition(f"topic {topic} has no partition {options.partition}")
        keys += [(topic, index) for index in (partitions if options.partition is None else [options.partition])]
    start = {"earliest": EARLIEST, "latest": LATEST, None: reset}.get(options.offset)
    if start is None:
        return dict.fromkeys(keys, int(options.offset))
    return _offsets(client, keys, start, isolation)


def _commit_interval_ms(settings: dict[str, str]) -> int | None:
    """Return the interval from the consumer's properties; None to commit nothing. UsageError with Kafka's message."""
    name = "auto.commit.interval.ms"
    text = settings.get(name, str(_COMMIT_INTERVAL_MS)).strip()
    if _INT.fullmatch(text) is None or not -INT32_MAX - 1 <= int(text) <= INT32_MAX:
        raise UsageError(f"Invalid value {text} for configuration {name}: Not a number of type INT")
    if int(text) < 0:
        raise UsageError(f"Invalid value {text} for configuration {name}: Value must be at least 0")
    return None if settings.get("enable.auto.commit", "true").lower() == "false" else int(text)


def _isolation(name: str) -> int:
    if name not in ISOLATION_LEVELS:
        raise UsageError(f"Invalid value {name} for configuration isolation.level: String must be one of: read_committed, read_uncommitted")
    return ISOLATION_LEVELS[name]


def _check_offset(text: str | None) -> None:
    is_number = text is not None and text.isascii() and text.isdigit() and int(text) <= LONG_MAX
    if text not in {None, "earliest", "latest"} and not is_number:
        raise UsageError(f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.")


def _offsets(client: Client, keys: Sequence[TopicPartition], at: int, isolation: int) -> dict[TopicPartition, int]:
    found = {}
    for key, answer in list_offsets(client, dict.fromkeys(keys, at), isolation=isolation).items():
        if isinstance(answer, KafkaError):
            raise answer
        found[key] = answer.offset
    return found


def _until(source: Reader, max_messages: int, timeout_ms: int) -> Iterator[ConsumedRecord]:
    count, last_record_s = 0, time.monotonic()
    while count != max_messages:
        for consumed in source.poll(POLL_MS):
            last_record_s = time.monotonic()
            yield consumed
            count += 1
            if count == max_messages:
                return
        sys.stdout.buffer.flush()
        if timeout_ms >= 0 and (time.monotonic() - last_record_s) * 1000 >= timeout_ms:
            print("Error processing message, terminating consumer process: TimeoutException", file=sys.stderr)
            return
