"""Counting decoders and encoders: what `wire/compiled.py` generates, with statements that count.

A decoder writes the size of each request to a list, `sizes[next(places)] = end`, which is summed up when it is full (counts.py). An encoder
counts error codes and the partitions of each topic. What the encoder of Produce v9 has in addition (shortened):

    try:
        topic1 = topics[item6.name]
    except KeyError:
        topic1 = new_topic(item6.name, item6.partition_responses)
    for item8 in items7:
        ...
        if item8.error_code:
            fail(item8.error_code, topic1)
    topic1.produces += n9 - 1

A message that the generated function leaves to the codec (a long one, most of all) is counted by `tally`, which is slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, NamedTuple, cast

from minibroker.dispatch.plan import Plan
from minibroker.metrics.counts import NO_TOPIC, PlanCounts, TopicCounts, TopicTable
from minibroker.schemas import k00_produce, k01_fetch
from minibroker.wire.api import Api
from minibroker.wire.codec import sent_fields
from minibroker.wire.compiled_decoder import compile_decoder
from minibroker.wire.compiled_encoder import compile_encoder
from minibroker.wire.schema import Buffer, fields_of
from minibroker.wire.source import Extra, Path

TOPIC_IDS_SINCE: Final = 13  #: of Produce and Fetch
_CODE: Final = "error_code"

_TEMPLATES: Final[dict[tuple[int, int, bool], tuple[FunctionType, FunctionType]]] = {}


class _Topics(NamedTuple):
    """How the topics of a response are counted."""

    topic: type[Any]  #: struct
    partition: type[Any]  #: struct
    partitions: str  #: field of the topic
    total: str  #: field of TopicCounts
    failed: str  #: likewise
    has_records: bool


_TOPICS: Final = {
    k00_produce.API_KEY: _Topics(
        k00_produce.TopicResult, k00_produce.PartitionResult, "partition_responses", "produces", "failed_produces", has_records=False
    ),
    k01_fetch.API_KEY: _Topics(
        k01_fetch.TopicResult, k01_fetch.PartitionResult, "partitions", "fetches", "failed_fetches", has_records=True
    ),
}


def count(plan: Plan, counts: PlanCounts, topics: TopicTable) -> None:
    """Let a plan count its requests and responses."""
    api, version = plan.api, plan.version
    tally = _Tally(plan, counts, topics)
    decode, encode = _templates(api, version, plan.flexible)
    define_request, define_response = decode.__globals__["definition"], encode.__globals__["definition"]

    def decode_slowly(data: Buffer, start: int) -> tuple[Any, int]:
        value, end = define_request(data, start)
        counts.count_request(len(data))
        return value, end

    def encode_slowly(value: Any) -> list[Buffer]:
        chunks: list[Buffer] = define_response(value)
        tally.count(value)
        return chunks

    own = {
        "sizes": counts.sizes,
        "places": counts.places,
        "codes": counts.code_counts.append,
        "topics": topics,
        "fail": tally.fail,
        "new_topic": tally.new_topic,
    }
    # Each copy has its own code: Python keeps what it learns about the globals of a function with its code.
    plan.count(
        counts,
        FunctionType(decode.__code__.replace(), decode.__globals__ | own | {"definition": decode_slowly}),
        FunctionType(encode.__code__.replace(), encode.__globals__ | own | {"definition": encode_slowly}),
        tally.count_unanswered,
    )


def _templates(api: Api, version: int, flexible: bool) -> tuple[FunctionType, FunctionType]:
    """Generate both functions. `count` gives each plan a copy with its own counts: compiling takes milliseconds."""
    key = api.key, version, flexible
    if key not in _TEMPLATES:
        of_topics = _TOPICS.get(api.key)
        extra = _of_codes(version, flexible) if of_topics is None else _of_topics(of_topics, version, flexible)
        decode = compile_decoder(api.Request, version, flexible, Extra(at_end=("sizes[next(places)] = end",)))
        encode = compile_encoder(api.Response, version, flexible, extra)
        _TEMPLATES[key] = cast("FunctionType", decode), cast("FunctionType", encode)
    return _TEMPLATES[key]


def _of_codes(version: int, flexible: bool) -> Extra:
    """Return statements that count all error codes. A response that has no place for one counts as a success.

    A flexible version notes one more than each number of codes, as it has one more than the number of elements in a variable.
    """

    def after_struct(path: Path) -> Iterator[str]:
        struct, value = path[-1]
        names = _codes_of(struct, version)
        if len(path) == 1 and (names or not _has_codes(struct, version)):
            yield f"codes({(len(names) or 1) + flexible})"
        for array, is_nullable, count in _arrays_of(struct, version):
            if is_nullable or count > 1:
                yield f"codes(len({value}.{array} or ()) * {count} + {int(flexible)})"
        for name in names:
            yield f"if {value}.{name}:\n    fail({value}.{name})"

    def after_array(path: Path, array: str, length: str) -> Iterator[str]:
        if (array, False, 1) in _arrays_of(path[-1][0], version):
            yield f"codes({length})"

    return Extra(after_struct=after_struct, after_array=after_array)


def _of_topics(names: _Topics, version: int, flexible: bool) -> Extra:
    """Return statements that count the partitions of each topic, and a code of the whole response."""

    def before_struct(path: Path) -> Iterator[str]:
        struct, value = path[-1]
        if struct is names.topic:
            key = f"{value}.{_key_of(struct, version)}"
            yield f"try:\n    of_{value} = topics[{key}]"
            yield f"except KeyError:\n    of_{value} = new_topic({key}, {value}.{names.partitions})"

    def after_struct(path: Path) -> Iterator[str]:
        struct, value = path[-1]
        if struct is names.partition:
            yield f"if {value}.error_code:\n    fail({value}.error_code, of_{path[-2][1]})"
        elif len(path) == 1 and names.has_records:
            yield f"codes({1 + flexible})\nif {value}.error_code:\n    fail({value}.error_code)"

    def after_array(path: Path, _: str, length: str) -> Iterator[str]:
        struct, value = path[-1]
        if struct is names.topic:
            yield f"of_{value}.{names.total} += {length}{' - 1' * flexible}"

    def at_records(path: Path, records: str) -> Iterator[str]:
        yield f"of_{path[-2][1]}.bytes_out += len({records})"

    return Extra(before_struct, after_struct, after_array, at_records)


def _key_of(topic: type[Any], version: int) -> str:
    """Return the expression for the key of a topic in the table. The number of an id is compared much faster than the id."""
    if version >= TOPIC_IDS_SINCE:
        return "topic_id.int"
    return "topic" if any(field.name == "topic" for field in fields_of(topic)) else "name"


def key_of_topic(topic: Any, version: int) -> Any:
    """Return the key of a topic of a request or response of Produce or Fetch."""
    return attrgetter(_key_of(type(topic), version))(topic)


def _codes_of(struct: type[Any], version: int) -> list[str]:
    """Return the fields of a struct that are error codes."""
    return [field.name for field in sent_fields(struct, version) if field.name.endswith("error_code")]


def _arrays_of(struct: type[Any], version: int) -> list[tuple[str, bool, int]]:
    """Return the arrays whose elements have error codes: name, whether it may be null, and how many codes an element has."""
    found = []
    for field in sent_fields(struct, version):
        if field.is_array and field.struct is not None:
            count = len(_codes_of(field.struct, version))
            if count:
                found.append((field.name, field.null_in(version), count))
    return found


def _has_codes(struct: type[Any], version: int) -> bool:
    """Whether a struct or what it contains has error codes."""
    inner = [field.struct for field in sent_fields(struct, version) if field.struct is not None]
    return bool(_codes_of(struct, version)) or any(_has_codes(each, version) for each in inner)


class _Tally:
    """Counts what generated code leaves to it: errors, new topics, and responses that the codec encodes."""

    def __init__(self, plan: Plan, counts: PlanCounts, topics: TopicTable) -> None:
        self._api_key = plan.api.key
        self._version = plan.version
        self._names = _TOPICS.get(plan.api.key)
        self._counts = counts
        self._topics = topics

    def fail(self, code: int, of_topic: TopicCounts | None = None) -> None:
        """Count an error, of a partition if there is a topic."""
        failures, names = self._counts.api.failures, self._names
        failures[code] = failures.get(code, 0) + 1
        if of_topic is None or names is None:
            return
        self._counts.count_codes(1)
        if code in NO_TOPIC:
            setattr(of_topic, names.total, getattr(of_topic, names.total) - 1)
        else:
            setattr(of_topic, names.failed, getattr(of_topic, names.failed) + 1)

    def count_unanswered(self, request: Any) -> None:
        """Count a request that gets no answer. Of Produce with acks=0, no partition failed: that would have closed the connection."""
        if self._api_key == k00_produce.API_KEY:
            for topic in request.topic_data:
                count = len(topic.partition_data)
                key = key_of_topic(topic, self._version)
                (self._topics.get(key) or self._topics.new(key, (0,))).produces += count
                self._topics.unanswered += count

    def new_topic(self, key: Any, partitions: Iterable[Any]) -> TopicCounts:
        """Return the counts of a topic that is not in the table."""
        return self._topics.new(key, [each.error_code for each in partitions])

    def count(self, response: Any) -> None:
        """Count a response, except in arrays that are encoded already."""
        names = self._names
        if names is None:
            self._count_codes(response, is_outermost=True)
            return
        if names.has_records:
            self._count_code(response.error_code)
        for topic in response.responses if type(response.responses) is list else ():
            partitions = getattr(topic, names.partitions)
            if type(partitions) is list:
                self._count_topic(names, topic, partitions)

    def _count_topic(self, names: _Topics, topic: Any, partitions: list[Any]) -> None:
        key = key_of_topic(topic, self._version)
        of_topic = self._topics.get(key) or self.new_topic(key, partitions)
        setattr(of_topic, names.total, getattr(of_topic, names.total) + len(partitions))
        for each in partitions:
            if each.error_code:
                self.fail(each.error_code, of_topic)
            if names.has_records and each.records:
                of_topic.bytes_out += len(each.records)

    def _count_codes(self, value: Any, *, is_outermost: bool = False) -> None:
        struct, version = type(value), self._version
        names = _codes_of(struct, version)
        for name in names:
            self._count_code(getattr(value, name))
        if is_outermost and not _has_codes(struct, version):
            self._counts.count_codes(1)
        for field in sent_fields(struct, version):
            elements = getattr(value, field.name) if field.is_array and field.struct is not None else ()
            if type(elements) is list and elements and _has_codes(type(elements[0]), version):
                for each in elements:
                    self._count_codes(each)

    def _count_code(self, code: int) -> None:
        self._counts.count_codes(1)
        if code:
            self.fail(code)
