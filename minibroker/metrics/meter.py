"""Count requests on their way: plain integers and lists, without locks, read by a scrape on the same thread.

    meter = Meter()
    broker = Broker(config, **meter.parts())

Times of a request, by Kafka's names:

    queue           from the arrival of its last bytes to its handler: other requests were served, and its bytes decoded
    local           the handler
    remote          until its answer was ready, if the handler did not answer: waiting for records, members or a sync
    response queue  from the answer to its write: the other requests of the turn, and answers that must leave before it
    send            the call that passes the bytes to the socket
    total           all of them

The times of the first 256 requests after a scrape are all counted, then those of every second one, and so on, at least of one in 128: it
stands for those before it. Everything else is counted exactly.

What a partition's log knows (records and bytes that were appended) is not counted here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, TypeVar

from minibroker.dispatch.context import RequestContext, Services
from minibroker.dispatch.delayed import Answer, Delayed, MakeResponse
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.plan import Plan
from minibroker.errors import InvalidTopicException, TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition
from minibroker.schemas import k00_produce, k01_fetch
from minibroker.server.connection import Connection
from minibroker.wire.schema import Struct, fields_of

D = TypeVar("D", bound=Dispatcher)

#: upper bounds of the buckets in seconds; the last bucket has no bound
BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOPIC_IDS_SINCE: Final = 13  #: of Produce and Fetch
COUNTED_MAX: Final = 256  #: requests whose times are counted before the weight doubles
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
    """What is counted for one version of an API."""

    __slots__ = ("api", "request_bytes", "requests", "response_bytes", "successes")

    def __init__(self, api: ApiCounts) -> None:
        self.api = api
        self.clear()

    def clear(self) -> None:
        """Start again from 0."""
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.successes = 0  #: error codes 0 in responses


class ApiCounts:
    """What is counted for one API."""

    __slots__ = ("failures", "local", "name", "queue", "remote", "response_queue", "send", "total", "versions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: dict[int, PlanCounts] = {}
        self.failures: dict[int, int] = {}  #: by error code; each code of a response counts, as in Apache Kafka
        self.clear()

    def clear(self) -> None:
        """Start again from 0."""
        for counts in self.versions.values():
            counts.clear()
        self.failures.clear()
        self.queue, self.local, self.remote = Times(), Times(), Times()
        self.response_queue, self.send, self.total = Times(), Times(), Times()

    @property
    def requests(self) -> dict[int, int]:
        """Requests by version."""
        return {version: counts.requests for version, counts in self.versions.items()}

    @property
    def errors(self) -> dict[int, int]:
        """Error codes in responses, 0 for success."""
        return {0: sum(counts.successes for counts in self.versions.values()), **self.failures}

    @property
    def request_bytes(self) -> int:
        """Bytes of requests."""
        return sum(counts.request_bytes for counts in self.versions.values())

    @property
    def response_bytes(self) -> int:
        """Bytes of responses."""
        return sum(counts.response_bytes for counts in self.versions.values())


class TopicCounts:
    """What is counted for one topic, each partition of a request on its own, as in Apache Kafka."""

    __slots__ = ("bytes_out", "failed_fetches", "failed_produces", "fetches", "produces")

    def __init__(self) -> None:
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.bytes_out = 0


Tally = Callable[[Any], None]  #: counts a response
Step = tuple[float, float, float]  #: when the bytes of the request arrived, when the step began, when it ended
Unsent = tuple[
    ApiCounts, int, Step, float
]  #: (counts, for how many requests it stands, the first step, how long the answer took after that)


class Meter:
    """The counters of one broker."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiCounts] = {}  #: by API key
        self.topics: dict[Any, TopicCounts] = {}  #: by name or, where requests have ids, by id
        self.turns = Times()  #: from the first handler of a turn to the write of its answers
        self.weight = 1  #: requests for which the times of one are counted
        self.skips = 0  #: further requests whose times are not counted
        self._counted = 0  #: requests whose times were counted with this weight
        #: (topic, partition) -> (offset, topic id, timestamp): the last look-up for a lag in seconds
        self.timestamps: dict[tuple[str, int], tuple[int, Any, int]] = {}

    def parts(self, make_dispatcher: Callable[[Services], Dispatcher] = Dispatcher) -> dict[str, Any]:
        """Return arguments of server.Broker for a broker that is counted."""
        return {
            "make_dispatcher": lambda services: self.around(make_dispatcher(services)),
            "make_connection": lambda listener: self.connect(MeteredConnection(listener)),
        }

    def clear(self) -> None:
        """Start again from 0, with other data."""
        for counts in self.apis.values():
            counts.clear()
        self.topics.clear()
        self.timestamps.clear()
        self.turns = Times()
        self.count_exactly()

    def connect(self, connection: MeteredConnection) -> MeteredConnection:
        """Count the requests of a new connection."""
        connection.meter = self
        return connection

    def around(self, dispatcher: D) -> D:
        """Count the requests of a dispatcher, whose connections must be MeteredConnections."""
        inner, now_s = dispatcher.run, perf_counter

        def run(plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse | None = None) -> Answer | Delayed | None:
            try:
                counts: PlanCounts = plan.counts
            except AttributeError:
                counts = self._watch(plan)
            if self.skips and work is None:
                self.skips -= 1
                answer = inner(plan, ctx, request)
                if answer and type(answer) is list:
                    counts.requests += 1
                    counts.request_bytes += ctx.request_size
                    counts.response_bytes += len(answer[0]) if len(answer) == 1 else sum(map(len, answer))
                else:
                    self._count_step(counts, plan, ctx, request, answer, None)
                return answer
            began_s = now_s()
            answer = inner(plan, ctx, request, work)
            self._count_step(counts, plan, ctx, request, answer, (ctx.connection.received_s, began_s, now_s()))
            return answer

        dispatcher.run = run  # type: ignore[method-assign]  # the wrapper is installed when the dispatcher is created, not per request
        return dispatcher

    def _count_step(  # noqa: PLR0917  those of `run`
        self, counts: PlanCounts, plan: Plan, ctx: RequestContext, request: Any, answer: Answer | Delayed | None, times: Step | None
    ) -> None:
        """Count a step of a request. `times`: when its bytes arrived, when the step began and ended; None: they are not counted."""
        try:
            first = ctx.first_step
        except AttributeError:
            first = times
            counts.requests += 1
            counts.request_bytes += ctx.request_size
            if type(answer) is not list:
                ctx.first_step = times
        if type(answer) is not list:
            return
        counts.response_bytes += sum(map(len, answer))
        if first is not None and times is not None:
            weight, self.skips = self.weight, self.weight - 1
            sent = counts.api, weight, first, 0.0 if first is times else times[2] - first[2]
            if answer:
                ctx.connection.unsent.append(sent)
            else:
                self.count_times(times[2], times[2], (sent,))
        if not answer and plan.api.key == k00_produce.API_KEY:
            for topic in request.topic_data:  # acks=0, and no partition failed: that would have closed the connection
                key = topic.topic_id if plan.version >= TOPIC_IDS_SINCE else topic.name
                of_topic = self.topics.get(key) or self._new_topic(key)
                of_topic.produces += len(topic.partition_data)

    def _new_topic(self, key: Any) -> TopicCounts:
        counts = TopicCounts()
        if len(self.topics) < TOPICS_MAX:
            self.topics[key] = counts
        return counts

    def count_exactly(self) -> None:
        """Put the times of every request into the histograms again, until there are many."""
        self.weight = 1
        self.skips = 0
        self._counted = 0

    def count_times(self, began_s: float, now_s: float, unsent: Sequence[Unsent]) -> None:
        """Count the times of answers whose write began and ended then."""
        for api, weight, (received_s, handled_s, left_s), remote_s in unsent:
            api.queue.add(handled_s - received_s, weight)
            api.local.add(left_s - handled_s, weight)
            api.remote.add(remote_s, weight)
            api.response_queue.add(began_s - left_s - remote_s, weight)
            api.send.add(now_s - began_s, weight)
            api.total.add(now_s - received_s, weight)
            if not remote_s:
                self.turns.add(now_s - handled_s, weight)
        self._counted += len(unsent)
        if self._counted >= COUNTED_MAX:
            self._counted = 0
            self.weight = min(2 * self.weight, WEIGHT_MAX)

    def _watch(self, plan: Plan) -> PlanCounts:
        """Return the counts of a new plan, and count its responses before they are encoded."""
        api = self.apis.get(plan.api.key)
        if api is None:
            api = self.apis[plan.api.key] = ApiCounts(plan.api.name)
        counts = api.versions.get(plan.version)
        if counts is None:
            counts = api.versions[plan.version] = PlanCounts(api)
        plan.counts = counts
        if plan.api.key == k00_produce.API_KEY:
            plan.watch(self._tally_of_produce(counts, by_id=plan.version >= TOPIC_IDS_SINCE))
        elif plan.api.key == k01_fetch.API_KEY:
            plan.watch(self._tally_of_fetch(counts, by_id=plan.version >= TOPIC_IDS_SINCE))
        else:
            plan.watch(_tally_of(counts, plan.api.Response, plan.version))
        return counts

    def _tally_of_produce(self, counts: PlanCounts, *, by_id: bool) -> Tally:
        topics = self.topics

        def tally(response: Any) -> None:
            if type(response.responses) is not list:
                return  # a large one, encoded in slices
            for topic in response.responses:
                key = topic.topic_id if by_id else topic.name
                for result in topic.partition_responses:
                    if not result.error_code:
                        (topics.get(key) or self._new_topic(key)).produces += 1
                        counts.successes += 1
                    elif _count_failure(counts, result.error_code):
                        of_topic = topics.get(key) or self._new_topic(key)
                        of_topic.produces += 1
                        of_topic.failed_produces += 1

        return tally

    def _tally_of_fetch(self, counts: PlanCounts, *, by_id: bool) -> Tally:
        topics = self.topics

        def tally(response: Any) -> None:
            if response.error_code:
                _count_failure(counts, response.error_code)
            else:
                counts.successes += 1
            if type(response.responses) is not list:
                return  # a large one, encoded in slices
            for topic in response.responses:
                key = topic.topic_id if by_id else topic.topic
                for result in topic.partitions:
                    if not result.error_code:
                        of_topic = topics.get(key) or self._new_topic(key)
                        of_topic.fetches += 1
                        if result.records:
                            of_topic.bytes_out += len(result.records)
                        counts.successes += 1
                    elif _count_failure(counts, result.error_code):
                        of_topic = topics.get(key) or self._new_topic(key)
                        of_topic.fetches += 1
                        of_topic.failed_fetches += 1

        return tally


def _count_failure(counts: PlanCounts, code: int) -> bool:
    """Count an error. Returns False if it says that there is no such topic."""
    failures = counts.api.failures
    failures[code] = failures.get(code, 0) + 1
    return code not in NO_TOPIC


def _tally_of(counts: PlanCounts, response: type[Any], version: int) -> Tally:
    """Return what counts the error codes of a kind of response."""
    collect = _codes_of(response, version)

    def tally(value: Any) -> None:
        codes: list[int] = []
        collect(value, codes)
        for code in codes or (0,):
            if code:
                _count_failure(counts, code)
            else:
                counts.successes += 1

    return tally


def _codes_of(struct: type[Struct], version: int) -> Callable[[Any, list[int]], None]:
    """Return what collects the error codes of a struct, at all levels. Arrays that are encoded already are left out."""
    fields = [field for field in fields_of(struct) if field.in_version(version)]
    names = [field.name for field in fields if field.name.endswith("error_code")]
    arrays = [
        (field.name, _codes_of(field.struct, version))
        for field in fields
        if field.is_array and field.struct is not None and _has_codes(field.struct)
    ]

    def collect(value: Any, codes: list[int]) -> None:
        codes.extend([getattr(value, name) for name in names])
        for name, inner in arrays:
            elements = getattr(value, name)
            if type(elements) is list:
                for element in elements:
                    inner(element, codes)

    return collect


def _has_codes(struct: type[Struct]) -> bool:
    return any(
        field.name.endswith("error_code") or (field.is_array and field.struct is not None and _has_codes(field.struct))
        for field in fields_of(struct)
    )


class MeteredConnection(Connection):
    """A connection whose requests are counted, with the times until their answers are written."""

    __slots__ = ("meter",)

    meter: Meter

    def connection_made(self, transport: Any) -> None:
        """Start to count."""
        super().connection_made(transport)
        self.info.received_s = perf_counter()
        self.info.unsent = []

    def buffer_updated(self, nbytes: int) -> None:
        """Note the arrival of bytes."""
        self.info.received_s = perf_counter()
        Connection.buffer_updated(self, nbytes)  # `super()` costs more than this method

    def _write(self) -> None:
        """Count the answers that are written."""
        if not self.info.unsent:
            Connection._write(self)  # noqa: SLF001  as `super()._write()`, which costs more than this method
            return
        began_s = perf_counter()
        Connection._write(self)  # noqa: SLF001  likewise
        self.meter.count_times(began_s, perf_counter(), self.info.unsent)
        self.info.unsent.clear()
