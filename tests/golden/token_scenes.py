"""Requests about delegation tokens, in an order: what each user gets from Apache Kafka (captures/delegation_tokens.py) and from minibroker.

`play` notes answers in words that are equal for two brokers: tokens by number, times in seconds since a token was issued or since now.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas import k39_renew_delegation_token as k39
from minibroker.schemas import k40_expire_delegation_token as k40
from minibroker.schemas import k41_describe_delegation_token as k41

ANSWERS: Final = Path(__file__).parent / "delegation_tokens_kafka_4.3.1.json"
SECRET: Final = "the key of these tests"
ALICE, BOB, CAROL, DAVE, EVE, FRANK, ADMIN = "alice", "bob", "carol", "dave", "eve", "frank", "admin"
USERS: Final = (ALICE, BOB, CAROL, DAVE, EVE, FRANK)
PLAIN: Final = ""  #: a client of the listener without authentication
TOKEN: Final = "token "  #: followed by the number of a token: a client that has logged in with it
ACLS: Final = ("carol CREATE_TOKENS USER User:bob", "eve DESCRIBE DELEGATION_TOKEN *", "frank DESCRIBE_TOKENS USER User:alice")
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
_UNKNOWN: Final = bytes(64)

Notes = list[list[Any]]


class Scenes:
    """One play of the scenes on a broker."""

    def __init__(
        self, ask: Callable[[str, Any, int], Any], login: Callable[[str, str, bytes], None], pass_time: Callable[[int], None]
    ) -> None:
        """`ask` sends a request of a user at a version, `login` names a client that logs in with a token, `pass_time` waits so many ms."""
        self._ask, self._login, self._pass_time = ask, login, pass_time
        self.notes: Notes = []
        self._tokens: list[tuple[str, bytes]] = []

    def create(
        self, user: str, *renewers: str, version: int = 3, owner: tuple[str | None, str | None] = (None, None), lifetime_ms: int = -1
    ) -> int:
        """Note the answer; return the number of the token."""
        requested = [k38.Renewer(principal_type=kind, principal_name=name) for kind, _, name in (each.partition(":") for each in renewers)]
        about = {} if version < 3 else {"owner_principal_type": owner[0], "owner_principal_name": owner[1]}
        answer = self._ask(user, k38.Request(renewers=requested, max_lifetime_ms=lifetime_ms, **about), version)
        issued = answer.issue_timestamp_ms
        times = [answer.expiry_timestamp_ms - issued, answer.max_timestamp_ms - issued] if issued > 0 else [issued]
        if not answer.error_code:
            self._tokens.append((answer.token_id, answer.hmac))
            self._settle(len(self._tokens) - 1, answer.expiry_timestamp_ms)
            assert answer.hmac == hmac.digest(SECRET.encode(), answer.token_id.encode(), "sha512")
        else:
            assert (answer.token_id, answer.hmac, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == ("", b"", issued, issued)
        owner_and_requester = [
            answer.principal_type,
            answer.principal_name,
            answer.token_requester_principal_type,
            answer.token_requester_principal_name,
        ]
        self.notes.append(
            ["create", user, list(renewers), version, list(owner), lifetime_ms, answer.error_code, owner_and_requester, times]
        )
        return len(self._tokens) - 1

    def renew(self, user: str, token: int | None, period_ms: int, version: int = 2) -> None:
        answer = self._ask(user, k39.Request(hmac=self._hmac(token), renew_period_ms=period_ms), version)
        if not answer.error_code and token is not None:
            self._settle(token, answer.expiry_timestamp_ms)
        self.notes.append(["renew", user, token, period_ms, version, answer.error_code, self._after(answer)])

    def expire(self, user: str, token: int | None, period_ms: int, version: int = 2) -> None:
        answer = self._ask(user, k40.Request(hmac=self._hmac(token), expiry_time_period_ms=period_ms), version)
        self.notes.append(["expire", user, token, period_ms, version, answer.error_code, self._after(answer)])
        if not answer.error_code and token is not None:
            self._settle(token, None if period_ms < 0 else answer.expiry_timestamp_ms)
        self._pass_time(50)  # an expiry of now is over

    def describe(self, user: str, owners: list[str] | None, version: int = 3) -> None:
        requested = None if owners is None else [k41.Owner(principal_type="User", principal_name=owner) for owner in owners]
        answer = self._ask(user, k41.Request(owners=requested), version)
        numbers = {token_id: number for number, (token_id, _) in enumerate(self._tokens)}
        assert all(each.hmac == dict(self._tokens)[each.token_id] for each in answer.tokens)
        found = sorted(
            [
                numbers[each.token_id],
                each.principal_name,
                each.token_requester_principal_name,
                [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers],
                (each.max_timestamp - each.issue_timestamp) // 1000,
            ]
            for each in answer.tokens
        )
        self.notes.append(["describe", user, owners, version, answer.error_code, found])

    def login(self, token: int) -> str:
        """Return the name of a client that has logged in with a token."""
        name = f"{TOKEN}{token}"
        self._login(name, *self._tokens[token])
        return name

    def _settle(self, token: int, expiry_ms: int | None) -> None:
        """Wait until the broker has heard of a change from its controller."""
        for _ in range(200):
            listed = {each.token_id: each.expiry_timestamp for each in self._ask(ADMIN, k41.Request(owners=None), 3).tokens}
            if listed.get(self._tokens[token][0]) == expiry_ms:
                return
            self._pass_time(20)
        raise AssertionError(f"token {token} does not become one that expires at {expiry_ms}")

    def _hmac(self, token: int | None) -> bytes:
        return _UNKNOWN if token is None else self._tokens[token][1]

    def _after(self, answer: Any) -> int:
        """Seconds from the issue of the first token, which is almost now; or the number that stands for no time."""
        moment: int = answer.expiry_timestamp_ms
        if moment <= 0:
            return moment
        listed = self._ask(ADMIN, k41.Request(owners=None), 3).tokens
        first: int = min((each.issue_timestamp for each in listed), default=moment)
        return round((moment - first) / 100_000) * 100


def play(scenes: Scenes) -> Notes:
    """With a secret key, and an authorizer with `ACLS`."""
    first = scenes.create(ALICE)  # number 0 stays until the end
    for version in (1, 2, 3):
        scenes.create(ALICE, "User:bob", version=version)
    scenes.create(ALICE, lifetime_ms=HOUR_MS)
    scenes.create(ALICE, lifetime_ms=0)
    scenes.create(ALICE, lifetime_ms=8 * DAY_MS)
    scenes.create(ALICE, "User:bob", "Group:staff")
    scenes.create(ALICE, "User:bob", "User:bob", "User:")
    scenes.create(ALICE, owner=("User", ALICE))
    scenes.create(ALICE, owner=("User", BOB))
    scenes.create(ALICE, "Group:staff", owner=("User", BOB))
    scenes.create(ALICE, owner=("User", ""))
    of_bob = scenes.create(CAROL, "User:dave", owner=("User", BOB))
    scenes.create(CAROL, owner=("User", DAVE))
    scenes.create(ADMIN, owner=("User", DAVE))
    scenes.create(PLAIN, "Group:staff", owner=("User", BOB))
    scenes.create(PLAIN, version=1)
    for user in (PLAIN, ALICE, BOB, CAROL, DAVE, EVE, FRANK, ADMIN):
        for owners in (None, [], [ALICE], [BOB], [CAROL, DAVE], [EVE]):
            scenes.describe(user, owners)
    for version in (1, 2):
        scenes.describe(BOB, None, version)
    for user in (ALICE, PLAIN, ADMIN, CAROL):
        scenes.renew(user, None, -1)
        scenes.expire(user, None, -1)
        scenes.renew(user, of_bob, -1)
        scenes.expire(user, of_bob, HOUR_MS)
    for user in (BOB, DAVE):
        for period_ms in (-1, 0, HOUR_MS, 30 * DAY_MS):
            scenes.renew(user, of_bob, period_ms, 1)
        for period_ms in (HOUR_MS, 30 * DAY_MS):
            scenes.expire(user, of_bob, period_ms, 1)
    scenes.expire(BOB, of_bob, 0)
    for user in (BOB, CAROL):
        scenes.renew(user, of_bob, HOUR_MS)
        scenes.expire(user, of_bob, HOUR_MS)
    scenes.describe(BOB, [BOB])
    scenes.expire(CAROL, of_bob, -1)
    scenes.expire(DAVE, of_bob, -1)
    scenes.expire(DAVE, of_bob, -1)
    scenes.describe(BOB, [BOB])
    client = scenes.login(first)
    scenes.create(client)
    scenes.renew(client, first, -1)
    scenes.expire(client, first, -1)
    scenes.describe(client, None)
    return scenes.notes


def play_without_key(scenes: Scenes) -> Notes:
    """Without a secret key."""
    for user in (ALICE, ADMIN, PLAIN):
        scenes.create(user)
        scenes.create(user, "Group:staff")
        scenes.create(user, owner=("User", BOB), version=3)
        scenes.create(user, version=1)
        scenes.renew(user, None, -1)
        scenes.expire(user, None, -1)
        scenes.describe(user, None)
        scenes.describe(user, [])
    return scenes.notes


def play_odd_owners(scenes: Scenes) -> Notes:
    """Tokens for owners that are not users, requested by a super user: minibroker differs."""
    scenes.create(ADMIN, owner=("Group", "staff"))
    scenes.create(ADMIN, owner=("", "staff"))
    return scenes.notes
