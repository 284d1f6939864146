"""Count the requests of a broker, and measure the times of some of them.

    meter = Meter()
    broker = Broker(config, **meter.parts())

Times of a request, by Kafka's names:

    queue           from the turn in which it arrived to its handler: other requests were served, and its bytes decoded
    local           the handler
    remote          until its answer was ready, if the handler did not answer: waiting for records, members or a sync
    response queue  from the answer to its write: the other requests of the turn, and answers that must leave before it
    send            the call that passes the bytes to the socket
    total           all of them

The times of the first 64 requests of an API version after a scrape are all counted, then those of every second one, and so on, at least
of one in 128, which stands for those after it. So are the bytes of their responses. Everything else is counted exactly, by generated code
(counting.py). So a request whose times are not counted takes no call of Python more than without metrics: the meter replaces `run` of the
dispatcher for a single request, and the class of its connection for a single write.

What a partition's log knows (records and bytes that were appended) is not counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from minibroker.dispatch.context import ConnectionInfo, RequestContext, Services
from minibroker.dispatch.delayed import Answer, Delayed, MakeResponse
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.plan import SLICED_FROM, Plan
from minibroker.metrics.commits import APIS, CommitCounts
from minibroker.metrics.counting import count
from minibroker.metrics.counts import ApiCounts, PlanCounts, Times, TopicTable
from minibroker.schemas import k00_produce, k01_fetch
from minibroker.server.connection import Connection

if TYPE_CHECKING:
    from minibroker.server.listener import Listener

D = TypeVar("D", bound=Dispatcher)
C = TypeVar("C", bound="MeteredConnection")

Step = tuple[float, float, float, int]  #: when the request arrived, when its first step began and ended, for how many requests it stands
Unsent = tuple[ApiCounts, Step, float]  #: (counts, the first step, how long the answer took after that)


class CountedDispatcher(Dispatcher):
    """A dispatcher that a Meter can count: methods of a compiled Dispatcher itself cannot be replaced."""


class Meter:
    """The counters of one broker."""

    def __init__(self, *, with_commits: bool = False) -> None:
        """Start at 0. `with_commits`: count the offsets that each group commits as well, which costs each commit some instructions."""
        self.commits = CommitCounts() if with_commits else None
        self.apis: dict[int, ApiCounts] = {}  #: by API key
        self.topics = TopicTable()
        self.turns = Times()  #: from the first handler of a turn to the write of its answers
        #: (topic, partition) -> (offset, topic id, timestamp): the last look-up for a lag in seconds
        self.timestamps: dict[tuple[str, int], tuple[int, Any, int]] = {}

    def parts(self, make_dispatcher: Callable[[Services], Dispatcher] = CountedDispatcher) -> dict[str, Any]:
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
        if self.commits is not None:
            self.commits.by_group.clear()

    def connect(self, connection: C) -> C:
        """Count the requests of a new connection."""
        connection.meter = self
        return connection

    def around(self, dispatcher: D) -> D:
        """Count the requests of a dispatcher, such as CountedDispatcher. Its connections must be MeteredConnections."""
        _Counted(self, dispatcher)
        return dispatcher

    def time_all(self) -> None:
        """Put the times of every request into the histograms again, until there are many."""
        for api in self.apis.values():
            for counts in api.plans.values():
                counts.time_all()

    def counts_of(self, plan: Plan, broker_id: int, time: Callable[[], object]) -> PlanCounts:
        """Return the counts of a plan, which it shares with earlier plans of the same API, version and broker."""
        key = plan.api.key
        api = self.apis.get(key)
        if api is None:
            of_topics = {k00_produce.API_KEY: self.topics.produced, k01_fetch.API_KEY: self.topics.fetched}.get(key, int)
            api = self.apis[key] = ApiCounts(plan.api.name, of_topics)
        counts = api.plans.get((broker_id, plan.version))
        if counts is None:
            counts = api.plans[broker_id, plan.version] = PlanCounts(api, time, is_flexible=plan.flexible)
        counts.time = time
        return counts

    def count_times(self, began_s: float, now_s: float, unsent: Sequence[Unsent]) -> None:
        """Count the times of answers whose write began and ended then."""
        for api, (received_s, handled_s, left_s, weight), remote_s in unsent:
            api.queue.add(handled_s - received_s, weight)
            api.local.add(left_s - handled_s, weight)
            api.remote.add(remote_s, weight)
            api.response_queue.add(began_s - left_s - remote_s, weight)
            api.send.add(now_s - began_s, weight)
            api.total.add(now_s - received_s, weight)
            if not remote_s:
                self.turns.add(now_s - handled_s, weight)


class _Counted:
    """Lets one dispatcher count: each new plan, and the times of some requests."""

    def __init__(self, meter: Meter, dispatcher: Dispatcher) -> None:
        self._meter = meter
        self._dispatcher = dispatcher
        self._run, self._run_later = dispatcher.run, dispatcher._run_later  # noqa: SLF001  they are replaced
        self._new_plan, self._dispatch_large = dispatcher._new_plan, dispatcher._dispatch_large  # noqa: SLF001  likewise
        self._plain = type(dispatcher)
        self._timing = _timing_dispatcher(self._plain, self)
        hooked = cast("Any", dispatcher)
        hooked._run_later = self.run_later  # noqa: SLF001  likewise
        hooked._new_plan, hooked._dispatch_large = self.new_plan, self.dispatch_large  # noqa: SLF001  likewise

    def _time_next(self) -> None:
        self._dispatcher.__class__ = self._timing  # for one request; an attribute `run` would make each call of the method slower

    def new_plan(self, api: int) -> Plan | None:
        """Create a plan that counts."""
        plan = self._new_plan(api)
        if plan is not None:
            meter, broker_id = self._meter, self._dispatcher._services.nodes.own.node_id  # noqa: SLF001  of the hooked dispatcher
            count(plan, meter.counts_of(plan, broker_id, self._time_next), meter.topics)
            if meter.commits is not None and plan.api.key in APIS:
                meter.commits.watch(plan)
        return plan

    def dispatch_large(self, plan: Plan, connection: ConnectionInfo, frame: memoryview, client_id_length: int) -> Answer | Delayed:
        """Count a request that no counting decoder gets."""
        if len(frame) > SLICED_FROM:
            plan.counts.count_request(len(frame))
        return self._dispatch_large(plan, connection, frame, client_id_length)

    def run_timed(self, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse | None = None) -> Answer | Delayed | None:
        """Run a request, and measure it."""
        self._dispatcher.__class__ = self._plain
        counts: PlanCounts = plan.counts
        weight, connection = counts.weight, getattr(ctx.connection, "timed", None)
        began_s = perf_counter()
        answer = self._run(plan, ctx, request, work)
        ended_s = perf_counter()
        step = (began_s if connection is None else connection.arrived_s or began_s, began_s, ended_s, weight)
        if type(answer) is not list:
            ctx.first_step = step
        else:
            self._answered(plan, ctx, answer, step, 0.0)
        return answer

    def run_later(self, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse) -> Answer | Delayed | None:
        """Run a later step of a request."""
        answer = self._run_later(plan, ctx, request, work)
        if type(answer) is list:
            step = getattr(ctx, "first_step", None)
            if step is not None:
                self._answered(plan, ctx, answer, step, perf_counter() - step[2])
        return answer

    def _answered(self, plan: Plan, ctx: RequestContext, answer: Answer, step: Step, remote_s: float) -> None:
        """Count the times of a request, at once or with the write of its answer."""
        plan.counts.response_bytes += sum(map(len, answer)) * step[3]
        unsent, connection = (plan.counts.api, step, remote_s), getattr(ctx.connection, "timed", None)
        if answer and connection is not None:
            connection.time_write(unsent)
        else:
            now_s = step[2] + remote_s
            self._meter.count_times(now_s, now_s, (unsent,))


def _timing_dispatcher(plain: type[Dispatcher], counted: _Counted) -> type[Dispatcher]:
    """Return the class of a dispatcher whose next request is measured."""

    def run(_: Dispatcher, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse | None = None) -> Answer | Delayed | None:
        return counted.run_timed(plan, ctx, request, work)

    return cast("type[Dispatcher]", type(f"Timing{plain.__name__}", (plain,), {"run": run}))


class MeteredConnection(Connection):
    """A connection whose requests are counted, with the times until their answers are written."""

    __slots__ = ("_unsent", "_waits_s", "meter")

    is_timing = False  #: whether the next write is measured
    meter: Meter

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self._waits_s = 0.0  #: since when requests in the buffer wait for their turn, else 0
        self._unsent: list[Unsent] = []  #: answers that are not written yet, whose times are counted

    def connection_made(self, transport: Any) -> None:
        """Let a dispatcher reach this connection."""
        super().connection_made(transport)
        self.info.timed = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        super().connection_lost(exc)
        self.info.timed = None
        self._unsent.clear()

    @property
    def arrived_s(self) -> float:
        """When the turn began in which the present request arrived; 0 outside of a turn."""
        return self._waits_s or self._turn_s

    def time_write(self, unsent: Unsent) -> None:
        """Measure the write of an answer."""
        self._unsent.append(unsent)
        self.__class__ = _timing(type(self))  # for one write

    def _go_on_later(self) -> None:
        self._waits_s = self._waits_s or self._turn_s or perf_counter()
        super()._go_on_later()

    def _go_on(self) -> None:
        super()._go_on()
        if not self._goes_on:
            self._waits_s = 0.0

    def _written(self, began_s: float) -> None:
        self.meter.count_times(began_s, perf_counter(), self._unsent)
        self._unsent.clear()


_TIMING: Final[dict[type[MeteredConnection], type[MeteredConnection]]] = {}


def _timing(plain: type[MeteredConnection]) -> type[MeteredConnection]:
    """Return the class of a connection whose next write is measured; itself for such a class."""
    if plain.is_timing:
        return plain

    def write(self: MeteredConnection) -> None:
        self.__class__ = plain
        began_s = perf_counter()
        plain._write(self)  # noqa: SLF001  what it replaces
        self._written(began_s)

    if plain not in _TIMING:
        _TIMING[plain] = type(f"Timing{plain.__name__}", (plain,), {"__slots__": (), "is_timing": True, "_write": write})
    return _TIMING[plain]
