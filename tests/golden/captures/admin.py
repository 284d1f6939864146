"""Capture the answers of a running Apache Kafka to the administration scenarios. It needs node.id 1 and no topics.

Writes admin_kafka_4.3.1.json: provenance, and for each API the answers in the order of the scenario.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import Any

from minibroker.wire.api import api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from minibroker.wire.schema import NIL_UUID
from tests.golden.admin_answers import FILE, plain
from tests.golden.admin_scenarios import SCENARIOS, create, delete


def ask(port: int, request: Any) -> Any:
    """One request on its own connection, newest version."""
    api = api_of(sys.modules[type(request).__module__])
    version = api.max_version
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=1, client_id="capture")
    frame = encode_request_header(header, request_header_version(api, version)) + encode(request, version, flexible=api.flexible(version))
    with socket.create_connection(("127.0.0.1", port), 10) as connection, connection.makefile("rb") as stream:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = stream.read(int.from_bytes(stream.read(4), "big"))
    _, position = decode_response_header(answer, response_header_version(api, version))
    return decode(api.Response, answer[position:], version, flexible=api.flexible(version))


def begin(port: int) -> None:
    """The two topics that each scenario finds, and no other."""
    for name in ("one", "two", "made.here"):
        ask(port, delete((name, NIL_UUID)))
    time.sleep(1)
    ask(port, create("one", 1, configs=[("retention.ms", "5000")], validate_only=False))
    ask(port, create("two", 2, validate_only=False))
    time.sleep(1)


def capture(port: int) -> None:
    """Ask everything and write the file."""
    answers: dict[str, list[Any]] = {}
    for stem, requests in SCENARIOS.items():
        begin(port)
        answers[stem] = []
        for request in requests:
            answers[stem].append(plain(ask(port, request)))
            time.sleep(0.1)
    provenance = "Apache Kafka 4.3.1, one KRaft node formatted with --standalone; asked by python -m tests.golden capture admin"
    FILE.write_text(
        json.dumps({"provenance": provenance, "answers": answers}, indent=None, separators=(",", ":"), ensure_ascii=False) + "\n"
    )
