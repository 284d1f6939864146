"""The delegation tokens of the metadata log (DelegationTokenRecord), found by id and by HMAC, and the removal of expired ones.

A record does not contain the HMAC: `delegation.token.secret.key` must stay the same, or the passwords of all tokens change.
Changes are in force when they are on disk. The rules are in security/tokens.py.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.metadata.frame import METADATA_VERSION_FEATURE
from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import KafkaError, UnsupportedVersion
from minibroker.schemas.internal.security_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from minibroker.security.scram import ITERATIONS_MIN, ScramCredential, ScramToken, derive, new_salt
from minibroker.security.tokens import DelegationToken, TokenRules, check_counts

log = logging.getLogger(__name__)

SECRET_KEY: Final = "delegation.token.secret.key"  # noqa: S105  the name of a property
_SINCE: Final = 14  #: metadata.version 3.6-IV2


class StoredTokens:
    """The tokens of a cluster. It alone writes their records."""

    def __init__(
        self,
        records: Iterable[DelegationTokenRecord],
        commit: Callable[[Sequence[Any]], None],
        rules: TokenRules,
        clock: Clock,
        *,
        metadata_version: Callable[[], int],
        check_interval_ms: int,
    ) -> None:
        """Read the tokens that exist.

        Args:
            records: those of the tokens that exist.
            commit: writes records to the metadata log, all of them or none.
            rules: the secret key and the life times.
            clock: the time of expiry, and the timer of `start`.
            metadata_version: returns the level of the feature in force.
            check_interval_ms: delegation.token.expiry.check.interval.ms.
        """
        self.rules = rules
        self._commit = commit
        self._clock = clock
        self._metadata_version = metadata_version
        self._check_interval_ms = check_interval_ms
        self._timer: Timer | None = None
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}  #: token ids by HMAC
        self._credentials: dict[str, dict[str, ScramCredential]] = {}  #: by token id and mechanism, since the first login
        for record in records:
            self._put(token_of(record))

    def __iter__(self) -> Iterator[DelegationToken]:
        """Yield all tokens in the order of their creation, expired ones as well until they are removed."""
        return iter(self._tokens.values())

    def create(self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int) -> DelegationToken:
        """Create a token, or raise what `TokenRules.created` and `check_counts` raise."""
        self._check_version()
        token = self.rules.created(owner, requester, renewers, max_lifetime_ms, self._clock.now_ms())
        check_counts(self, requester)
        self._write(token)
        return token

    def renew(self, token_hmac: bytes, principal: str, period_ms: int) -> DelegationToken:
        """Let a token expire later, or raise what `TokenRules.renewed` raises."""
        self._check_version()
        token = self.rules.renewed(self._find(token_hmac), principal, period_ms, self._clock.now_ms())
        self._write(token)
        return token

    def expire(self, token_hmac: bytes, principal: str, period_ms: int) -> int:
        """Let a token expire earlier, or remove it. Returns its expiry: now, if it is removed. Raises what `TokenRules.expired` raises."""
        self._check_version()
        now_ms, known = self._clock.now_ms(), self._find(token_hmac)
        token = self.rules.expired(known, principal, period_ms, now_ms)
        if token is not None:
            self._write(token)
            return token.expiry_ms
        if known is not None:
            self._remove([known.token_id])
        return now_ms

    def login(self, mechanism: str, token_id: str) -> ScramToken | None:
        """Return what a client must prove that logs in with a token now; None if the token is unknown or expired.

        The keys of its password are derived at the first login with the mechanism, which takes about 2 ms.
        """
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._clock.now_ms()) or not token.is_of_user:
            return None
        credentials = self._credentials.setdefault(token_id, {})
        if mechanism not in credentials:
            credentials[mechanism] = derive(mechanism, self.rules.password_of(token_id), new_salt(), ITERATIONS_MIN)
        return ScramToken(credentials[mechanism], token.owner.partition(":")[2], token.expiry_ms)

    def start(self) -> None:
        """Remove expired tokens at each interval from now on."""
        self._timer = self._clock.call_later_ms(self._check_interval_ms, self._sweep)

    def stop(self) -> None:
        """Stop removing expired tokens."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def remove_expired(self) -> None:
        """Remove expired tokens. Raise KafkaStorageError if the metadata log cannot be written."""
        now_ms = self._clock.now_ms()
        expired = iter([token for token in self if token.is_expired(now_ms)])
        while batch := list(islice(expired, RECORDS_IN_BATCH_MAX)):
            self._remove([token.token_id for token in batch])
            for token in batch:
                log.info("removed the expired delegation token %s of %s", token.token_id, ascii(token.owner))

    def _sweep(self) -> None:
        try:
            self.remove_expired()
        except KafkaError as error:
            log.warning("could not remove expired delegation tokens: %s (no client can log in with them; will retry)", error)
        self.start()

    def _check_version(self) -> None:
        if self._metadata_version() < _SINCE:
            raise UnsupportedVersion("The current metadata.version does not support delegation tokens")

    def _find(self, token_hmac: bytes) -> DelegationToken | None:
        # A dictionary compares keys whose hashes are equal. Python's hashes of bytes depend on a random key of the process, so the time of
        # a look-up does not help to guess an HMAC.
        token = self._tokens.get(self._ids.get(token_hmac, ""))
        return token if token is not None and hmac.compare_digest(self.rules.hmac_of(token.token_id), token_hmac) else None

    def _write(self, token: DelegationToken) -> None:
        self._commit([record_of(token)])
        self._put(token)

    def _put(self, token: DelegationToken) -> None:
        self._tokens[token.token_id] = token
        self._ids[self.rules.hmac_of(token.token_id)] = token.token_id

    def _remove(self, token_ids: Sequence[str]) -> None:
        self._commit([RemoveDelegationTokenRecord(token_id=token_id) for token_id in token_ids])
        for token_id in token_ids:
            del self._tokens[token_id]
            del self._ids[self.rules.hmac_of(token_id)]
            self._credentials.pop(token_id, None)


def open_tokens(config: BrokerConfig, metadata: MetadataStore, clock: Clock) -> StoredTokens | None:
    """Return the tokens of a metadata log, with the properties delegation.token.*; None if there is no secret key."""
    properties = ListenerProperties(config.security_texts, "")
    key = properties.secret(SECRET_KEY)
    if not key:
        return None
    rules = TokenRules(
        key.reveal().encode(),
        properties.integer("delegation.token.max.lifetime.ms"),
        properties.integer("delegation.token.expiry.time.ms"),
    )
    return StoredTokens(
        metadata.image.kept.delegation_tokens.values(),
        metadata.commit,
        rules,
        clock,
        metadata_version=lambda: metadata.image.features[METADATA_VERSION_FEATURE],
        check_interval_ms=properties.integer("delegation.token.expiry.check.interval.ms"),
    )


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """Return the token of a record."""
    return DelegationToken(
        record.token_id,
        record.owner,
        record.requester,
        tuple(record.renewers),
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )


def record_of(token: DelegationToken) -> DelegationTokenRecord:
    """Return the record that stores a token."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expiry_ms,
        token_id=token.token_id,
    )
