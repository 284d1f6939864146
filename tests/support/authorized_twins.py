"""minibroker in this process and an Apache Kafka with the same topics and access control entries, asked the same as one user.

The outcome of a request is what concerns authorization: error codes, the names that it shows, and authorized operations.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from minibroker.client.access import creation_of
from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.errors import WireError
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k29_describe_acls as k29
from minibroker.schemas import k30_create_acls as k30
from minibroker.schemas import k31_delete_acls as k31
from minibroker.wire.schema import NIL_UUID, Struct, fields_of
from tests.support.access import acl
from tests.support.authorized_requests import CASES, SHARE_KEY, TOPICS, Case, Setting
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.kafka_users import ConnectionClosedError, KafkaUser

USER = "alice"
TIMEOUT_S = 60.0
CLOSED = "closed"

_CODES = {"error_code", "partition_error_code", "topic_config_error_code", "acknowledge_error_code"}
_NAMES = {"name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "key", "user"}
_OPERATIONS = {"topic_authorized_operations", "cluster_authorized_operations", "authorized_operations"}
_SHOWN = _CODES | _NAMES | _OPERATIONS | {"partition_index", "resource_type"}
_HIDDEN = {"brokers", "node_endpoints", "configs", "active_producers", "current_voters", "observers", "nodes", "credential_infos"}
_HIDDEN |= {"active_tasks", "standby_tasks", "warmup_tasks", "status"}


_ALL = ("alice ALL TOPIC seen*", "alice ALL GROUP g*", "alice ALL TRANSACTIONAL_ID x*")
_DENIED = ("alice DENY ALL TOPIC secret*", "alice DENY READ GROUP h*", "alice DENY DESCRIBE TRANSACTIONAL_ID y")
_CLUSTER = "CLUSTER kafka-cluster"

#: what the user may do; no set allows `secret`, `h` and `y` but by the cluster
ACL_SETS: dict[str, list[str]] = {
    "nothing": [],
    "topic": [_ALL[0]],
    "group": [_ALL[1]],
    "transactional id": [_ALL[2]],
    "topic, group": [*_ALL[:2]],
    "topic, group, transactional id": [*_ALL],
    "describe": [f"alice DESCRIBE {each}" for each in ("TOPIC seen*", "GROUP g*", "TRANSACTIONAL_ID x*", _CLUSTER)],
    "read": ["alice READ TOPIC seen*", "alice READ GROUP g*"],
    "write": ["alice WRITE TOPIC seen*", "alice WRITE TRANSACTIONAL_ID x*"],
    "create, delete, alter": [f"alice {each} TOPIC seen*" for each in ("CREATE", "DELETE", "ALTER")] + ["alice DELETE GROUP g*"],
    "create": ["alice CREATE TOPIC seen*"],
    "delete and describe of others": ["alice DELETE TOPIC seen*", "alice DESCRIBE TOPIC *"],
    "configs": [f"alice {each} {of}" for each in ("DESCRIBE_CONFIGS", "ALTER_CONFIGS") for of in ("TOPIC seen*", "GROUP g*", _CLUSTER)],
    "all but denied": ["alice ALL TOPIC *", "alice ALL GROUP *", "alice ALL TRANSACTIONAL_ID *", *_DENIED],
    "everybody": ["* ALL TOPIC seen*", "* ALL GROUP g*"],
    "cluster": [f"alice ALL {_CLUSTER}"],
    "cluster create": [f"alice CREATE {_CLUSTER}", "alice DESCRIBE TOPIC *"],
    "cluster delete": [f"alice DELETE {_CLUSTER}", "alice DESCRIBE TOPIC seen*"],
    "cluster action": [f"alice CLUSTER_ACTION {_CLUSTER}"],
    "idempotent write": [f"alice IDEMPOTENT_WRITE {_CLUSTER}"],
    "cluster alter": [f"alice ALTER {_CLUSTER}"],
}


#: settings of both brokers: short lists of partitions, and no retention, which would delete the old records of a slow walk
SMALL: dict[str, str] = {
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class Twin(Protocol):
    """One of the two brokers."""

    ids: dict[str, UUID]

    def ask(self, user: str, request: Any, version: int | None = None) -> Any:
        """Return the response, or CLOSED."""


class Minibroker:
    """The broker in this process."""

    def __init__(self) -> None:
        self.broker = BrokerInMemory(
            config={
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:admin",
                "minibroker.like.kafka": "true",
                **SMALL,
                "share.coordinator.state.topic.replication.factor": "1",
                "offsets.topic.replication.factor": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "share.coordinator.state.topic.min.isr": "1",
            }
        )
        self.ids: dict[str, UUID] = {}

    def ask(self, user: str, request: Any, version: int | None = None) -> Any:
        """Let time pass until there is an answer."""
        self.broker.connection.principal = f"User:{user}"
        try:
            pending = self.broker.begin(request, version)
            for _ in range(100):
                if pending.is_done:
                    break
                self.broker.clock.advance(50)
            return pending.answer() or CLOSED
        except (WireError, AssertionError):
            return CLOSED
        finally:
            self.broker.clock.advance(200)


class Kafka:
    """A running Apache Kafka (settings_with_users)."""

    def __init__(self, port: int) -> None:
        self._users = {user: KafkaUser(port, user) for user in (USER, "admin")}
        self.ids: dict[str, UUID] = {}

    def ask(self, user: str, request: Any, version: int | None = None) -> Any:
        """Ask on the user's connection."""
        try:
            return self._users[user].ask(request, version)
        except ConnectionClosedError:
            return CLOSED


def prepare(twin: Twin) -> None:
    """Create the topics, and load the coordinators."""
    create(twin, TOPICS)
    for key_type, key in ((0, "g"), (1, "x"), (2, SHARE_KEY)):
        become(lambda kind=key_type, each=key: _codes(twin, kind, each) == [0])
    if isinstance(twin, Kafka):  # it loads a coordinator after it is found
        become(lambda: twin.ask("admin", k09.Request(group_id="g", topics=None), 7).error_code == 0)
    become(lambda: twin.ask("admin", k22.Request(transactional_id=None, transaction_timeout_ms=1)).error_code == 0)


def _codes(twin: Twin, key_type: int, key: str) -> list[int]:
    answer = twin.ask("admin", k10.Request(key_type=key_type, coordinator_keys=[key]))
    return [each.error_code for each in answer.coordinators]


def create(twin: Twin, names: Iterable[str]) -> None:
    """Create topics, and wait until the broker knows them."""
    wanted = list(names)
    topics = [k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in wanted]
    twin.ask("admin", k19.Request(topics=topics))

    def known() -> bool:
        answer = twin.ask("admin", k03.Request(topics=[k03.Topic(name=name) for name in wanted], allow_auto_topic_creation=False))
        twin.ids.update({each.name: each.topic_id for each in answer.topics})
        return all(each.error_code == 0 and all(part.leader_id >= 0 for part in each.partitions) for each in answer.topics)

    become(known)
    offsets = [k02.Topic(name=name, partitions=[k02.Partition(partition_index=0, timestamp=-2)]) for name in wanted]

    def have_logs() -> bool:
        answer = twin.ask("admin", k02.Request(replica_id=-1, topics=offsets))
        return all(part.error_code == 0 for each in answer.topics for part in each.partitions)

    if isinstance(twin, Kafka):  # its metadata names a leader before the leader has a log
        become(have_logs)


def become(is_so: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def set_acls(twin: Twin, lines: Iterable[str]) -> None:
    """Replace all access control entries, and wait until they hold."""
    everything: dict[str, Any] = {"resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None, "host_filter": None}
    everything |= {"operation": 1, "permission_type": 1}
    twin.ask("admin", k31.Request(filters=[k31.DeleteAclsFilter(resource_type_filter=1, **everything)]))
    entries = [creation_of(acl(line)) for line in dict.fromkeys(lines)]
    answer = twin.ask("admin", k30.Request(creations=entries))
    assert {each.error_code for each in answer.results} <= {0}

    def hold() -> bool:
        found = twin.ask("admin", k29.Request(resource_type_filter=1, **everything))
        return sum(len(each.acls) for each in found.resources) == len(entries)

    become(hold)


def walk(twin: Twin, sets: Mapping[str, list[str]] = ACL_SETS, cases: Sequence[Case] = CASES) -> dict[str, dict[str, list[str]]]:
    """Send all requests with each set of access control lists. Returns request -> outcome -> names of the sets."""
    prepare(twin)
    found: dict[str, dict[str, list[str]]] = {case.name: {} for case in cases}
    for number, (name, lines) in enumerate(sets.items(), 1000):
        begin_round(twin, number, lines)
        for case in cases:
            found[case.name].setdefault(outcome(twin, case, number), []).append(name)
        end_round(twin)
    return found


def end_round(twin: Twin) -> None:
    """Delete what requests created."""

    def are_gone() -> bool:
        answer = twin.ask("admin", k03.Request(topics=None, allow_auto_topic_creation=False))
        names = [each.name for each in answer.topics if each.name not in TOPICS and not each.name.startswith("__")]
        if names:  # Kafka creates some of them late
            topics = [k20.Topic(name=name, topic_id=NIL_UUID) for name in names]
            twin.ask("admin", k20.Request(topics=topics, timeout_ms=10_000))
        return not names

    become(are_gone)


def begin_round(twin: Twin, number: int, lines: Iterable[str]) -> None:
    """Create the topics that the requests of a round delete, and replace the access control lists."""
    create(twin, [f"{name}-{what}-{number}" for name in TOPICS for what in ("gone", "lost")])
    for name in TOPICS:
        twin.ids[f"{name}-lost"] = twin.ids.pop(f"{name}-lost-{number}")
    set_acls(twin, lines)


def outcome(twin: Twin, case: Case, number: int) -> str:
    """Send the request of a case as the user, and return what authorization made of it."""
    response = twin.ask(USER, case.request(Setting(twin.ids, number)), case.version)
    if response == CLOSED:
        return CLOSED
    names = {topic_id: name for name, topic_id in twin.ids.items()}
    return " ".join(_shown(response, names)).replace(f"-{number} ", "-N ").replace(f"-{number}}}", "-N}")


def _shown(element: Struct, names: Mapping[UUID, str]) -> Iterator[str]:
    """Yield what matters of an answer, sorted: `error_code=0 topics{name=seen}`."""
    for field in sorted(fields_of(type(element)), key=lambda each: each.name):
        value = getattr(element, field.name)
        if field.name in _HIDDEN:
            continue
        if field.name in _SHOWN:
            yield f"{field.name}={value}"
        elif field.name == "topic_id":
            yield f"topic_id={'-' if value == NIL_UUID else names.get(value, '?')}"
        elif field.name == "leader_id":
            yield f"leader={'yes' if value >= 0 else 'no'}"
        elif field.is_array and field.struct is not None and value is not None:
            yield from sorted(f"{field.name}{{{' '.join(_shown(each, names))}}}" for each in value)
