"""Faults of requests for any Kafka: a proxy before it that does by frames what minibroker does around its handlers.

It takes the rules of minibroker/testing/faults/rule.py for a client_id, a transactional_id, a topic; where it is the proxy that answers, it
does so as minibroker does. Two threads a connection: one reads requests, the other sends answers, in the requests' order. The broker must
advertise the proxy's address, or clients go round it; then a broker's own requests pass here, too.

What of all this is Kafka's: the work, and each answer but those that a fault makes.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from minibroker.dispatch import registry
from minibroker.dispatch.middleware import refusal
from minibroker.dispatch.partition_split import answers_places, overlay, overlays, places_in
from minibroker.dispatch.registry import Handler
from minibroker.schemas import k01_fetch, k78_share_fetch
from minibroker.testing.faults.effects import _WHOLE, _transactional_ids
from minibroker.testing.faults.rule import AFTER, BEFORE, FaultFrequency, FaultRule, rule_of
from minibroker.testing.request_log import ANSWERED, NOT_ANSWERED, LoggedRequest
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import decode_request_header, response_header_version

_FETCHING: Final = frozenset({k01_fetch.API_KEY, k78_share_fetch.API_KEY})
_CUT: Final = 4  #: bytes of a frame's size


class _Asked(NamedTuple):
    """A request whose answer is due."""

    handler: Handler
    version: int
    correlation_id: int
    request: Any
    rules: list[FaultRule]
    log: LoggedRequest
    answer: bytes | None  #: of the proxy's own; None: the broker gives it


class FaultingProxy:
    """Listens on 127.0.0.1:`port` and speaks to 127.0.0.1:`target_port`. Any thread may call."""

    def __init__(self, port: int, target_port: int) -> None:
        self.log: list[LoggedRequest] = []
        self._handlers = {handler.api.key: handler for handler in registry.load()}
        self._target_port = target_port
        self._faults: dict[int, tuple[FaultRule, FaultFrequency]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def inject(self, said: Mapping[str, Any]) -> int:
        """Put a rule in force; its id."""
        with self._lock:
            number = next(self._ids)
            self._faults[number] = rule_of(said)
            return number

    def hits(self, number: int) -> int:
        """How often a rule hit."""
        return self._faults[number][1].hits

    def remove(self, number: int) -> None:
        with self._lock:
            self._faults.pop(number, None)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def close(self) -> None:
        _shut(self._listener)  # wakes the thread that accepts, or it would keep the port
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:  # not up yet, or gone
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            due: queue.Queue[_Asked | None] = queue.Queue()
            threading.Thread(target=self._ask, args=(client, server, due), daemon=True).start()
            threading.Thread(target=self._answer, args=(client, server, due), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, due: queue.Queue[_Asked | None]) -> None:
        reader = client.makefile("rb")
        with contextlib.suppress(OSError, struct.error):
            while frame := _frame(reader):
                asked = self._asked(frame)
                rules = asked.rules
                if any(each.kind == "disconnect" and each.when == BEFORE for each in rules):
                    break
                if any(each.kind == "silence" and each.when == BEFORE for each in rules):
                    due.put(asked)  # its rule is met again, and nothing is sent from then on
                    continue
                _sleep(each for each in rules if each.kind == "delay" and each.when == BEFORE)
                refused = self._refused(asked)
                if refused is None:
                    server.sendall(len(frame).to_bytes(_CUT, "big") + frame)
                due.put(asked._replace(answer=refused))
        due.put(None)
        _shut(server)
        _shut(client)

    def _asked(self, frame: bytes) -> _Asked:
        key, version, correlation_id, size = struct.unpack_from(">hhih", frame)
        handler = self._handlers[key]
        client_id = frame[10 : 10 + max(size, 0)].decode()
        log = LoggedRequest(time.time_ns() // 1_000_000, client_id, "127.0.0.1", handler.api.name, version)
        self.log.append(log)
        request: Any = None
        if any(rule.api == handler.api.name for rule, _ in [*self._faults.values()]) or hasattr(handler.api.Request, "transactional_id"):
            flexible = handler.api.flexible(version)
            _, position = decode_request_header(memoryview(frame), lambda _key, _version: flexible)
            request = decode(handler.api.Request, memoryview(frame)[position:], version, flexible=flexible)
            log.topics = tuple(dict.fromkeys(place.topic for place in places_in(request)))
            log.transactional_id = next(iter(_transactional_ids(request)), None)
        with self._lock:
            rules = [
                rule
                for rule, often in self._faults.values()
                if rule.api == handler.api.name
                and rule.client_id in {None, client_id}
                and rule.transactional_id in {None, log.transactional_id}
                and rule.topic in {None, *log.topics}
                and not client_id.startswith("broker-")
                and often.hits_now()
            ]
        log.faults = tuple(map(str, rules))
        return _Asked(handler, version, correlation_id, request, rules, log, None)

    def _refused(self, asked: _Asked) -> bytes | None:
        """The answer of a request that is not to be done."""
        for rule in asked.rules:
            if rule.kind == "error" and not rule.after and not _is_overlaid(rule, asked.handler):
                context = cast("Any", SimpleNamespace(api_version=asked.version))
                return _encoded(asked, refusal(asked.handler, context, asked.request, rule.kafka_error()))
        return None

    def _answer(self, client: socket.socket, server: socket.socket, due: queue.Queue[_Asked | None]) -> None:
        reader = server.makefile("rb")
        is_silent = False
        with contextlib.suppress(OSError):
            while (asked := due.get()) is not None:
                rules = asked.rules
                is_silent = is_silent or any(each.kind == "silence" and each.when == BEFORE for each in rules)
                if is_silent:
                    asked.log.outcome = NOT_ANSWERED
                    continue
                body = asked.answer or _frame(reader)
                if not body:
                    break
                is_silent = self._send(client, asked, self._changed(asked, body))
        _shut(client)
        _shut(server)

    def _changed(self, asked: _Asked, body: bytes) -> bytes:
        """The answer with what rules do to it."""
        errors = [each for each in asked.rules if each.kind == "error" and (each.after or _is_overlaid(each, asked.handler))]
        throttle_ms = sum(each.ms or 0 for each in asked.rules if each.kind == "throttle")
        if not errors and not throttle_ms:
            return body
        flexible = asked.handler.api.flexible(asked.version)
        position = 5 if response_header_version(asked.handler.api, asked.version) else 4
        response = decode(asked.handler.api.Response, memoryview(body)[position:], asked.version, flexible=flexible)
        for rule in errors:
            if _is_overlaid(rule, asked.handler) or answers_places(asked.handler.api.Response):
                response = overlay(response, lambda *_, rule=rule: rule.kafka_error(), asked.version)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
        return _encoded(asked, response)

    def _send(self, client: socket.socket, asked: _Asked, body: bytes) -> bool:
        """Whether nothing more is to be sent."""
        _sleep(each for each in asked.rules if each.kind == "delay" and each.when == AFTER)
        data = len(body).to_bytes(_CUT, "big") + body
        for rule in asked.rules:
            if rule.kind == "silence":
                asked.log.outcome = NOT_ANSWERED
                return True
            if rule.kind in {"disconnect", "tear"}:
                asked.log.outcome = NOT_ANSWERED
                client.sendall(data[: rule.size or 0])
                raise OSError("the fault's end of the connection")
        asked.log.outcome = ANSWERED
        asked.log.duration_ms = time.time_ns() / 1e6 - asked.log.time_ms
        client.sendall(data)
        _sleep(each for each in asked.rules if each.kind == "throttle")
        return False


def _is_overlaid(rule: FaultRule, handler: Handler) -> bool:
    """Whether the broker's answer is changed in place: its brokers, its session stay."""
    return overlays(handler.api.Response) or (handler.api.key in _FETCHING and rule.error not in _WHOLE)


def _encoded(asked: _Asked, response: Any) -> bytes:
    tags = b"\0" if response_header_version(asked.handler.api, asked.version) else b""
    body = encode(response, asked.version, flexible=asked.handler.api.flexible(asked.version))
    return asked.correlation_id.to_bytes(4, "big", signed=True) + tags + body


def _frame(reader: Any) -> bytes:
    prefix = reader.read(_CUT)
    size = int.from_bytes(prefix, "big")
    data: bytes = reader.read(size) if len(prefix) == _CUT else b""
    return data if len(data) == size else b""


def _sleep(rules: Iterable[FaultRule]) -> None:
    time.sleep(sum(each.ms or 0 for each in rules) / 1000)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
