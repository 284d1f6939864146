"""WriteShareGroupState: golden frames; its effects are in the scene `states` of tests/golden/share_scenes.py."""

from __future__ import annotations

import pytest

from tests.golden import Golden
from tests.support.share_states import answers_as_kafka, broker_for, requests_of


@pytest.mark.parametrize("is_initialized", [True, False])
@pytest.mark.parametrize("request_frame", requests_of("k85_write_share_group_state"))
def test_answers_match_kafka(request_frame: Golden, is_initialized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if "itself" in request_frame.name and not is_initialized:
        pytest.skip("Kafka did not ask this itself")
    assert answers_as_kafka(broker_for(request_frame, monkeypatch, is_initialized=is_initialized), request_frame)
