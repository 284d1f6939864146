"""The methods with which a test injects a fault: `inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders").times(3)`.

The first method selects what happens and to which requests. The last one (once, times, on_call,
probability, always) selects how often, and starts the fault. `Made` is the handle that it returns:
a Fault, or one that is awaited. Each first method is a command of `minibroker lab faults`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from minibroker.testing.lab.declaration import Option

Made = TypeVar("Made")

_When = Annotated[str, Option("Before or after the work is done.", choices=("before", "after"))]
_User = Annotated[str | None, Option("Logins of this user.  [default: all users]", "NAME")]
_Subject = Annotated[str | None, Option("Requests about this subject.  [default: all requests]", "NAME")]
_Path = Annotated[str | None, Option("Requests with this path, in which * stands for any text: '/schemas/ids/*'.", "PATTERN")]
_Method = Annotated[str | None, Option("Requests with this method.", choices=("GET", "POST", "PUT", "DELETE"))]
_Partition = Annotated[int | None, Option("One partition of it.", "N", minimum=0)]


class Phrase(Generic[Made]):
    """A fault without its frequency.

    It starts when a method is called; if none is, there is a warning.
    """

    def __init__(self, make: Callable[[dict[str, Any]], Made]) -> None:
        self._make = make
        self._is_started = False

    def __del__(self) -> None:
        if not self._is_started:
            warnings.warn("this fault never happens: it needs .once(), .times(n), .on_call(n), .probability(p) or .always()", stacklevel=2)

    def _start(self, often: dict[str, Any]) -> Made:
        self._is_started = True
        return self._make(often)

    def once(self) -> Made:
        """Hit the first call."""
        return self.times(1)

    def times(self, count: int) -> Made:
        """Hit the first `count` calls."""
        return self._start({"times": count})

    def on_call(self, number: int) -> Made:
        """Hit call `number` alone, counted from 1."""
        return self._start({"call": number})

    def probability(self, probability: float, *, seed: int = 1) -> Made:
        """Hit each call with a probability from 0 to 1; the same calls with the same seed."""
        return self._start({"probability": probability, "seed": seed})

    def always(self) -> Made:
        """Hit every call until the fault is removed."""
        return self._start({})


class FaultPhrases(Generic[Made]):
    """The kinds of faults.

    `api` is Kafka's name, "Produce". A fault is for all requests of it unless `scope` chooses some.

    Of several partitions in a request only that of the scope is rejected. The scope names the
    topic, partition, group or transactional_id that the request is about, the client_id that sent
    it, or the node (broker) that received it.
    """

    def _made(self, name: str, arguments: dict[str, Any]) -> Made:
        """Execute an operation that injects a fault."""
        raise NotImplementedError

    def _phrase(self, kind: str, api: str, scope: dict[str, Any], **more: Any) -> Phrase[Made]:
        rule = {"kind": kind, "api": api} | {name: value for name, value in (more | scope).items() if value is not None}
        return Phrase(lambda often: self._made("faults.inject", {"rule": rule | {"often": often}}))

    def _login(self, kind: str, **more: Any) -> Phrase[Made]:
        rule = {"kind": kind} | {name: value for name, value in more.items() if value is not None and value is not False}
        return Phrase(lambda often: self._made("faults.login", {"rule": rule | {"often": often}}))

    def _registry(self, kind: str, subject: str | None, path: str | None, method: str | None, **more: Any) -> Phrase[Made]:
        found = {"subject": subject, "path": path, "method": method} | more
        rule = {"kind": kind} | {name: value for name, value in found.items() if value is not None and value is not False}
        return Phrase(lambda often: self._made("faults.registry", {"rule": rule | {"often": often}}))

    def inject(
        self,
        api: str,
        error: str,
        *,
        after: Annotated[bool, Option("Do the work, then answer with the error.")] = False,
        **scope: str | int | None,
    ) -> Phrase[Made]:
        """Answer requests with an error.

        API and error have Kafka's names, such as Produce and NOT_LEADER_OR_FOLLOWER.
        """
        return self._phrase("error", api, scope, error=error, after=after or None)

    def delay(
        self,
        api: str,
        ms: Annotated[int, Option("Milliseconds by the broker's clock.", minimum=0)],
        *,
        when: _When = "after",
        **scope: str | int | None,
    ) -> Phrase[Made]:
        """Answer requests later."""
        return self._phrase("delay", api, scope, ms=ms, when=when)

    def throttle(
        self, api: str, ms: Annotated[int, Option("throttle_time_ms of the response.", minimum=0)], **scope: str | int | None
    ) -> Phrase[Made]:
        """Make clients slow down.

        They find the time in throttle_time_ms. The broker reads nothing from them for that time, as
        Kafka does above a quota.
        """
        return self._phrase("throttle", api, scope, ms=ms)

    def disconnect(self, api: str, *, when: _When = "before", **scope: str | int | None) -> Phrase[Made]:
        """Cut connections instead of answering."""
        return self._phrase("disconnect", api, scope, when=when)

    def tear(
        self,
        api: str,
        *,
        size: Annotated[int, Option("Bytes of the response to send, including the 4 bytes of its size.", "BYTES", minimum=0)],
        **scope: str | int | None,
    ) -> Phrase[Made]:
        """Send part of the response, then cut the connection."""
        return self._phrase("tear", api, scope, size=size)

    def silence(self, api: str, *, when: _When = "before", **scope: str | int | None) -> Phrase[Made]:
        """Never answer.

        The connection stays open.
        """
        return self._phrase("silence", api, scope, when=when)

    def certificate(self, problem: str) -> Phrase[Made]:
        """Present a certificate that clients reject.

        The problem is expired, not_yet_valid, wrong_host or unknown_ca. Open connections stay. Each
        TLS handshake counts as one call.
        """
        return self._login("certificate", problem=problem)

    def refuse_login(self, user: _User = None) -> Phrase[Made]:
        """Reject a correct password as if it were wrong.

        Open connections stay.
        """
        return self._login("refuse_login", user=user)

    def revoke(
        self,
        user: str,
        *,
        keep_connections: Annotated[bool, Option("Leave open connections alone, as Kafka does, until they log in again.")] = False,
    ) -> Phrase[Made]:
        """Take a user's access away in the middle of a session.

        Closes its connections, and rejects its correct password as if it were wrong.
        """
        return self._login("revoke", user=user, keep_connections=keep_connections)

    def delay_login(
        self, ms: Annotated[int, Option("Milliseconds by the broker's clock.", minimum=1)], *, user: _User = None
    ) -> Phrase[Made]:
        """Answer logins later.

        Other clients do not wait.
        """
        return self._login("delay_login", ms=ms, user=user)

    def shorten_sessions(
        self, ms: Annotated[int, Option("Milliseconds by the broker's clock.", minimum=1)], *, user: _User = None
    ) -> Phrase[Made]:
        """End the sessions of later logins after a time.

        Clients must log in again before that, as with connections.max.reauth.ms. A later request
        closes the connection.
        """
        return self._login("shorten_sessions", ms=ms, user=user)

    def registry_error(
        self,
        status: Annotated[int, Option("The HTTP status, from 400 to 599.", minimum=400)] = 503,
        *,
        error_code: Annotated[int | None, Option("Confluent's error code.  [default: the status]", minimum=400)] = None,
        after: Annotated[bool, Option("Do the work, then answer with the error.")] = False,
        subject: _Subject = None,
        path: _Path = None,
        method: _Method = None,
    ) -> Phrase[Made]:
        """Answer requests to the schema registry with an error."""
        return self._registry("error", subject, path, method, status=status, error_code=error_code, after=after)

    def registry_delay(
        self,
        ms: Annotated[int, Option("Milliseconds by the broker's clock.", minimum=0)],
        *,
        subject: _Subject = None,
        path: _Path = None,
        method: _Method = None,
    ) -> Phrase[Made]:
        """Answer requests to the schema registry later."""
        return self._registry("delay", subject, path, method, ms=ms)

    def registry_disconnect(
        self, *, when: _When = "before", subject: _Subject = None, path: _Path = None, method: _Method = None
    ) -> Phrase[Made]:
        """Cut connections to the schema registry instead of answering."""
        return self._registry("disconnect", subject, path, method, when=when)

    def registry_wrong_id(
        self,
        schema_id: Annotated[int | None, Option("The id in the response.  [default: one that no schema has]", minimum=0)] = None,
        *,
        subject: _Subject = None,
        path: _Path = None,
        method: _Method = None,
    ) -> Phrase[Made]:
        """Give clients a wrong schema id.

        Responses to registrations, look-ups and requests of a version contain it. The schema is
        registered under its correct id.
        """
        return self._registry("wrong_id", subject, path, method, schema_id=schema_id)

    def storage(
        self,
        topic: Annotated[str | None, Option("Files of this topic.  [default: all files]", "NAME")] = None,
        partition: _Partition = None,
        *,
        on: Annotated[str, Option("Which calls of the file system.", choices=("write", "read", "sync", "open"))],
        error: Annotated[str, Option("ENOSPC, EIO, EROFS, ...", "NAME")],
    ) -> Phrase[Made]:
        """Make calls of the file system fail.

        An error of a failing disk takes the log directory and all its partitions offline, until
        'faults heal' or a restart.
        """
        target = {"topic": topic, "partition": partition, "on": on, "error": error}
        known = {name: value for name, value in target.items() if value is not None}
        return Phrase(lambda often: self._made("faults.storage", known | {"often": often}))
