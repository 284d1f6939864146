"""What a broker with metrics counts: plain integers and lists, without locks, read by a scrape on the same thread."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import length_hint
from typing import Any, Final

from minibroker.errors import InvalidTopicException, TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition

#: upper bounds of the buckets in seconds; the last bucket has no bound
BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TIMED_MAX: Final = 64  #: requests whose times are counted before the weight doubles
WEIGHT_MAX: Final = 128
TOPICS_MAX: Final = 65_536  #: topics that are counted; a scrape forgets those that are gone
#: errors of topics that do not exist or are not shown: a client may name any number of them
NO_TOPIC: Final = frozenset({UnknownTopicOrPartition.code, InvalidTopicException.code, UnknownTopicId.code, TopicAuthorizationFailed.code})


class Times:
    """A histogram of durations."""

    __slots__ = ("buckets", "total_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total_s = 0.0

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.buckets)

    def add(self, duration_s: float, weight: int = 1) -> None:
        """Count one, which stands for `weight` of them."""
        self.buckets[bisect_left(BOUNDS, duration_s)] += weight
        self.total_s += duration_s * weight

    def quantile(self, part: float) -> float:
        """Return the duration below which `part` of all lie, interpolated within its bucket; 0 if there is none."""
        rank, below = part * self.count, 0
        for index, count in enumerate(self.buckets):
            if count and below + count >= rank:
                low = BOUNDS[index - 1] if index else 0.0
                high = BOUNDS[index] if index < len(BOUNDS) else BOUNDS[-1]
                return low + (high - low) * (rank - below) / count
            below += count
        return 0.0


class PlanCounts:
    """What is counted for one version of an API.

    Generated code (counting.py) notes requests and codes with as few instructions as there are, and they are summed up later: requests come
    in rounds, whose first one has its times counted and stands for the others. `sizes[next(places)] = size` notes a request. `places`
    is an iterator of C, which resumes `_rounds` once in a round. (Its `__next__` as a function takes three times as long as `next`.)
    """

    __slots__ = (
        "_codes", "_places", "_request_bytes", "_requests", "_summed", "_timed_count", "api", "code_counts", "is_flexible",
        "places", "response_bytes", "sizes", "time", "weight",
    )  # fmt: skip

    def __init__(self, api: ApiCounts, time: Callable[[], object], *, is_flexible: bool) -> None:
        """Start at 0.

        Args:
            api: counts all versions.
            time: measures the times of the request that is about to be served.
            is_flexible: of the version.
        """
        self.api = api
        self.time = time
        self.is_flexible = is_flexible
        self.sizes = [0] * WEIGHT_MAX  #: bytes of the requests of this round
        self.code_counts: list[int] = []  #: numbers of error codes in responses of this round; in a flexible version one more
        self.places: Iterator[int] = chain.from_iterable(self._rounds())
        self._places: Iterator[int] = iter(())  #: that are left of this round
        self._summed = 1  #: places of this round that are in the totals
        self.weight = 1  #: requests of this round
        self._requests = self._request_bytes = self._codes = 0
        self.clear()

    def clear(self) -> None:
        """Start again from 0."""
        self.time_all()
        self._requests = self._request_bytes = self._codes = 0
        self.response_bytes = 0  #: estimated from the responses whose times are counted

    def time_all(self) -> None:
        """Put the times of every request into the histograms, until there are many."""
        self._sum_up()
        deque(self._places, 0)  # the round is over
        self.weight = self._summed = 1
        self._timed_count = 0  #: rounds with this weight

    def count_request(self, size: int) -> None:
        """Count a request that no generated function counts."""
        self.sizes[next(self.places)] = size

    def count_codes(self, count: int) -> None:
        """Count error codes that no generated function counts."""
        self._codes += count

    @property
    def requests(self) -> int:
        """The number of requests."""
        self._sum_up()
        return self._requests

    @property
    def request_bytes(self) -> int:
        """Bytes of requests."""
        self._sum_up()
        return self._request_bytes

    @property
    def codes(self) -> int:
        """Error codes in responses; of partitions in Produce and Fetch only those of errors."""
        self._sum_up()
        return self._codes

    def _rounds(self) -> Iterator[Iterator[int]]:
        """Yield the places of each round."""
        while True:
            self._sum_up()
            if self._timed_count == TIMED_MAX:
                self._timed_count = 0
                self.weight = min(2 * self.weight, WEIGHT_MAX)
            self._timed_count += 1
            self._places, self._summed = iter(range(self.weight)), 0
            self.time()
            yield self._places

    def _sum_up(self) -> None:
        """Add what was noted to the totals."""
        noted = self.weight - length_hint(self._places)
        self._requests += noted - self._summed
        self._request_bytes += sum(self.sizes[self._summed : noted])
        self._summed = noted
        self._codes += sum(self.code_counts) - self.is_flexible * len(self.code_counts)
        self.code_counts.clear()


class ApiCounts:
    """What is counted for one API."""

    __slots__ = ("failures", "local", "name", "of_topics", "plans", "queue", "remote", "response_queue", "send", "total")

    def __init__(self, name: str, of_topics: Callable[[], int] = int) -> None:
        """Start at 0. `of_topics` returns the number of partitions that succeeded, which are counted by topic."""
        self.name = name
        self.of_topics = of_topics
        self.plans: dict[tuple[int, int], PlanCounts] = {}  #: by broker id and version
        self.failures: dict[int, int] = {}  #: by error code; each code of a response counts, as in Apache Kafka
        self.clear()

    def clear(self) -> None:
        """Start again from 0."""
        for counts in self.plans.values():
            counts.clear()
        self.failures.clear()
        self.queue, self.local, self.remote = Times(), Times(), Times()
        self.response_queue, self.send, self.total = Times(), Times(), Times()

    @property
    def requests(self) -> dict[int, int]:
        """Requests by version."""
        found: dict[int, int] = {}
        for (_, version), counts in self.plans.items():
            found[version] = found.get(version, 0) + counts.requests
        return found

    @property
    def errors(self) -> dict[int, int]:
        """Error codes in responses, 0 for success."""
        codes = sum(counts.codes for counts in self.plans.values()) + self.of_topics()
        return {0: codes - sum(self.failures.values()), **self.failures}

    @property
    def request_bytes(self) -> int:
        """Bytes of requests."""
        return sum(counts.request_bytes for counts in self.plans.values())

    @property
    def response_bytes(self) -> int:
        """Bytes of responses."""
        return sum(counts.response_bytes for counts in self.plans.values())


class TopicCounts:
    """What is counted for one topic, each partition of a request on its own, as in Apache Kafka."""

    __slots__ = ("bytes_out", "produces", "failed_produces", "fetches", "failed_fetches")  # noqa: RUF023  the order of the constructor

    def __init__(self, bytes_out: int = 0, produces: int = 0, failed_produces: int = 0, fetches: int = 0, failed_fetches: int = 0) -> None:
        self.bytes_out = bytes_out
        self.produces = produces
        self.failed_produces = failed_produces
        self.fetches = fetches
        self.failed_fetches = failed_fetches

    def values(self) -> tuple[int, ...]:
        """Return all counts, in the order of the constructor."""
        return self.bytes_out, self.produces, self.failed_produces, self.fetches, self.failed_fetches

    def add(self, other: TopicCounts) -> None:
        """Add the counts of another topic."""
        TopicCounts.__init__(self, *map(sum, zip(self.values(), other.values(), strict=True)))


class TopicTable(dict[Any, TopicCounts]):
    """The counts of topics, by name or, where requests have ids, by the number of the id."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Start again from 0."""
        super().clear()
        self.others = TopicCounts()  #: topics that are gone, or too many
        self.unanswered = 0  #: partitions of Produce requests with acks=0

    def forget(self, key: Any) -> None:
        """Drop a topic that is gone."""
        self.others.add(self.pop(key))

    def new(self, key: Any, codes: Iterable[int]) -> TopicCounts:
        """Return the counts of a topic that is not in the table. `codes`: the error codes of its partitions in a response."""
        if NO_TOPIC.issuperset(codes):
            return TopicCounts()
        if len(self) >= TOPICS_MAX:
            return self.others
        counts = self[key] = TopicCounts()
        return counts

    def produced(self) -> int:
        """Return the number of partitions in answers to Produce requests without an error."""
        return sum(each.produces - each.failed_produces for each in (self.others, *self.values())) - self.unanswered

    def fetched(self) -> int:
        """Return the number of partitions in answers to Fetch requests without an error."""
        return sum(each.fetches - each.failed_fetches for each in (self.others, *self.values()))
