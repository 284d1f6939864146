"""Counting codecs produce the same bytes as those that do not count, and count what the frames of real brokers and clients contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.dispatch.plan import Plan
from minibroker.dispatch.registry import Handler
from minibroker.metrics.counting import count
from minibroker.metrics.counts import NO_TOPIC, ApiCounts, PlanCounts, TopicTable
from minibroker.schemas import k00_produce, k01_fetch
from minibroker.wire import codec
from minibroker.wire.api import api_of
from minibroker.wire.codec import EncodedArray
from minibroker.wire.schema import Struct, fields_of
from tests.golden import Golden, all_golden
from tests.support.failing import failing

FRAMES = [golden for golden in sorted(all_golden().values()) if golden.version <= golden.schema.VERSIONS[1]]
STEMS = sorted({golden.stem for golden in FRAMES})


class Counted:
    """A plan that counts, and its counts."""

    def __init__(self, stem_of: Golden) -> None:
        self.topics = TopicTable()
        api = api_of(stem_of.schema)
        of_topics = {k00_produce.API_KEY: self.topics.produced, k01_fetch.API_KEY: self.topics.fetched}.get(api.key, int)
        self.api_counts = ApiCounts(api.name, of_topics)
        self.timed = 0
        self.plan = Plan(Handler(api, _unused), stem_of.version)
        self.counts = self.api_counts.plans[0, stem_of.version] = PlanCounts(self.api_counts, self.time, is_flexible=stem_of.flexible)
        count(self.plan, self.counts, self.topics)

    def time(self) -> None:
        self.timed += 1


def _unused(_ctx: Any, _request: Any) -> Any:
    raise NotImplementedError


def codes_of(value: Any, version: int) -> Iterator[int]:
    """All error codes, by a walk of their own."""
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if field.tag is not None or not field.in_version(version):
            continue
        if field.name.endswith("error_code"):
            yield content
        elif isinstance(content, Struct):
            yield from codes_of(content, version)
        elif isinstance(content, list):
            for each in content:
                if isinstance(each, Struct):
                    yield from codes_of(each, version)


def has_codes(struct: type[Any], version: int) -> bool:
    fields = [field for field in fields_of(struct) if field.tag is None and field.in_version(version)]
    inner = [field.struct for field in fields if field.struct is not None]
    return any(field.name.endswith("error_code") for field in fields) or any(has_codes(each, version) for each in inner)


def check(golden: Golden) -> None:
    counted = Counted(golden)
    plan, counts = counted.plan, counted.counts
    if golden.direction == "request":
        plan.decode(memoryview(golden.frame), len(golden.frame), int.from_bytes(golden.frame[8:10], "big", signed=True))
        assert (counts.requests, counts.request_bytes) == (1, len(golden.frame))
        assert counted.timed == 1
        return
    response = golden.decode()
    expected = list(codes_of(response, golden.version))
    if golden.api_key == k01_fetch.API_KEY and golden.version < 7:
        expected.append(0)  # of the session, for which these versions have no place: Apache Kafka counts it
    elif not has_codes(type(response), golden.version):
        expected.append(0)
    plain = codec.encode_chunks(response, golden.version, flexible=golden.flexible)
    chunks = plan.encode(response, 7)
    assert b"".join(chunks).endswith(b"".join(plain))
    assert {code: number for code, number in counted.api_counts.errors.items() if number} == Counter(expected)
    topics = getattr(response, "responses", None)
    if golden.api_key in {k00_produce.API_KEY, k01_fetch.API_KEY} and topics:
        total = sum(each.produces + each.fetches for each in counted.topics.values())
        partitions = [each for topic in topics for each in getattr(topic, "partitions", None) or topic.partition_responses]
        assert total == sum(each.error_code not in NO_TOPIC for each in partitions)
        assert sum(each.bytes_out for each in counted.topics.values()) == sum(
            len(getattr(each, "records", None) or b"") for each in partitions
        )


@pytest.mark.parametrize("stem", STEMS)
def test_frames_are_counted(stem: str) -> None:
    assert failing((each for each in FRAMES if each.stem == stem), check, lambda golden: golden.name) == {}


def long_response(stem: str) -> tuple[Counted, Any]:
    """A response with a topic and two partitions, one of which failed."""
    golden = next(each for each in reversed(FRAMES) if each.stem == stem and each.direction == "response" and each.version < 13)
    if stem == "k00_produce":
        results = [k00_produce.PartitionResult(index=index, error_code=index * 7, base_offset=0) for index in range(2)]
        return Counted(golden), k00_produce.Response(responses=[k00_produce.TopicResult(name="orders", partition_responses=results)])
    parts = [
        k01_fetch.PartitionResult(partition_index=index, error_code=index * 6, high_watermark=1, records=b"x" * 9 if not index else None)
        for index in range(2)
    ]
    return Counted(golden), k01_fetch.Response(responses=[k01_fetch.TopicResult(topic="orders", partitions=parts)])


@pytest.mark.parametrize("stem", ["k00_produce", "k01_fetch"])
def test_what_the_codec_encodes_is_counted_as_well(stem: str) -> None:
    """Generated code leaves a value that it cannot encode to the codec."""
    counted, response = long_response(stem)
    other, same = long_response(stem)
    counted.plan.encode(response, 0)
    other.plan._encode.__globals__["definition"](same)
    assert other.api_counts.errors == counted.api_counts.errors
    assert len(other.topics) == len(counted.topics) == 1
    for name in ("produces", "failed_produces", "fetches", "failed_fetches", "bytes_out"):
        assert getattr(other.topics["orders"], name) == getattr(counted.topics["orders"], name)


def test_arrays_that_are_encoded_already_are_left_out() -> None:
    counted, response = long_response("k01_fetch")
    response.responses = EncodedArray(0, [])
    counted.plan.encode(response, 0)
    assert counted.api_counts.errors == {0: 1}
    assert not counted.topics


def test_topics_that_are_gone_stay_in_the_totals() -> None:
    counted, response = long_response("k00_produce")
    counted.plan.encode(response, 0)
    counted.topics.forget("orders")
    assert counted.api_counts.errors == {0: 1, 7: 1}


def test_times_of_fewer_requests_are_measured_under_load() -> None:
    weights: list[int] = []
    counts = PlanCounts(ApiCounts("Heartbeat"), lambda: weights.append(counts.weight), is_flexible=True)
    for number in range(20_000):
        counts.count_request(number % 3)
        if number in {70, 71, 9000}:  # a scrape may read in the middle of a round, and twice
            assert counts.requests == counts.requests == number + 1
    assert (counts.requests, counts.request_bytes) == (20_000, sum(number % 3 for number in range(20_000)))
    assert weights[:64] == [1] * 64
    assert (weights[64], counts.weight) == (2, 128)
    assert 20_000 <= sum(weights) < 20_128
    counts.time_all()
    counts.count_request(5)
    assert (weights[-1], counts.requests) == (1, 20_001)


def test_error_codes_of_a_round_are_summed_up() -> None:
    counts = PlanCounts(ApiCounts("ListOffsets"), lambda: None, is_flexible=True)
    counts.code_counts += [4, 2]  # for three elements and for one
    counts.count_codes(2)
    assert counts.codes == counts.codes == 6
    counts.clear()
    assert (counts.codes, counts.requests) == (0, 0)
