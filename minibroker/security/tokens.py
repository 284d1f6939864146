"""The rules of delegation tokens (KIP-48, KIP-373): who may change one, until when it is valid, and its password.

A token is a second password of its owner, for applications on machines that must not have the first. A client logs in by SCRAM
with the extension `tokenauth=true`: the user name is the token's id, the password the base64 text of its HMAC.

    HMAC = HMAC-SHA-512(delegation.token.secret.key, token id)

Nothing stores an HMAC: it follows from the key and the id. Rules and the order of the checks are those of Apache Kafka 4.3.1
(DelegationTokenControlManager). Times are in ms since 1970.
"""

from __future__ import annotations

import base64
import hmac
import uuid
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minibroker.config.request_limits import (
    DELEGATION_TOKENS_MAX,
    DELEGATION_TOKENS_OF_REQUESTER_MAX,
    TOKEN_PRINCIPAL_SIZE_MAX,
    TOKEN_RENEWERS_MAX,
)
from minibroker.errors import (
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
    PolicyViolation,
)

USER: Final = "User"  #: the only type of principals that own or renew tokens
_LAST_TIME: Final = (1 << 63) - 1


class DelegationToken(NamedTuple):
    """One token. Principals are `Type:name`."""

    token_id: str
    owner: str
    requester: str  #: the principal that requested it
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int  #: no renewal beyond it
    expiry_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether it can no longer be used to log in. It is valid up to and including its last millisecond."""
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    @property
    def is_of_user(self) -> bool:
        """Whether its owner can log in with it. Apache Kafka also issues tokens for principals of other types."""
        return self.owner.startswith(f"{USER}:")

    def is_renewable_by(self, principal: str) -> bool:
        """Whether a principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether it is a token of this principal: as its owner, its requester or a renewer."""
        return self.is_renewable_by(principal) or principal == self.requester


class TokenRules(NamedTuple):
    """The properties delegation.token.*."""

    secret_key: bytes
    max_lifetime_ms: int
    expiry_time_ms: int

    def __repr__(self) -> str:
        """Hide the key."""
        return f"TokenRules([hidden], {self.max_lifetime_ms}, {self.expiry_time_ms})"

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        return hmac.digest(self.secret_key, token_id.encode(), "sha512")

    def password_of(self, token_id: str) -> bytes:
        """Return the password of a token, which is a credential like a user's."""
        return base64.b64encode(self.hmac_of(token_id))

    def created(self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int, now_ms: int) -> DelegationToken:
        """Return a new token.

        Raises:
            InvalidPrincipalType: the owner or a renewer is not a user. Apache Kafka allows owners of any type, whose token then logs in as
                the user of that name.
            PolicyViolation: it has too many renewers, or a principal is too long.
        """
        if len(renewers) > TOKEN_RENEWERS_MAX:
            raise PolicyViolation(f"A delegation token may have {TOKEN_RENEWERS_MAX} renewers at most.")
        if max(map(len, (owner, *renewers))) > TOKEN_PRINCIPAL_SIZE_MAX:
            raise PolicyViolation(f"A principal of a delegation token may have {TOKEN_PRINCIPAL_SIZE_MAX} characters at most.")
        if any(not principal.startswith(f"{USER}:") for principal in (owner, *renewers)):
            raise InvalidPrincipalType("Only principals of the type User own or renew delegation tokens.")
        lifetime_ms = min(self.max_lifetime_ms, max_lifetime_ms) if max_lifetime_ms > 0 else self.max_lifetime_ms
        max_ms = _later(now_ms, lifetime_ms)
        expiry_ms = min(max_ms, _later(now_ms, self.expiry_time_ms))
        return DelegationToken(new_token_id(), owner, requester, tuple(renewers), now_ms, max_ms, expiry_ms)

    def renewed(self, token: DelegationToken | None, principal: str, period_ms: int, now_ms: int) -> DelegationToken:
        """Return the token as a renewal leaves it; None stands for an unknown one.

        Raises:
            DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch: as in Apache Kafka, in this order.
        """
        if token is None:
            raise DelegationTokenNotFound("Delegation Token is not found on server.")
        _check_valid(token, now_ms)
        _check_renewable(token, principal)
        after_ms = min(self.expiry_time_ms, period_ms) if period_ms > 0 else self.expiry_time_ms
        return token._replace(expiry_ms=min(token.max_ms, _later(now_ms, after_ms)))

    @staticmethod
    def expired(token: DelegationToken | None, principal: str, period_ms: int, now_ms: int) -> DelegationToken | None:
        """Return the token with another expiry; None if it must be removed, because the period is negative.

        Raises:
            DelegationTokenNotFound, DelegationTokenOwnerMismatch, DelegationTokenExpired: as in Apache Kafka, in this order. An expired
                token can still be removed.
        """
        if token is None:
            raise DelegationTokenNotFound("Delegation Token is not found on server.")
        _check_renewable(token, principal)
        if period_ms < 0:
            return None
        _check_valid(token, now_ms)
        return token._replace(expiry_ms=min(token.max_ms, _later(now_ms, period_ms)))


def check_counts(tokens: Iterable[DelegationToken], requester: str) -> None:
    """Raise PolicyViolation if no further token may be created, so that one client cannot fill the metadata log."""
    total = own = 0
    for token in tokens:
        total += 1
        own += token.requester == requester
    if total >= DELEGATION_TOKENS_MAX:
        raise PolicyViolation(f"There are {DELEGATION_TOKENS_MAX} delegation tokens already. Expire some of them first.")
    if own >= DELEGATION_TOKENS_OF_REQUESTER_MAX:
        raise PolicyViolation(
            f"{requester} has requested {DELEGATION_TOKENS_OF_REQUESTER_MAX} delegation tokens already. Expire some of them first."
        )


def new_token_id() -> str:
    """Return a random id in Kafka's form, which never starts with a dash (Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _check_valid(token: DelegationToken, now_ms: int) -> None:
    if token.is_expired(now_ms):
        raise DelegationTokenExpired("Delegation Token is expired.")


def _check_renewable(token: DelegationToken, principal: str) -> None:
    if not token.is_renewable_by(principal):
        raise DelegationTokenOwnerMismatch("Specified Principal is not valid Owner/Renewer.")


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _LAST_TIME)
