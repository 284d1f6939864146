"""Check and find SCRAM credentials (RFC 5802, KIP-554), stored as UserScramCredentialRecords of the metadata log.

The client sends the salted password. Only two keys derived from it are stored, with which a client cannot log in:

    stored_key = H(HMAC(salted_password, "Client Key"))        server_key = HMAC(salted_password, "Server Key")

Checks and messages are those of Apache Kafka 4.3.1 (ScramControlManager).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from minibroker.cluster.metadata.frame import METADATA_VERSION_FEATURE
from minibroker.cluster.metadata.kept_records import KeptRecords
from minibroker.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from minibroker.schemas.internal.security_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

HASHES: Final = {1: "sha256", 2: "sha512"}  #: by mechanism: SCRAM-SHA-256, SCRAM-SHA-512
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
METADATA_VERSION_SINCE: Final = 11  #: metadata.version 3.5-IV2


class ScramDeletion(NamedTuple):
    """Remove a user's credential for one mechanism."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """Set a user's credential for one mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


def alter(
    kept: KeptRecords, features: Mapping[str, int], changes: Sequence[ScramDeletion | ScramUpsertion]
) -> tuple[list[Any], dict[str, KafkaError | None]]:
    """Check changes. A user with two changes is rejected (DuplicateResource), unless the first change has its own error.

    Returns:
        The records of valid changes, and for each user the error or None, valid ones first.
    """
    alterations: dict[str, ScramDeletion | ScramUpsertion] = {}
    refused: dict[str, KafkaError | None] = {}
    for change in changes:
        if change.user in refused:
            continue
        try:
            if alterations.pop(change.user, None) is not None:
                raise DuplicateResource("A user credential cannot be altered twice in the same request")
            _check(kept, features, change)
            alterations[change.user] = change
        except KafkaError as error:
            refused[change.user] = error
    return [record_of(change) for change in alterations.values()], dict.fromkeys(alterations) | refused


def described(kept: KeptRecords, user: str) -> list[tuple[int, int]]:
    """Return (mechanism, iterations) of a user's credentials. Raise ResourceNotFound if there is none."""
    found = [
        (mechanism, kept.scram_credentials[user, mechanism].iterations)
        for mechanism in HASHES
        if (user, mechanism) in kept.scram_credentials
    ]
    if not found:
        raise ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")
    return found


def users(kept: KeptRecords) -> list[str]:
    """Return the users of all credentials, in the order of creation. A user with several credentials is listed several times."""
    return [user for user, mechanism in kept.scram_credentials if mechanism in HASHES]


def _check(kept: KeptRecords, features: Mapping[str, int], change: ScramDeletion | ScramUpsertion) -> None:
    if features.get(METADATA_VERSION_FEATURE, 0) < METADATA_VERSION_SINCE:
        raise UnsupportedVersion("The current metadata.version does not support SCRAM")
    if not change.user:
        raise UnacceptableCredential("Username must not be empty")
    if change.mechanism not in HASHES:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if (change.user, change.mechanism) not in kept.scram_credentials:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
    elif change.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    elif change.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")


def record_of(change: ScramDeletion | ScramUpsertion) -> Any:
    """Return the record of a checked change."""
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    name = HASHES[change.mechanism]
    client_key = hmac.digest(change.salted_password, b"Client Key", name)
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(change.salted_password, b"Server Key", name),
        iterations=change.iterations,
    )
