"""Every request that a real client sent, of every API and version, gets an answer that the strict codec can read.

What the answers say is checked in the test file of each handler. The broker here has other topics than the captured one had.
"""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.dispatch.registry import load
from minibroker.errors import UnknownServerError
from minibroker.wire.api import Api
from tests.dispatch.test_error_answer import codes_in
from tests.golden import Golden, all_golden
from tests.handlers.kafka_answers import broker_of_scenario

APIS = load().apis()
#: Longer than any captured request waits: max.poll.interval.ms of a JoinGroup is five minutes.
LONGEST_WAIT_MS = 3_600_000


def frames_of(api: Api, direction: str) -> list[Golden]:
    return [frame for frame in all_golden().values() if frame.api_key == api.key and frame.direction == direction]


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_served_version_was_captured(api: Api, direction: str) -> None:
    served = {version for version in range(api.max_version + 1) if api.serves(version)}
    newer = {5} if api.name == "ApiVersions" else set()  # a client asks with the newest version it knows, and asks again
    assert {frame.version for frame in frames_of(api, direction)} == served | newer


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_captured_requests_are_answered(api: Api) -> None:
    for golden in frames_of(api, "request"):
        if api.serves(golden.version):
            answer = answer_to(golden)
            assert UnknownServerError.code not in codes_in(answer), golden.name


def answer_to(golden: Golden) -> Any:
    """Return the decoded answer of a fresh broker; None if the protocol has none (Produce with acks=0)."""
    broker = broker_of_scenario()
    pending = broker.begin(golden.decode(), golden.version)
    if not pending.is_done:
        broker.clock.advance(LONGEST_WAIT_MS)
    return pending.answer()
