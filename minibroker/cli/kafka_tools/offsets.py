"""kafka-delete-records and kafka-get-offsets. As in Kafka, deletions that a broker rejects are printed, and the exit code is 0."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, java_name, parser, words_of
from minibroker.client.offsets import delete_records
from minibroker.client.routing import TopicPartition
from minibroker.errors import KafkaError

VERSION = 1  #: of the file format


def run_delete_records(arguments: Sequence[str]) -> int:
    """Delete records below the offsets of a JSON file, with the output of Kafka's DeleteRecordsCommand."""
    tool_parser = parser("kafka-delete-records", "This tool helps to delete records of the given partitions down to the specified offset.")
    add_bootstrap(tool_parser)
    tool_parser.add_argument(
        "--offset-json-file",
        required=True,
        metavar="FILE",
        help='{"partitions": [{"topic": "orders", "partition": 1, "offset": 7}], "version": 1}; offset -1: all records.',
    )
    options = tool_parser.parse_args(arguments)
    try:
        text = Path(options.offset_json_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Unable to read file {options.offset_json_file}") from error
    before = offsets_of(text)
    with client_of(options) as client:
        print("Executing records delete operation")
        done = delete_records(client, before)
        print("Records delete operation completed:")
        for (topic, partition), result in done.items():
            outcome = f"error: {java_name(result)}: {words_of(result)}" if isinstance(result, KafkaError) else f"low_watermark: {result}"
            print(f"partition: {topic}-{partition}\t{outcome}")
    return 0


def offsets_of(text: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition in the file, in its order; UsageError with Kafka's message for an invalid file."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UsageError("The input string is not a valid JSON") from error
    if not isinstance(content, dict):
        raise UsageError(f"Expected JSON object, received {json.dumps(content)}")
    if content.get("version", VERSION) != VERSION:
        raise UsageError(f"Not supported version field value {content['version']}")
    if "partitions" not in content:
        raise UsageError("Missing partitions field")
    found: dict[TopicPartition, int] = {}
    duplicates = []
    for each in _checked(content["partitions"], _ARRAY):
        key = _field(each, "topic", _STRING), _field(each, "partition", _INTEGER)
        if key in found:
            duplicates.append(f"{key[0]}-{key[1]}")
        found[key] = _field(each, "offset", _LONG)
    if duplicates:
        raise UsageError(f"Offset json file contains duplicate topic partitions: {','.join(duplicates)}")
    return found


class _Kind(NamedTuple):
    """The expected kind of a value in the file."""

    name: str  #: Kafka's name
    type: type
    bits: int = 0  #: of a signed number


_STRING = _Kind("`String` value", str)
_INTEGER = _Kind("`Integer` value", int, 32)
_LONG = _Kind("`Long` value", int, 64)
_ARRAY = _Kind("JSON array", list)
_OBJECT = _Kind("JSON object", dict)


def _field(item: Any, name: str, kind: _Kind) -> Any:
    if name not in _checked(item, _OBJECT):
        raise UsageError(f"No such field exists: `{name}`")
    return _checked(item[name], kind)


def _checked(value: Any, kind: _Kind) -> Any:
    has_type = isinstance(value, kind.type) and not isinstance(value, bool)
    if not has_type or (kind.bits and not -(1 << kind.bits - 1) <= value < 1 << kind.bits - 1):
        raise UsageError(f"Expected {kind.name}, received {json.dumps(value)}")
    return value


def run_get_offsets(arguments: Sequence[str]) -> int:
    """Run `minibroker offsets -o shell`, which has GetOffsetShell's options and output: topic:partition:offset."""
    tool_parser = parser("kafka-get-offsets", "An interactive shell for getting topic-partition offsets.")
    add_bootstrap(tool_parser, "--broker-list")
    tool_parser.add_argument("--topic")
    tool_parser.add_argument("--topic-partitions", help="TOPIC:PARTITION,...")
    tool_parser.add_argument("--partitions")
    tool_parser.add_argument("--time", default="latest")
    tool_parser.add_argument("--exclude-internal-topics", action="store_true")
    options = tool_parser.parse_args(arguments)
    from minibroker.cli.offsets import offsets  # noqa: PLC0415  --help does not need it

    command = ["-b", options.bootstrap_server, "-o", "shell", "--time", options.time]
    command += ["--command-config", options.command_config.name] if options.command_config else []
    command += [] if options.exclude_internal_topics else ["--internal"]
    for name in filter(None, (options.topic_partitions or "").split(",")):
        topic, _, partitions = name.partition(":")
        chosen = ["--partitions", _inclusive(partitions)] if partitions else []
        offsets.main([*command, "--topic-pattern", topic, *chosen], standalone_mode=False)
    if not options.topic_partitions:
        command += ["--topic-pattern", options.topic] if options.topic else []
        command += ["--partitions", options.partitions] if options.partitions else []
        offsets.main(command, standalone_mode=False)
    return 0


def _inclusive(partitions: str) -> str:
    """Convert `5` or `0-2` to our form: Kafka's range excludes its last number, ours includes it."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", partitions)
    if match is None or (match[2] and int(match[2]) <= int(match[1])):
        raise UsageError(f"--topic-partitions: {partitions} is neither a partition nor a range such as 0-2, which ends before 2")
    return f"{match[1]}-{int(match[2]) - 1}" if match[2] else match[1]
