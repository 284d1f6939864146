"""Serve a connection of a SASL listener in place of its dispatcher, until its client has logged in.

security/sasl_session.py checks the order of requests; this module reads and writes their bytes. Only ApiVersions, SaslHandshake and
SaslAuthenticate are decoded. Where a SaslAuthenticate is due, a small request of any other API is decoded as well, because Kafka answers it
with an error in the format of that API.

A failure is answered, and the connection closed, after `connection.failed.authentication.delay.ms`. Until then the connection reads
nothing. Other connections do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, Protocol

from minibroker.clock import Clock, Timer
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Answer, Delayed
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.plan import read_header
from minibroker.errors import IllegalSaslState, WireError
from minibroker.schemas import k17_sasl_handshake, k18_api_versions, k36_sasl_authenticate
from minibroker.security.sasl_session import LoginFailed, Offer, SaslSession, State
from minibroker.wire.api import Api, api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import decode_request_header, encode_response_header, response_header_version, with_size
from minibroker.wire.schema import Buffer

REFUSED_SIZE_MAX: Final = 16 * 1024  #: bytes of a request of another API that is decoded before the login

_HANDSHAKE: Final = api_of(k17_sasl_handshake)
_AUTHENTICATE: Final = api_of(k36_sasl_authenticate)
_APIS: Final = {api.key: api for api in (_HANDSHAKE, _AUTHENTICATE)}
_error_code = Struct(">xxxxxxxxh").unpack_from  #: of an answer to ApiVersions, after its size and correlation id


class Login(Protocol):
    """What the connections of a listener share; `SaslListener` is the implementation."""

    clock: Clock
    elapsed_ms: Callable[[], float]  #: a clock that never jumps
    failure_delay_ms: int

    @property
    def offers(self) -> Mapping[str, Offer]:
        """The mechanisms that a new connection may use."""

    def login_failed(self, host: str, channel: str, reason: str, *, is_again: bool) -> None:
        """Log a failure."""

    def sessions_ended(self, channel: str, /) -> None:
        """Log that a client sent a request after the end of its session."""


class GatedConnection(Protocol):
    """A connection, as its gate uses it."""

    info: ConnectionInfo

    @property
    def channel(self) -> str:
        """Both addresses, `host:port-host:port`, for the log."""

    def abort(self) -> None:
        """Close now."""

    def close(self) -> None:
        """Read no more; close when the answers that are due are sent."""

    def pass_gate(self, dispatcher: Dispatcher | SaslGate) -> None:
        """Serve requests of any size by this dispatcher."""


class SaslGate:
    """Serves one connection until its client has logged in, and after that as long as its session may end."""

    def __init__(self, listener: Login, dispatcher: Dispatcher, connection: GatedConnection) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._connection = connection
        self._session = SaslSession(listener.offers, listener.clock.now_ms, listener.elapsed_ms)
        self.is_open = False  #: the client has logged in once

    def describe(self, frame: memoryview) -> str:
        """Name a request for the log. Requests of the login may contain passwords."""
        return self._dispatcher.describe(frame) if self._session.state is State.COMPLETE else "a request of the login"

    def dispatch(self, info: ConnectionInfo, frame: memoryview) -> Answer | Delayed:
        """Serve one request.

        Raises:
            WireError: close the connection.
        """
        try:
            if self._session.state is State.COMPLETE:
                return self._serve(info, frame)
            if self._session.state is State.BARE_TOKENS:
                return self._take_bare_token(frame)
            return self._log_in(info, frame)
        except LoginFailed as failure:
            return self._fail(str(failure), None)

    def _serve(self, info: ConnectionInfo, frame: memoryview) -> Answer | Delayed:
        """Serve a request of a client that has logged in."""
        session = self._session
        if session.may_end:
            if frame[:2] == _KEY_OF_HANDSHAKE and session.start_again():
                return self._log_in(info, frame)
            if session.has_ended:
                self._listener.sessions_ended(self._connection.channel)
                raise WireError("its session has ended, and it did not authenticate again")
        return self._dispatcher.dispatch(info, frame)

    def _log_in(self, info: ConnectionInfo, frame: memoryview) -> Answer | Delayed:
        """Serve a request of the login."""
        try:
            key = read_header(frame)[0] >> 16
        except struct_error:
            raise LoginFailed("a request without a header") from None
        state = self._session.state
        if state in (State.TOKENS, State.OTHER_MECHANISM):
            return self._authenticate(frame) if key == _AUTHENTICATE.key else self._refuse(info, frame)
        if key == _HANDSHAKE.key:
            return self._handshake(frame)
        if key != k18_api_versions.API_KEY:
            raise LoginFailed(f"Unexpected Kafka request of type {self._dispatcher.name_of(key)} during SASL handshake.")
        if state is not State.VERSIONS_OR_HANDSHAKE:
            raise LoginFailed("Unexpected ApiVersions request received during SASL authentication")
        answer = self._dispatcher.dispatch(info, frame)
        if isinstance(answer, Delayed) or _error_code(b"".join(answer))[0] == 0:
            self._session.versions_answered()
        return answer

    def _handshake(self, frame: memoryview) -> Answer | Delayed:
        request, version, correlation_id = _decoded(_HANDSHAKE, frame)

        def answer(code: int) -> Answer:
            response = k17_sasl_handshake.Response(error_code=code, mechanisms=self._session.mechanisms)
            return _encoded(_HANDSHAKE, response, version, correlation_id)

        try:
            self._session.handshake(request.mechanism, version)
        except LoginFailed as failure:
            if failure.error is None:
                raise
            return self._fail(str(failure), answer(failure.error.code))
        return answer(0)

    def _authenticate(self, frame: memoryview) -> Answer | Delayed:
        request, version, correlation_id = _decoded(_AUTHENTICATE, frame)
        try:
            progress = self._session.authenticate(bytes(request.auth_bytes))
        except LoginFailed as failure:
            if failure.error is None:
                raise
            refused = k36_sasl_authenticate.Response(
                error_code=failure.error.code, error_message=str(failure.error), auth_bytes=b"", session_lifetime_ms=0
            )
            return self._fail(str(failure), _encoded(_AUTHENTICATE, refused, version, correlation_id))
        self._open_if_complete()
        response = k36_sasl_authenticate.Response(
            error_code=0, error_message="", auth_bytes=progress.token, session_lifetime_ms=progress.session_lifetime_ms
        )
        return _encoded(_AUTHENTICATE, response, version, correlation_id)

    def _take_bare_token(self, frame: memoryview) -> Answer | Delayed:
        progress = self._session.authenticate(bytes(frame))
        self._open_if_complete()
        return [b"".join(with_size([progress.token]))]

    def _open_if_complete(self) -> None:
        session = self._session
        if session.state is not State.COMPLETE:
            return
        info = self._connection.info
        info.principal = f"User:{session.principal_name}"
        info.is_token_authenticated = session.is_token_authenticated
        self.is_open = True
        self._connection.pass_gate(self if session.may_end else self._dispatcher)

    def _refuse(self, info: ConnectionInfo, frame: memoryview) -> Delayed:
        """Answer a request that must not come now with its own error, and close."""
        key = read_header(frame)[0] >> 16
        reason = f"Unexpected Kafka request of type {self._dispatcher.name_of(key)} during SASL authentication."
        # Some clients take a refused token for a success. The log has the real reason.
        logged = f"{reason} ({self._session.refusal})" if self._session.refusal else reason
        if len(frame) > REFUSED_SIZE_MAX:
            return self._fail(logged, None)
        return self._fail(logged, self._dispatcher.refuse(info, frame, IllegalSaslState(reason)))

    def _fail(self, reason: str, answer: Answer | None) -> Delayed:
        """Log a failure; answer and close after the delay of the listener."""
        self._session.state = State.FAILED
        self._listener.login_failed(self._connection.info.client_host, self._connection.channel, reason, is_again=self.is_open)
        last = _LastAnswer(reason, answer)
        last.timer = self._listener.clock.call_later_ms(self._listener.failure_delay_ms, last.send)
        self._connection.close()
        return last


class _LastAnswer(Delayed):
    """The answer to a failed login, which waits for the delay."""

    __slots__ = ("_bytes", "_reason", "timer")

    timer: Timer

    def __init__(self, reason: str, answer: Answer | None) -> None:
        super().__init__()
        self._bytes = answer
        self._reason = reason

    def send(self) -> None:
        """Answer, or close the connection if there is no answer."""
        if self.is_done:
            return
        if self._bytes is None:
            self.error = WireError(self._reason)
        self.answer = self._bytes
        on_done = self._on_done
        self.finished()
        if on_done is not None:
            on_done()

    def cancel(self) -> None:
        """Forget the answer: the connection is gone."""
        self.timer.cancel()
        super().cancel()


_KEY_OF_HANDSHAKE: Final = _HANDSHAKE.key.to_bytes(2, "big")


def _decoded(api: Api, frame: memoryview) -> tuple[Any, int, int]:
    """Return a request, its version and its correlation id. Raise LoginFailed if it is malformed or its version is not served."""

    def flexible(key: int, version: int) -> bool:
        if not _APIS[key].serves(version):
            raise WireError("its version is not served")
        return _APIS[key].flexible(version)

    try:
        header, position = decode_request_header(frame, flexible)
        version = header.api_version
        return decode(api.Request, frame[position:], version, flexible=api.flexible(version)), version, header.correlation_id
    except WireError as error:
        raise LoginFailed(f"a malformed {api.name} request: {error}") from None


def _encoded(api: Api, response: Any, version: int, correlation_id: int) -> list[Buffer]:
    header = encode_response_header(correlation_id, response_header_version(api, version))
    return [b"".join(with_size([header, encode(response, version, flexible=api.flexible(version))]))]
