"""Online migration (KIP-848): classic members and new ones in one group, in scenes that any broker can play.

What Apache Kafka 4.3.1 said is in migrations_kafka_4.3.1.json (captures/migrations.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.golden.migration_members import ALL_OF_T, Classic, Exchange, New, Scene, assigned

PARTITION_COUNTS: Final = {"t": 6, "u": 2}
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "4",
    "group.max.size": "2",
}
SHORT_MS: Final = 1_500


def eager(scene: Scene) -> None:
    """One classic member that gives up everything before it joins; up, and down again."""
    old, new = Classic(scene, "old"), New(scene, "new")
    old.enter()
    old.lead()
    new.join()
    scene.look()
    old.beat()
    old.commit()
    old.sync()
    old.join()
    old.commit()
    old.sync()
    old.beat()
    old.beat(0)
    old.commit(0)
    old.fetch(0)
    old.fetch(old.generation_id)
    old.sync(generation_id=1)
    old.sync(protocol_name="other")
    old.sync(protocol_type="connect")
    old.sync(protocol_name=None)
    new.beat({})
    new.commit()
    new.commit(version=8)
    old.commit(version=8)
    scene.look()
    new.leave()
    scene.look()
    old.beat()
    old.join()
    old.lead()
    old.beat()
    scene.look()


def cooperative(scene: Scene) -> None:
    """A classic member that keeps what it has; it must say what it owns."""
    old, new = Classic(scene, "old", "cooperative-sticky", "range", metadata_version=3), New(scene, "new")
    old.enter()
    old.lead()
    new.join()
    old.beat()
    old.join(ALL_OF_T)
    scene.look()
    old.sync()
    old.beat()
    new.beat({})
    old.commit()
    old.join({"t": [0, 1, 2, 3]})
    old.join({"t": [0, 1, 2]})
    old.sync()
    old.beat()
    new.beat({})
    new.beat({"t": [3, 4, 5]})
    old.beat()
    scene.look()
    new.leave()
    old.beat()
    old.join({"t": [0, 1, 2]})
    scene.look()


def given_back(scene: Scene) -> None:
    """A classic member waits for what a new one must give up."""
    new, old = New(scene, "new"), Classic(scene, "old", "cooperative-sticky", version=5)
    new.join()
    new.beat(ALL_OF_T)
    old.enter()
    old.sync()
    scene.look()
    old.beat()
    new.beat(ALL_OF_T)
    old.beat()
    new.beat({"t": [0, 1, 2]})
    old.beat()
    old.sync()
    old.join({})
    old.sync()
    old.beat()
    scene.look()
    scene.remove(old)
    new.beat({"t": [0, 1, 2]})
    scene.look()


def while_joining(scene: Scene) -> None:
    """Somebody waits in JoinGroup when the group is upgraded."""
    first, second, new = Classic(scene, "first"), Classic(scene, "second"), New(scene, "new")
    first.enter()
    first.lead()
    second.join()
    second.begin()
    first.beat()
    new.join()
    second.end("is told")
    scene.look(has_members=False)
    first.beat()
    first.join(ALL_OF_T)
    first.beat()
    second.join()
    second.sync()


def while_syncing(scene: Scene) -> None:
    """Somebody waits in SyncGroup when the group is upgraded."""
    first, second, new = Classic(scene, "first"), Classic(scene, "second"), New(scene, "new")
    first.enter()
    first.lead()
    second.join()
    second.begin()
    first.join()
    second.end("is told")
    second.begin_sync()
    new.join()
    second.end_sync("is told")
    second.join()
    second.sync()
    first.commit(2)


def not_upgraded(scene: Scene) -> None:
    """Groups that must stay classic."""
    group_id = scene.group_id

    def attempt(name: str, of: Callable[[Classic], None]) -> None:
        scene.group_id = f"{group_id}-{name}"
        old = Classic(scene, f"old-{name}")
        of(old)
        New(scene, f"new-{name}").join()
        old.beat()

    def other_type(old: Classic) -> None:
        old.protocol_type = "connect"
        old.enter()
        old.sync({old.member_id: b"x"}, protocol_type="connect")

    def malformed(old: Classic) -> None:
        old.join(metadata=b"\0\1\0")
        old.join(metadata=b"\0\1\0")
        old.sync({old.member_id: assigned(ALL_OF_T)})

    def custom(old: Classic) -> None:
        old.enter()
        old.sync({old.member_id: assigned(ALL_OF_T, b"mine")})

    def empty_user_data(old: Classic) -> None:
        old.enter()
        old.sync({old.member_id: assigned({"t": [0, 1, 2], "absent": [7]}, b"")})

    for each in (other_type, malformed, custom, empty_user_data):
        attempt(each.__name__, each)


def newcomers(scene: Scene) -> None:
    """Classic members join a consumer group, or may not."""
    new = New(scene, "new")
    new.join()
    Classic(scene, "connector").protocol_type = "connect"
    other = Classic(scene, "other")
    other.protocol_type = "connect"
    other.join()
    none = Classic(scene, "none")
    none.protocols = ()
    none.join()
    old = Classic(scene, "old", "range", "roundrobin", version=3)
    old.join()
    old.sync()
    sticky = Classic(scene, "sticky", "sticky")
    sticky.join()
    both = Classic(scene, "both", "roundrobin", "sticky", metadata_version=0)
    both.enter()
    both.sync()
    both.join(metadata=b"\0")
    third = Classic(scene, "third", "roundrobin", topics=["u"])
    third.member_id = "chosen"
    third.join()
    third.sync()
    fifth = Classic(scene, "fifth", "roundrobin")
    fifth.join()
    scene.look()
    fifth.member_id = "unknown"
    fifth.beat()
    fifth.sync()
    other_kind = Classic(scene, "other kind")
    other_kind.member_id, other_kind.generation_id = "new", 2
    other_kind.beat()
    other_kind.sync()
    scene.remove(old, fifth, third, version=3)
    scene.look()
    scene.remove(new)
    both.beat()
    scene.look()


def static(scene: Scene) -> None:
    """Static members of both protocols take each other's places."""
    old = Classic(scene, "old", instance="one")
    old.join()
    old.lead()
    new = New(scene, "new", instance="one")
    new.join()
    scene.look()
    old.beat()
    old.commit()
    new.beat(ALL_OF_T)
    back = Classic(scene, "back", instance="one")
    back.join()
    scene.look()
    new.beat(ALL_OF_T)
    back.sync()
    back.beat()
    back.join()
    back.lead()


def static_in_company(scene: Scene) -> None:
    """A member comes back to a group with others, with the same or with another subscription."""
    old, new = Classic(scene, "old", instance="one"), New(scene, "new", instance="two")
    old.join()
    old.lead()
    new.join()
    old.join()
    old.sync()
    new.beat({})
    again = Classic(scene, "again", instance="one")
    again.join()
    again.sync()
    old.beat()
    old.join()
    stranger = Classic(scene, "stranger", instance="three")
    stranger.member_id = "somebody"
    stranger.join()
    scene.look()
    back = Classic(scene, "back", instance="two", topics=["t", "u"])
    back.join()
    scene.look()
    back.sync()
    again.beat()


def static_unchanged(scene: Scene) -> None:
    """As above, with the same subscription: no member has to join again."""
    old, new = Classic(scene, "old", instance="one"), New(scene, "new", instance="two")
    old.join()
    old.lead()
    new.join()
    old.join()
    old.sync()
    new.beat({})
    back = Classic(scene, "back", instance="two")
    back.join({"t": [3, 4, 5]})
    scene.look()
    back.sync()
    old.beat()
    old.sync()
    back.beat()


def away(scene: Scene) -> None:
    """A static member of the new protocol is away; a classic one takes its place."""
    new, other = New(scene, "new", instance="one"), New(scene, "other")
    new.join()
    new.beat(ALL_OF_T)
    new.leave(-2)
    other.join()
    old = Classic(scene, "old", instance="one")
    old.join()
    old.sync()
    old.beat()
    other.beat({})
    scene.look()
    scene.remove(other, old)
    scene.look()


def by_its_own_id(scene: Scene) -> None:
    """A member goes over to the other protocol under the same id."""
    old, new = Classic(scene, "old"), New(scene, "new")
    old.enter()
    old.lead()
    new.join()
    over = New(scene, "over")
    over.member_id = old.member_id
    over.join()
    scene.look()
    old.beat()
    new.beat({})
    back = Classic(scene, "old")
    back.member_id = old.member_id
    back.join()
    scene.look()
    back.sync()


def sessions(scene: Scene) -> None:
    """The last new member is not heard of any more; and a classic one is not."""
    old, new = Classic(scene, "old"), New(scene, "new")
    brief = Classic(scene, "brief", session_ms=SHORT_MS)
    old.enter()
    old.lead()
    new.join()
    old.join()
    old.sync()
    brief.enter()
    brief.sync()
    scene.let_pass(2 * SHORT_MS)
    brief.beat()
    scene.look()


def too_slow(scene: Scene) -> None:
    """Classic members that send heartbeats and do not rebalance."""
    old, new = Classic(scene, "old", rebalance_ms=SHORT_MS), New(scene, "new")
    old.enter()
    old.lead()
    new.join()
    old.beat()
    scene.let_pass(SHORT_MS // 2)
    old.beat()
    scene.let_pass(SHORT_MS)
    old.beat()
    scene.look()
    never_syncs = Classic(scene, "never syncs", rebalance_ms=SHORT_MS)
    never_syncs.enter()
    never_syncs.beat()
    scene.let_pass(2 * SHORT_MS)
    never_syncs.beat()
    scene.look()


def too_many(scene: Scene) -> None:
    """More members are left than a classic group may have."""
    new = New(scene, "new")
    new.join()
    for index in range(3):
        each = Classic(scene, f"old{index}")
        each.enter()
    last = New(scene, "last")
    last.join()
    full = Classic(scene, "full")
    full.join()
    new.leave()
    scene.look(has_members=False)


def empty(scene: Scene) -> None:
    """The next member determines the protocol of an empty group."""
    new, old = New(scene, "new"), Classic(scene, "old")
    new.join()
    new.leave()
    scene.look()
    old.enter()
    old.lead()
    scene.look()
    scene.remove(old)
    scene.look()
    new.join()
    scene.look()


def nobody_new_is_left(scene: Scene) -> None:
    """Two new members leave in one request."""
    first, second, old = New(scene, "first"), New(scene, "second"), Classic(scene, "old")
    first.join()
    second.join()
    old.enter()
    scene.remove(first, second)
    scene.look()


def policy(scene: Scene) -> None:
    """What group.consumer.migration.policy forbids. Played with each of them."""
    old, new = Classic(scene, "old"), New(scene, "new")
    old.enter()
    old.lead()
    new.join()
    old.beat()
    scene.group_id += "-joined"
    second, late = New(scene, "second"), Classic(scene, "late")
    second.join()
    late.enter()
    late.sync()
    second.leave()
    late.beat()
    scene.look()
    late.join()


SCENES: Final[tuple[Callable[[Scene], None], ...]] = (
    eager,
    cooperative,
    given_back,
    while_joining,
    while_syncing,
    not_upgraded,
    newcomers,
    static,
    static_in_company,
    static_unchanged,
    away,
    by_its_own_id,
    sessions,
    too_slow,
    too_many,
    empty,
    nobody_new_is_left,
)
#: Whose records are told, too: in these no order of hash tables matters, and Kafka writes none that says what is known.
RECORDED: Final = (eager, given_back, static, static_unchanged, away, by_its_own_id, sessions, empty)
POLICIES: Final = ("upgrade", "downgrade", "disabled")


def play(scene: Callable[[Scene], None], exchange: Exchange) -> list[str]:
    """What was said."""
    playing = Scene(scene.__name__, exchange)
    scene(playing)
    return playing.told
