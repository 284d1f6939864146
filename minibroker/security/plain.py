"""PLAIN (RFC 4616): the client sends its name and its password.

    message = [authorization id] NUL name NUL password

Users are the options `user_NAME="PASSWORD"` of PlainLoginModule. Messages are those of Apache Kafka 4.3.1 (PlainSaslServer).
Passwords are kept and compared as keyed digests: a comparison takes the same time for every password and for unknown users.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from minibroker.security.jaas import PLAIN_LOGIN_MODULE, JaasEntry
from minibroker.security.sasl_session import OTHER_AUTHORIZATION_ID, SaslFailed

_PREFIX: Final = "user_"
INVALID: Final = "Authentication failed: Invalid username or password"


class PlainUsers:
    """The users of a listener and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {name: self._digest(password) for name, password in passwords.items() if name and password}
        self._unknown = secrets.token_bytes(32)  #: compared for unknown users; the digest of no password

    def is_valid(self, name: str, password: str) -> bool:
        """Whether a user has this password."""
        expected = self._digests.get(name)
        is_equal = hmac.compare_digest(self._unknown if expected is None else expected, self._digest(password))
        return is_equal and expected is not None

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(errors="surrogatepass"), "sha256")


def users_of(entries: Iterable[JaasEntry]) -> PlainUsers:
    """Return the users in the JAAS configuration of a listener."""
    options = [entry.options for entry in entries if entry.login_module == PLAIN_LOGIN_MODULE]
    found = {name.removeprefix(_PREFIX): value for each in options for name, value in each.items() if name.startswith(_PREFIX)}
    return PlainUsers(found)


class PlainServer:
    """The server side of one exchange."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.is_complete = False
        self.principal_name = ""
        self.expires_ms: int | None = None
        self.is_token_authenticated = False
        self.refusal = ""

    def evaluate(self, token: bytes) -> bytes:
        """Check name and password. The answer to a valid pair is empty.

        Raises:
            SaslFailed: the message is malformed, or name and password do not belong together.
        """
        parts = token.decode(errors="replace").split("\0", 4)
        if len(parts) != 3:
            raise _failed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        authorization_id, name, password = parts
        if not name:
            raise _failed("Authentication failed: username not specified")
        if not password:
            raise _failed("Authentication failed: password not specified")
        if not self._users.is_valid(name, password):
            raise _failed(INVALID)
        if authorization_id not in ("", name):
            raise _failed(OTHER_AUTHORIZATION_ID)
        self.principal_name = name
        self.is_complete = True
        return b""


def _failed(message: str) -> SaslFailed:
    return SaslFailed(message, message)
