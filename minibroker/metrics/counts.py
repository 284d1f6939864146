"""What a broker with metrics counts: plain integers and lists, without locks, read by a scrape on the same thread."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, Final

from minibroker.errors import InvalidTopicException, TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition

#: upper bounds of the buckets in seconds; the last bucket has no bound
BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TIMED_MAX: Final = 256  #: requests whose times are counted before the weight doubles
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
    """What is counted for one version of an API. Generated code does it (counting.py)."""

    __slots__ = ("api", "codes", "request_bytes", "requests", "response_bytes", "timed_at", "timed_count", "weight")

    def __init__(self, api: ApiCounts) -> None:
        self.api = api
        self.clear()

    def clear(self) -> None:
        """Start again from 0."""
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.codes = 0  #: error codes in responses; of partitions in Produce and Fetch only those of errors
        self.time_all()

    def time_all(self) -> None:
        """Put the times of every request into the histograms, until there are many."""
        self.weight = 1  #: requests for which the times of one are counted
        self.timed_at = 0  #: the number of the next request whose times are counted
        self.timed_count = 0  #: requests whose times were counted with this weight

    def time_next(self) -> int:
        """Choose the next request whose times are counted. Returns the weight of the present one."""
        weight = self.weight
        self.timed_at = self.requests + weight
        self.timed_count += 1
        if self.timed_count >= TIMED_MAX:
            self.timed_count = 0
            self.weight = min(2 * weight, WEIGHT_MAX)
        return weight


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
