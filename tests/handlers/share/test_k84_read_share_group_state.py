"""ReadShareGroupState: golden frames; its effects are in the scene `states` of tests/golden/share_scenes.py."""

from __future__ import annotations

import pytest

from tests.golden import Golden
from tests.support.golden_exchange import answer_of
from tests.support.share_states import answers_as_kafka, broker_for, requests_of, write_as_franz_go_did


@pytest.mark.parametrize("request_frame", requests_of("k84_read_share_group_state"))
def test_answers_match_kafka(request_frame: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    state_epoch = answer_of(request_frame).results[0].partitions[0].state_epoch or 1
    broker = broker_for(request_frame, monkeypatch, is_initialized=True, state_epoch=state_epoch)
    if "franz_go" in request_frame.name:
        write_as_franz_go_did(broker, request_frame)
    assert answers_as_kafka(broker, request_frame)


def test_refusal_matches_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    (request,) = [each for param in requests_of("k84_read_share_group_state") for each in param.values if "franz_go" in each.name]
    assert answers_as_kafka(broker_for(request, monkeypatch, is_initialized=False), request)
