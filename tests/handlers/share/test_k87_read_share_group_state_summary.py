"""ReadShareGroupStateSummary: golden frames; its effects are in the scene `states` of tests/golden/share_scenes.py."""

from __future__ import annotations

import pytest

from tests.golden import Golden
from tests.support.share_states import answers_as_kafka, broker_for, requests_of, write_as_franz_go_did

FRANZ_GO = [each for each in requests_of("k87_read_share_group_state_summary") if "franz_go" in str(each.id)]


@pytest.mark.parametrize("request_frame", FRANZ_GO)
def test_answers_match_kafka(request_frame: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_for(request_frame, monkeypatch, is_initialized=True)
    write_as_franz_go_did(broker, request_frame)
    assert answers_as_kafka(broker, request_frame)
