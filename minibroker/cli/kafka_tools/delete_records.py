"""kafka-delete-records: deletes records below the offsets of a JSON file. As in Kafka, what a broker refuses is printed and ends with 0."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, parser, words_of
from minibroker.cli.kafka_tools.java_names import java_name
from minibroker.client.leaders import TopicPartition
from minibroker.client.offsets import delete_records
from minibroker.errors import KafkaError

VERSION = 1  #: of the file's form


def run(arguments: Sequence[str]) -> int:
    """Print what Kafka's DeleteRecordsCommand prints."""
    made = parser("kafka-delete-records", "This tool helps to delete records of the given partitions down to the specified offset.")
    add_bootstrap(made)
    made.add_argument(
        "--offset-json-file",
        required=True,
        metavar="FILE",
        help='{"partitions": [{"topic": "orders", "partition": 1, "offset": 7}], "version": 1}; offset -1: all that there is.',
    )
    options = made.parse_args(arguments)
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
            told = f"error: {java_name(result)}: {words_of(result)}" if isinstance(result, KafkaError) else f"low_watermark: {result}"
            print(f"partition: {topic}-{partition}\t{told}")
    return 0


def offsets_of(text: str) -> dict[TopicPartition, int]:
    """The offset of each partition in the file, in its order; UsageError, in Kafka's words, for what is not of its form."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UsageError("The input string is not a valid JSON") from error
    if not isinstance(given, dict):
        raise UsageError(f"Expected JSON object, received {json.dumps(given)}")
    if given.get("version", VERSION) != VERSION:
        raise UsageError(f"Not supported version field value {given['version']}")
    if "partitions" not in given:
        raise UsageError("Missing partitions field")
    found: dict[TopicPartition, int] = {}
    twice = []
    for each in _checked(given["partitions"], _ARRAY):
        key = _field(each, "topic", _STRING), _field(each, "partition", _INTEGER)
        if key in found:
            twice.append(f"{key[0]}-{key[1]}")
        found[key] = _field(each, "offset", _LONG)
    if twice:
        raise UsageError(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return found


class _Kind(NamedTuple):
    """What a value of the file is to be."""

    name: str  #: as Kafka names it
    type: type
    bits: int = 0  #: of a number, with its sign


_STRING = _Kind("`String` value", str)
_INTEGER = _Kind("`Integer` value", int, 32)
_LONG = _Kind("`Long` value", int, 64)
_ARRAY = _Kind("JSON array", list)
_OBJECT = _Kind("JSON object", dict)


def _field(of: Any, name: str, kind: _Kind) -> Any:
    if name not in _checked(of, _OBJECT):
        raise UsageError(f"No such field exists: `{name}`")
    return _checked(of[name], kind)


def _checked(value: Any, kind: _Kind) -> Any:
    is_one = isinstance(value, kind.type) and not isinstance(value, bool)
    if not is_one or (kind.bits and not -(1 << kind.bits - 1) <= value < 1 << kind.bits - 1):
        raise UsageError(f"Expected {kind.name}, received {json.dumps(value)}")
    return value
