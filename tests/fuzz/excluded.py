"""Requests that the fuzzer does not send: they are allowed to be expensive, or to disturb every client, on Apache Kafka as well."""

from __future__ import annotations

import struct
from typing import Any

from minibroker.errors import WireError
from minibroker.wire import compiled
from minibroker.wire.header import decode_request_header
from tests.fuzz.answers import apis

MAX_NEW_PARTITIONS = 64  #: ten thousand in one request are allowed, and so are as many folders
MAX_WAIT_MS = 500
_PRODUCE, _FETCH, _JOIN, _SYNC, _CREATE_TOPICS, _ALTER_CONFIGS = 0, 1, 11, 14, 19, 33
_CREATE_PARTITIONS, _INCREMENTAL_ALTER_CONFIGS, _ALTER_CLIENT_QUOTAS, _SHARE_FETCH = 37, 44, 49, 78
_WATCHED = frozenset({_CREATE_TOPICS, _ALTER_CONFIGS, _CREATE_PARTITIONS, _INCREMENTAL_ALTER_CONFIGS, _ALTER_CLIENT_QUOTAS})
_TOPIC, _BROKER = 2, 4
_ENOUGH_FOR_EVERY_CLIENT = 1e6


def is_excluded(frame: bytes) -> bool:
    """Whether a frame, without its size, is not to be sent."""
    if len(frame) < 4 or struct.unpack_from(">h", frame)[0] not in _WATCHED:
        return False
    request, api_key = decoded(frame), struct.unpack_from(">h", frame)[0]
    if request is None:
        return False
    if api_key == _CREATE_TOPICS:
        return bool(sum(max(topic.num_partitions, len(topic.assignments)) for topic in request.topics) > MAX_NEW_PARTITIONS)
    if api_key == _CREATE_PARTITIONS:
        return any(topic.count > MAX_NEW_PARTITIONS for topic in request.topics)
    if api_key == _ALTER_CLIENT_QUOTAS:  # a throttled connection is muted for longer than an answer may take
        ops = [op for entry in request.entries for op in entry.ops]
        return any(op.key == "connection_creation_rate" or (not op.remove and not op.value >= _ENOUGH_FOR_EVERY_CLIENT) for op in ops)
    return any(
        (resource.resource_type == _BROKER and _disturbs(resource.configs))
        or (resource.resource_type == _TOPIC and resource.resource_name.startswith("__"))  # records of coordinators would not fit
        for resource in request.resources
    )


def _disturbs(configs: list[Any]) -> bool:
    return any(config.name.startswith(("max.connection", "listener", "advertised", "log.dirs")) for config in configs)


def may_wait(frame: bytes) -> bool:
    """Whether the broker may answer a frame later than others: members wait for each other, a Fetch for records."""
    api_key = struct.unpack_from(">h", frame)[0] if len(frame) >= 4 else -1
    if api_key in (_JOIN, _SYNC):
        return True
    request = decoded(frame) if api_key in (_FETCH, _SHARE_FETCH) else None
    return request is not None and request.max_wait_ms > MAX_WAIT_MS


def has_no_answer(frame: bytes) -> bool:
    """Whether a frame may be a Produce that asks for no answer."""
    return frame[:2] == b"\0\0"


def decoded(frame: bytes) -> Any:
    """The request in a frame without its size; None where it is not valid."""

    def flexible_of(api_key: int, version: int) -> bool:
        api = apis().get(api_key)
        if api is None or not api.serves(version):
            raise WireError("not served")
        return api.flexible(version)

    try:
        header, position = decode_request_header(frame, flexible_of)
        api = apis()[header.api_key]
        return compiled.decode_all(api.Request, frame, position, header.api_version, api.flexible(header.api_version))
    except WireError:
        return None
