"""SCRAM credentials as an administrator sets and reads them, in few words."""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from tests.support.broker_in_memory import BrokerInMemory

SHA_256, SHA_512 = 1, 2
Told = dict[str, tuple[int, str | None]]  #: user -> error code, message


def upsertion(
    user: str, mechanism: int = SHA_256, iterations: int = 4096, *, salt: bytes = b"salt", salted_password: bytes = bytes(32)
) -> k51.Upsertion:
    """A password as the client has hashed it."""
    return k51.Upsertion(name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password)


def alter(broker: BrokerInMemory, upsertions: Sequence[k51.Upsertion] = (), deletions: Sequence[tuple[str, int]] = ()) -> Told:
    """What became of each user."""
    gone = [k51.Deletion(name=user, mechanism=mechanism) for user, mechanism in deletions]
    answer = broker.ask(k51.Request(deletions=gone, upsertions=list(upsertions)))
    assert len({each.user for each in answer.results}) == len(answer.results)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def describe(broker: BrokerInMemory, *users: str) -> dict[str, list[tuple[int, int]]]:
    """(mechanism, iterations) of users, or of all, all of whom have some."""
    answer = broker.ask(k50.Request(users=[k50.User(name=user) for user in users] or None))
    assert {answer.error_code, *(each.error_code for each in answer.results)} == {0}
    return {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in answer.results}
