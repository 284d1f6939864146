"""Decisions about access: tables, and a comparison with a model that reads every entry in Kafka's order."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from minibroker.security.authorizer import CACHED_NAME_MAX, DECISIONS_MAX, OPERATIONS, RIGHTS_MAX, Authorizer
from tests.support.soak import examples
from tests.support.turns import result_of

ALICE, BOB, EVERYBODY = "User:alice", "User:bob", "User:*"
HOST, OTHER_HOST = "127.0.0.1", "10.0.0.9"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(
    name: str = "t",
    operation: Operation = READ,
    permission: Permission = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    who: str = ALICE,
    host: str = "*",
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, who, host, operation, permission)


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), allows_everyone: bool = False) -> Authorizer:
    made = Authorizer(super_users, allow_everyone_if_no_acl=allows_everyone)
    for each in acls:
        made.add(each)
    return made


@pytest.mark.parametrize(
    "entry, question, allowed",
    [
        (acl(), (ALICE, HOST, READ, TOPIC, "t"), True),
        (acl(), (ALICE, HOST, READ, TOPIC, "t2"), False),
        (acl(), (ALICE, HOST, READ, GROUP, "t"), False),
        (acl(), (BOB, HOST, READ, TOPIC, "t"), False),
        (acl(), ("user:alice", HOST, READ, TOPIC, "t"), False),
        (acl(), ("User:Alice", HOST, READ, TOPIC, "t"), False),
        (acl(who=EVERYBODY), (BOB, HOST, READ, TOPIC, "t"), True),
        (acl(who="*"), (BOB, HOST, READ, TOPIC, "t"), False),
        (acl("*"), (ALICE, HOST, READ, TOPIC, "anything"), True),
        (acl("*", pattern=PREFIXED), (ALICE, HOST, READ, TOPIC, "anything"), False),
        (acl("*", pattern=PREFIXED), (ALICE, HOST, READ, TOPIC, "*anything"), True),
        (acl("or", pattern=PREFIXED), (ALICE, HOST, READ, TOPIC, "orders"), True),
        (acl("or", pattern=PREFIXED), (ALICE, HOST, READ, TOPIC, "or"), True),
        (acl("or", pattern=PREFIXED), (ALICE, HOST, READ, TOPIC, "o"), False),
        (acl("or"), (ALICE, HOST, READ, TOPIC, "orders"), False),
        (acl(host=HOST), (ALICE, HOST, READ, TOPIC, "t"), True),
        (acl(host=HOST), (ALICE, OTHER_HOST, READ, TOPIC, "t"), False),
        (acl(host="localhost"), (ALICE, HOST, READ, TOPIC, "t"), False),
        (acl(operation=ALL), (ALICE, HOST, Operation.ALTER_CONFIGS, TOPIC, "t"), True),
        (acl(operation=READ), (ALICE, HOST, DESCRIBE, TOPIC, "t"), True),
        (acl(operation=WRITE), (ALICE, HOST, DESCRIBE, TOPIC, "t"), True),
        (acl(operation=Operation.DELETE), (ALICE, HOST, DESCRIBE, TOPIC, "t"), True),
        (acl(operation=Operation.ALTER), (ALICE, HOST, DESCRIBE, TOPIC, "t"), True),
        (acl(operation=Operation.CREATE), (ALICE, HOST, DESCRIBE, TOPIC, "t"), False),
        (acl(operation=Operation.ALTER_CONFIGS), (ALICE, HOST, DESCRIBE, TOPIC, "t"), False),
        (acl(operation=Operation.ALTER_CONFIGS), (ALICE, HOST, Operation.DESCRIBE_CONFIGS, TOPIC, "t"), True),
        (acl(operation=DESCRIBE), (ALICE, HOST, READ, TOPIC, "t"), False),
    ],
)
def test_one_entry_allows(entry: Acl, question: tuple[str, str, Operation, ResourceType, str], allowed: bool) -> None:
    assert authorizer(entry).is_allowed(*question) is allowed


@pytest.mark.parametrize(
    "entries, operation, allowed",
    [
        ([acl(), acl(permission=DENY)], READ, False),
        ([acl(permission=DENY), acl()], READ, False),
        ([acl(), acl("*", permission=DENY)], READ, False),
        ([acl(), acl("", permission=DENY, pattern=PREFIXED)], READ, False),
        ([acl(), acl(permission=DENY, who=EVERYBODY)], READ, False),
        ([acl(), acl(permission=DENY, who=BOB)], READ, True),
        ([acl(), acl(permission=DENY, host=OTHER_HOST)], READ, True),
        ([acl(), acl(permission=DENY, operation=ALL)], DESCRIBE, False),
        ([acl(operation=ALL), acl(permission=DENY)], DESCRIBE, True),  # to deny READ does not deny DESCRIBE
        ([acl(), acl(permission=DENY, operation=DESCRIBE)], DESCRIBE, False),
    ],
)
def test_a_denial_wins(entries: list[Acl], operation: Operation, allowed: bool) -> None:
    assert authorizer(*entries).is_allowed(ALICE, HOST, operation, TOPIC, "t") is allowed


def test_super_users_may_do_everything() -> None:
    made = authorizer(acl("*", ALL, DENY, who=EVERYBODY), super_users=(ALICE,))
    assert made.is_allowed(ALICE, HOST, WRITE, TOPIC, "t")
    assert not made.is_allowed("user:alice", HOST, WRITE, TOPIC, "t")
    assert str(made.decide(ALICE, HOST, WRITE, TOPIC, "t")) == "SuperUser"


def test_without_entries_for_a_resource_the_default_decides() -> None:
    made = authorizer(acl("known", WRITE, who=BOB), allows_everyone=True)
    assert made.is_allowed(ALICE, HOST, READ, TOPIC, "free")
    assert not made.is_allowed(ALICE, HOST, READ, TOPIC, "known")  # entries of others are enough
    assert str(made.decide(ALICE, HOST, READ, TOPIC, "free")) == "DefaultAllow"
    assert str(made.decide(ALICE, HOST, READ, TOPIC, "known")) == "DefaultDeny"


def test_a_decision_names_its_entry_as_kafkas_audit_log_does() -> None:
    made = authorizer(acl("t", WRITE, DENY))
    assert str(made.decide(ALICE, HOST, WRITE, TOPIC, "t")) == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:alice, host=*,"
        " operation=WRITE, permissionType=DENY])"
    )


def test_changes_hold_at_once() -> None:
    made = authorizer()
    question = ALICE, HOST, READ, TOPIC, "orders"
    assert not made.is_allowed(*question)
    assert not made.is_allowed_by_type(ALICE, HOST, READ, TOPIC)
    assert made.operations(ALICE, HOST, TOPIC, "orders") == 0
    made.add(acl("ord", pattern=PREFIXED))
    assert made.is_allowed(*question)
    assert made.is_allowed_by_type(ALICE, HOST, READ, TOPIC)
    assert made.operations(ALICE, HOST, TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
    made.add(acl("o", permission=DENY, pattern=PREFIXED))
    assert not made.is_allowed(*question)
    made.remove(acl("o", permission=DENY, pattern=PREFIXED))
    assert made.is_allowed(*question)
    made.remove(acl("ord", pattern=PREFIXED))
    made.remove(acl("ord", pattern=PREFIXED))
    assert not made.is_allowed(*question)
    assert len(made) == 0


@pytest.mark.parametrize("kind, bits", [(TOPIC, 0xDF8), (GROUP, 0xD48), (ResourceType.CLUSTER, 0x1FA0)])
def test_operations_of_a_super_user_are_all_of_the_type(kind: ResourceType, bits: int) -> None:
    assert authorizer(super_users=(ALICE,)).operations(ALICE, HOST, kind, "any") == bits


@pytest.mark.parametrize(
    "entries, allowed",
    [
        ([], False),
        ([acl()], True),
        ([acl(host=OTHER_HOST)], False),
        ([acl(operation=WRITE)], False),
        ([acl(kind=GROUP)], False),
        ([acl(), acl(permission=DENY)], False),
        ([acl(), acl("*", permission=DENY)], False),
        ([acl("*"), acl("t", permission=DENY)], True),
        ([acl("hardcode", permission=DENY), acl("*")], True),
        ([acl("abc"), acl("ab", permission=DENY, pattern=PREFIXED)], False),
        ([acl("abc", pattern=PREFIXED), acl("abc", permission=DENY, pattern=PREFIXED)], False),
        ([acl("abc", pattern=PREFIXED), acl("abcd", permission=DENY, pattern=PREFIXED)], True),
        ([acl("abc", pattern=PREFIXED), acl("abc", permission=DENY)], True),
        ([acl(), acl("*", permission=DENY, who=BOB)], True),
    ],
)
def test_some_resource_of_a_type(entries: list[Acl], allowed: bool) -> None:
    assert authorizer(*entries).is_allowed_by_type(ALICE, HOST, READ, TOPIC) is allowed


def test_the_cache_is_bounded() -> None:
    made = authorizer(acl("*"))
    for number in range(DECISIONS_MAX + 10):
        assert made.is_allowed(ALICE, HOST, READ, TOPIC, f"t{number}")
        made.operations(ALICE, HOST, TOPIC, f"t{number}")
    assert len(made._decisions) <= DECISIONS_MAX
    assert len(made._operations) <= DECISIONS_MAX
    count = len(made._decisions)
    assert made.is_allowed(ALICE, HOST, READ, TOPIC, "x" * (CACHED_NAME_MAX + 1))
    assert len(made._decisions) == count


@pytest.mark.parametrize(
    "wanted, found",
    [
        (AclFilter(), {"t", "*", "or"}),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), {"*", "or"}),
        (AclFilter(resource_name="t", pattern_type=PatternType.MATCH), {"*", "t"}),
        (AclFilter(resource_name="t", pattern_type=PatternType.ANY), {"t"}),
        (AclFilter(resource_name="or", pattern_type=LITERAL), set()),
        (AclFilter(resource_name="or", pattern_type=PREFIXED), {"or"}),
        (AclFilter(pattern_type=PREFIXED), {"or"}),
        (AclFilter(resource_type=GROUP), set()),
        (AclFilter(principal=BOB), {"*"}),
        (AclFilter(host=HOST), set()),
        (AclFilter(operation=WRITE), {"or"}),
        (AclFilter(permission=DENY), {"*"}),
    ],
)
def test_filters(wanted: AclFilter, found: set[str]) -> None:
    made = authorizer(acl("t"), acl("*", permission=DENY, who=BOB), acl("or", WRITE, pattern=PREFIXED))
    assert {each.resource_name for each in result_of(made.find(wanted))} == found


# The model: reads all entries

NAMES = ["a", "ab", "abc", "b", "*", "hardcode"]


def model(acls: list[Acl], question: tuple[str, str, Operation, ResourceType, str], *, allows_everyone: bool) -> bool:
    """What the text says, entry by entry."""
    principal, host, operation, kind, name = question
    concerning = [
        each
        for each in acls
        if each.resource_type == kind
        and (
            (each.pattern_type == LITERAL and each.resource_name in {name, "*"})
            or (each.pattern_type == PREFIXED and name.startswith(each.resource_name))
        )
    ]
    implied = {
        DESCRIBE: {DESCRIBE, READ, WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
    }
    for_client = [each for each in concerning if each.principal in {principal, EVERYBODY} and each.host in {host, "*"}]
    if any(each.permission == DENY and each.operation in {operation, ALL} for each in for_client):
        return False
    if any(each.permission == ALLOW and each.operation in {*implied.get(operation, {operation}), ALL} for each in for_client):
        return True
    return allows_everyone and not concerning


ENTRIES = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from([ALICE, BOB, EVERYBODY]),
    st.sampled_from([HOST, "*"]),
    st.sampled_from([ALL, READ, WRITE, DESCRIBE, Operation.CREATE, Operation.ALTER_CONFIGS]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
)
QUESTIONS = list(
    product([ALICE, BOB], [HOST, OTHER_HOST], [READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS], [TOPIC, GROUP], ["a", "ab", "abcd", "c"])
)


@given(st.lists(ENTRIES, max_size=12), st.lists(ENTRIES, max_size=6), st.booleans())
@examples(200)
def test_decisions_are_those_of_the_model(acls: list[Acl], removed: list[Acl], allows_everyone: bool) -> None:
    made = authorizer(*acls, *removed, allows_everyone=allows_everyone)
    for question in QUESTIONS[::7]:
        made.is_allowed(*question)  # fills the cache with what is no longer true
    for each in removed:
        made.remove(each)
    left = [each for each in dict.fromkeys(acls) if each not in removed]
    for question in QUESTIONS:
        assert made.is_allowed(*question) is model(left, question, allows_everyone=allows_everyone), question
        assert made.is_allowed(*question) is model(left, question, allows_everyone=allows_everyone), question
    for kind in (TOPIC, GROUP):
        bits = made.operations(ALICE, HOST, kind, "ab")
        for operation in OPERATIONS[kind]:
            expected = model(left, (ALICE, HOST, operation, kind, "ab"), allows_everyone=allows_everyone)
            assert bool(bits & 1 << operation) is expected


def test_rights_of_clients_are_bounded_and_end_with_the_next_change() -> None:
    made = authorizer(acl("*"))
    rights = made.rights(ALICE, HOST)
    rights.keep(1, "t")
    rights.keep(1, "x" * (CACHED_NAME_MAX + 1))
    assert rights.allowed[1] == {"t"}
    assert made.rights(ALICE, HOST) is rights
    made.add(acl("other"))
    assert made.rights(ALICE, HOST) is not rights
    assert (rights.is_current, made.rights(ALICE, HOST).is_current) == (False, True)
    for number in range(RIGHTS_MAX + 10):
        made.rights(ALICE, HOST).keep(1, f"t{number}")
    assert len(made.rights(ALICE, HOST).allowed[1]) < RIGHTS_MAX
