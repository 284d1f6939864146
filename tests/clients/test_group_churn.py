"""A hundred members of one group come, go and die at random while values are written: no partition has two owners, no value is skipped."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.clients.group_members import CLASSIC, CONSUMER, SOON, Kind, Member, Programs, Writer, settings, shared, until, values
from tests.clients.transactional import Place
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.soak import times

pytestmark = [pytest.mark.slow]

PROGRAMS = 10  #: each is a process with ten members; killed, it takes all of them with it
MEMBERS = 100
PARTITIONS = 50
STEPS = times(7, soak=15)
KILLS = {2}  #: steps in which a program is killed
BROKER_KILLS = {4}
SESSION_MS = 10_000  #: in a busy machine a living member may be silent for seconds; expelled, it leaves without knowing


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | None]:
    """With the settings SOON and a longer session; a Kafka that is given must have them, too, and is not killed."""
    if request.config.getoption("--bootstrap-server"):
        yield None
        return
    words = settings(SOON | {"group.consumer.session.timeout.ms": str(SESSION_MS)})
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION, *words) as broker:
        yield broker
        assert broker.stop() == 0, broker.output


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, broker: BrokerProcess | None) -> str:
    return broker.bootstrap if broker is not None else str(request.config.getoption("--bootstrap-server"))


class Held(NamedTuple):
    """A time that a partition was somebody's, in nanoseconds: at least from `since` to `until`."""

    since: int
    until: int
    member: str
    end: str  #: "gave", "lost" (the member was expelled without knowing), "killed", or "has"


class Crowd:
    """The members, the programs that they live in, and what became of those that are gone."""

    def __init__(self, kinds: list[Kind], topic: str, nests: list[Programs]) -> None:
        self._kinds, self._topic, self._nests = kinds, topic, nests
        self._members: dict[int, list[Member]] = defaultdict(list)
        self._gone: list[Member] = []
        self._killed: set[str] = set()
        self._open: dict[tuple[str, Place], int] = {}
        self._now = 0
        self.held: dict[Place, list[Held]] = defaultdict(list)

    @property
    def alive(self) -> list[Member]:
        return [member for nest in self._members.values() for member in nest]

    @property
    def all(self) -> list[Member]:
        return self._gone + self.alive

    def join(self, dice: random.Random) -> None:
        """One more, where there is room."""
        nest = dice.choice([number for number in range(len(self._nests)) if len(self._members[number]) < MEMBERS // PROGRAMS])
        member = self._nests[nest].join(dice.choice(self._kinds), self._topic, self._topic, session_ms=SESSION_MS)
        self._members[nest].append(member)

    def leave(self, dice: random.Random) -> None:
        nest = dice.choice([number for number, members in self._members.items() if members])
        member = self._members[nest].pop(dice.randrange(len(self._members[nest])))
        member.leave()
        self.follow([member.look()])
        self._gone.append(member)

    def kill(self, dice: random.Random) -> None:
        nest = dice.choice([number for number, members in self._members.items() if members])
        members = self._members.pop(nest)
        self.follow([member.look() for member in members])
        self._nests[nest].kill()
        for name, place in [key for key in self._open if key[0] in {member.name for member in members}]:
            self._end(name, place, "killed", self._now)
        self._killed |= {member.name for member in members}
        self._gone += members

    def follow(self, members: list[Member]) -> None:
        """Note what partitions came to these members and went."""
        for member in members:
            for line in member.ask("moves"):
                what, topic, partition, at = line.split("\t")
                place = Place(topic, int(partition))
                self._now = max(self._now, int(at))
                if what == "gained":
                    self._open[member.name, place] = int(at)
                else:
                    self._end(member.name, place, what, int(at))

    def _end(self, member: str, place: Place, end: str, at: int) -> None:
        self.held[place].append(Held(self._open.pop((member, place)), at, member, end))

    def overlaps(self) -> list[tuple[Place, Held, Held]]:
        """Times in which a partition had two owners. A member that was expelled does not know at once."""
        for name, place in list(self._open):
            self._end(name, place, "has", self._now)
        found = []
        for place, spans in self.held.items():
            known = sorted(each for each in spans if each.end != "lost")
            found += [(place, one, two) for one, two in pairwise(known) if two.since < one.until]
        return found

    def read_twice_for_no_reason(self) -> list[str]:
        """Values that two members read though none of them died, was expelled, or could not commit."""
        excused = self._killed | {member.name for member in self.all if member.troubles}
        excused |= {each.member for spans in self.held.values() for each in spans if each.end == "lost"}
        readers: dict[str, list[str]] = defaultdict(list)
        for member in self.all:
            for _, _, value in member.read:
                readers[value].append(member.name)
        return [value for value, names in readers.items() if len(names) > 1 and not excused & set(names)]


KINDS = {"classic": Kind("franz-go", CLASSIC, "cooperative-sticky"), "consumer": Kind("franz-go", CONSUMER, "uniform")}


@pytest.mark.parametrize("names", ["consumer", "classic consumer"])
def test_a_hundred_members(names: str, broker: BrokerProcess | None, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Of one protocol, or of both at the same time."""
    kinds = [KINDS[name] for name in names.split()]
    topic, dice, writer = new_topic(PARTITIONS), random.Random(6), Writer(bootstrap)
    with ExitStack() as stack:
        crowd = Crowd(kinds, topic, [stack.enter_context(Programs(bootstrap)) for _ in range(PROGRAMS)])
        for _ in range(MEMBERS):
            crowd.join(dice)
        written = writer.write(topic, PARTITIONS)
        until(lambda: sum(bool(each.owned) for each in crowd.alive) == min(PARTITIONS, MEMBERS), *crowd.alive)
        for step in range(STEPS):
            for _ in range(dice.randint(1, 8)):
                crowd.leave(dice)
            if step in KILLS:
                crowd.kill(dice)
            if step in BROKER_KILLS and names == "consumer" and broker is not None:  # classic ones give up all that they have by then
                broker.kill()
                broker.restart()
            for _ in range(dice.randint(0, MEMBERS - len(crowd.alive))):
                crowd.join(dice)
            new = writer.write(topic, PARTITIONS, each=1)
            written += new
            until(lambda new=new: bool(new & values(*crowd.all)), *crowd.alive)  # type: ignore[misc]  # somebody goes on
            crowd.follow(crowd.alive)
        until(lambda: not written - values(*crowd.all), *crowd.alive)
        until(lambda: shared(crowd.alive, topic, PARTITIONS), *crowd.alive)
        crowd.follow(crowd.alive)
        assert crowd.overlaps() == []
        assert crowd.read_twice_for_no_reason() == []
        ends = Counter(each.end for spans in crowd.held.values() for each in spans)
        print(f"{names}: {len(crowd.all)} members, {len(crowd.alive)} at the end; partitions {dict(ends)}")
