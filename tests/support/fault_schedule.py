"""A random schedule of faults, drawn from a seed alone, and how it is done to a broker while clients work.

Steps of a make are faults of its own requests: its writer takes them before the unit of work that they name, so that they meet the same
work whenever the seed is the same. Steps of nobody are for all: leaders, nodes, held high watermarks, kills. A conductor does these one
after the other while the writers go on; what takes something away is followed by what brings it back.

All that is answered is what a real cluster could answer there: errors that clients may retry.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from minibroker.testing import BrokerError
from minibroker.testing.request_log import LoggedRequest, RequestLog
from minibroker.testing.wire import FoundRecord
from tests.support.faulted_producers import REQUEST_TIMEOUT_MS, transactional_id, writer

PATIENCE_S: Final = 0.4  #: the conductor goes on after this long, whether or not work has been done meanwhile
TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"

_COORDINATOR: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
_READING: Final = ("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION")

#: Of a producer: API -> errors before the work
_OF_WRITERS: Final[Mapping[str, Sequence[str]]] = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION"),
    "Metadata": ("LEADER_NOT_AVAILABLE",),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "InitProducerId": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
    "AddPartitionsToTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
    "AddOffsetsToTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
    "TxnOffsetCommit": (*_COORDINATOR, "UNKNOWN_TOPIC_OR_PARTITION"),
    "EndTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
}
#: Of a consumer
_OF_READERS: Final[Mapping[str, Sequence[str]]] = {
    "Fetch": (*_READING, "FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "OFFSET_NOT_AVAILABLE"),
    "ListOffsets": (*_READING, "OFFSET_NOT_AVAILABLE"),
    "Metadata": ("LEADER_NOT_AVAILABLE",),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "JoinGroup": (*_COORDINATOR, "REBALANCE_IN_PROGRESS"),
    "SyncGroup": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "Heartbeat": ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "REBALANCE_IN_PROGRESS"),
    "OffsetCommit": (*_COORDINATOR, "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT"),
    "OffsetFetch": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
}
#: Of one whose group is of KIP-848
_OF_MODERN_READERS: Final[Mapping[str, Sequence[str]]] = {
    "ConsumerGroupHeartbeat": _COORDINATOR,
    **{api: errors for api, errors in _OF_READERS.items() if api not in {"JoinGroup", "SyncGroup", "Heartbeat"}},
}
#: Of a member of a share group. Acknowledgements that fail are no more than that: the records come again.
_OF_SHARERS: Final[Mapping[str, Sequence[str]]] = {
    "ShareFetch": (*_READING, "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"),
    "ShareAcknowledge": (*_READING, "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"),
    "ShareGroupHeartbeat": _COORDINATOR,
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "Metadata": ("LEADER_NOT_AVAILABLE",),
}
#: The log has it, and the answer says that it failed: followers were too slow.
_BEHIND: Final[Mapping[str, Sequence[str]]] = {"Produce": ("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")}
#: APIs that are asked more than others are drawn more often.
_WEIGHTS: Final = {
    "Produce": 8, "EndTxn": 4, "AddPartitionsToTxn": 3,
    "Fetch": 5, "Heartbeat": 2, "OffsetCommit": 2, "ShareFetch": 4, "ShareAcknowledge": 3,
}  # fmt: skip
#: A commit whose client has long sent another one must not undo that: no client is protected from it.
_NEVER_LATE: Final = {"OffsetCommit"}
MODERN: Final = {"java"}  #: makes whose reader's group is of KIP-848, and which have a member of a share group besides


def reader(make: str) -> str:
    """The client_id of a make's consumers."""
    return f"reader-{make}"


def sharer(make: str) -> str:
    """The client_id of a make's members of share groups."""
    return f"sharer-{make}"


def _clients(make: str) -> list[tuple[str, Mapping[str, Sequence[str]]]]:
    """The client_ids of a make, and what goes wrong with their requests; its producers' half of the time."""
    if make in MODERN:
        return [(writer(make), _OF_WRITERS)] * 2 + [(reader(make), _OF_MODERN_READERS), (sharer(make), _OF_SHARERS)]
    return [(writer(make), _OF_WRITERS)] * 2 + [(reader(make), _OF_READERS)]


class Shape(NamedTuple):
    """What there is for faults to happen to."""

    makes: Sequence[str]
    topics: Mapping[str, int]  #: name -> number of partitions
    units: int  #: of work that each make does
    nodes: int = 1
    is_killed: bool = False


class Step(NamedTuple):
    """Something that happens."""

    make: str | None  #: None: to all
    unit: int  #: of the make before which it happens; for all: the order alone counts
    what: str
    arguments: Mapping[str, Any]
    name: int = 0  #: by which another step takes it back

    def __str__(self) -> str:
        words = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        where = "all" if self.make is None else f"{self.make} before unit {self.unit}"
        return f"{where}: {self.what} {words}{f' #{self.name}' if self.name else ''}"


class Schedule(NamedTuple):
    """Printed, it is what happens; drawn from the seed it is the same again."""

    seed: int
    steps: Sequence[Step]

    def of(self, make: str | None, unit: int | None = None) -> list[Step]:
        """Those of a make, before one unit; those of nobody."""
        return [each for each in self.steps if each.make == make and (unit is None or unit == each.unit)]

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}:", *(f"  {each}" for each in self.steps)))


def draw(seed: int, shape: Shape) -> Schedule:
    """The schedule of a seed."""
    chance = random.Random(f"{seed} {shape}")
    steps: list[Step] = []
    for make in shape.makes:
        steps += _of_make(chance, make, shape.units)
    steps += _of_all(chance, shape)
    return Schedule(seed, steps)


def _of_make(chance: random.Random, make: str, units: int) -> list[Step]:
    steps: list[Step] = []
    for unit in range(units):
        for _ in range(chance.choice([1, 2, 3, 4])):
            client_id, apis = chance.choice(_clients(make))
            api = chance.choices([*apis], [_WEIGHTS.get(each, 1) for each in apis])[0]
            often: dict[str, Any] = chance.choice(
                [
                    {"times": 1},
                    {"times": 1},
                    {"times": 2},
                    {"call": chance.randint(1, 4)},
                    {"probability": 0.3, "seed": chance.randrange(1000)},
                ]
            )
            rule = {**_kind(chance, api, apis[api]), "api": api, "client_id": client_id, "often": often}
            if api == "InitProducerId" and rule["kind"] == "error":
                rule["transactional_id"] = transactional_id(make)  # other producers' ids come from no coordinator
            name = len(steps) + 1
            steps.append(Step(make, unit, "fault", {"rule": rule}, name))
            if "probability" in often or rule["kind"] == "silence":
                steps.append(Step(make, unit + 2, "no fault", {"of": name}))
    return sorted(steps, key=lambda each: each.unit)


def _kind(chance: random.Random, api: str, errors: Sequence[str]) -> dict[str, Any]:
    kind = chance.choices(["error", "behind", "disconnect", "tear", "delay", "throttle", "silence"], [6, 2, 3, 2, 2, 1, 1])[0]
    when = chance.choice(["before", "after"])
    match kind:
        case "behind" if api in _BEHIND:
            return {"kind": "error", "error": chance.choice(_BEHIND[api]), "after": True}
        case "error" | "behind":
            return {"kind": "error", "error": chance.choice(errors)}
        case "tear":
            return {"kind": "tear", "size": chance.choice([0, 3, 4, 9, 21, 40])}
        case "delay":  # some are longer than the client waits
            ms = chance.choice([20, 60, 200, REQUEST_TIMEOUT_MS + 200])
            return {"kind": "delay", "ms": ms, "when": "after" if api in _NEVER_LATE else when}
        case "throttle":
            return {"kind": "throttle", "ms": chance.choice([20, 100, 300])}
        case _:
            return {"kind": kind, "when": when}


def _of_all(chance: random.Random, shape: Shape) -> list[Step]:
    kinds = ["take away", "bump", "hold"]
    if shape.nodes > 1:
        kinds += ["move", "move", "elect", "coordinator", "coordinator", "node", "node"]
    if shape.is_killed:
        kinds += ["kill", "kill"]
    steps: list[Step] = []
    for number in range(1, shape.units + 1):
        steps += _for_all(chance, shape, chance.choice(kinds), number)
    return steps


def _for_all(chance: random.Random, shape: Shape, kind: str, number: int) -> list[Step]:
    topic = chance.choice([*shape.topics])
    where = {"topic": topic, "partition": chance.randrange(shape.topics[topic])}
    node = chance.randint(1, shape.nodes)

    def step(what: str, arguments: Mapping[str, Any], name: int = 0) -> Step:
        return Step(None, number, what, arguments, name)

    match kind:
        case "take away":
            return [step("leaders.take_away", where), step("leaders.give_back", where)]
        case "hold":
            return [step("high_watermark.hold", where, number), step("release", {"of": number})]
        case "move":
            return [step("leaders.move", {**where, "to": node})]
        case "coordinator":
            internal = {"topic": chance.choice([TRANSACTION_STATE, CONSUMER_OFFSETS]), "partition": chance.randrange(5)}
            return [step("leaders.move", {**internal, "to": node})]
        case "node":
            return [step("nodes.stop", {"node": node}), step("nodes.start", {"node": node})]
        case "kill":  # behind work that is not answered: what clients then send again must be known
            return [step("kill", {"behind": chance.choice(["Produce", "Produce", "EndTxn", "OffsetCommit"])}), step("start", {})]
        case _:
            return [step(f"leaders.{'elect' if kind == 'elect' else 'bump_epoch'}", where)]


class Faulted(Protocol):
    """The broker: a BrokerProcess, or what tests/support/faulted_kafka.py makes of an Apache Kafka."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def data_dir(self) -> Path | None: ...

    @property
    def request_log(self) -> RequestLog: ...

    def records(self, topic: str, /) -> list[FoundRecord]: ...

    def kill(self) -> None: ...

    def start(self) -> object: ...

    def _execute(self, command: str, arguments: dict[str, Any], /) -> Any: ...


class Performance:
    """A schedule that is done to a broker; any thread may do steps. `told` says what was done, in its order."""

    def __init__(self, schedule: Schedule, broker: Faulted) -> None:
        self.schedule = schedule
        self.told: list[str] = []
        self._requests: list[LoggedRequest] = []  #: of the broker before it was killed
        self._broker = broker
        self._lock = threading.Lock()
        self._made: dict[tuple[str | None, int], Any] = {}  #: ids that the broker gave to what may be taken back
        self._is_over = False

    def before_unit(self, make: str, unit: int) -> None:
        """Do what happens to a make before it goes on."""
        for step in self.schedule.of(make, unit):
            self._do(step)

    def conduct(self, wait: Callable[[float], object]) -> None:
        """Do what happens to all, as work goes on: `wait` returns when that part of it is done, or after PATIENCE_S."""
        steps = self.schedule.of(None)
        for number, step in enumerate(steps):
            wait(number / len(steps))
            self._do(step)

    def end(self) -> None:
        """Let nothing happen any more, and have all nodes and leaders again."""
        with self._lock:
            self._is_over = True
            self._broker._execute("faults.clear", {})
            self._broker._execute("high_watermark.release", {})
            for step in self.schedule.of(None):
                if step.what in {"leaders.give_back", "nodes.start"}:
                    self._broker._execute(step.what, dict(step.arguments))

    def log(self) -> RequestLog:
        """What clients asked, from the beginning."""
        return RequestLog([*self._requests, *self._broker.request_log])

    def _do(self, step: Step) -> None:
        with self._lock:
            if self._is_over:
                return
            try:
                self._execute(step)
            except BrokerError as error:  # a move to a node that is stopped, an election that is not needed
                self.told.append(f"{time.strftime('%H:%M:%S')}  {step}: {error}")
            else:
                self.told.append(f"{time.strftime('%H:%M:%S')}  {step}")

    def _execute(self, step: Step) -> None:
        made = self._made.pop((step.make, step.arguments.get("of", 0)), None)
        match step.what:
            case "fault":
                self._made[step.make, step.name] = self._broker._execute("faults.inject", dict(step.arguments))["id"]
            case "no fault" if made is not None:
                self._broker._execute("faults.remove", {"id": made})
            case "high_watermark.hold":
                self._made[step.make, step.name] = self._broker._execute(step.what, dict(step.arguments))["id"]
            case "release" if made is not None:
                self._broker._execute("high_watermark.release", {"id": made})
            case "no fault" | "release":
                return  # it ended with its broker
            case "kill":
                self._wait_for_work_without_answer(step.arguments["behind"])
                self._requests += self._broker.request_log
                self._broker.kill()
                self._made.clear()
            case "start":
                self._broker.start()
            case _:
                self._broker._execute(step.what, dict(step.arguments))

    def _wait_for_work_without_answer(self, api: str) -> None:
        rule = {"kind": "silence", "when": "after", "api": api, "often": {"times": 1}}
        made = self._broker._execute("faults.inject", {"rule": rule})["id"]
        deadline = time.monotonic() + PATIENCE_S
        while not (is_hit := bool(self._broker._execute("faults.state", {"id": made})["hits"])) and time.monotonic() < deadline:
            time.sleep(0.005)
        self.told.append(f"{time.strftime('%H:%M:%S')}  {api} {'was done and is not answered' if is_hit else 'was not asked for'}")
