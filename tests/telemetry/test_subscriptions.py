"""Subscriptions within their limits. tests/handlers/test_telemetry_scenes.py compares them with Apache Kafka's."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.config.request_limits import TELEMETRY_SUBSCRIPTIONS_MAX
from minibroker.telemetry import subscriptions as module
from minibroker.telemetry.subscriptions import InstanceSubscription, Subscriptions

INSTANCE = UUID(int=1)


def of(subscriptions: Subscriptions, **attributes: str) -> InstanceSubscription:
    return subscriptions.of(INSTANCE, attributes)


def test_number_of_subscriptions_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    configs = {f"s{number}": {"metrics": f"m{number}."} for number in range(TELEMETRY_SUBSCRIPTIONS_MAX + 5)}
    assert len(of(Subscriptions(configs, 5_000)).metrics) == TELEMETRY_SUBSCRIPTIONS_MAX
    assert "the broker uses only the first 100" in caplog.text


def test_work_of_matching_is_limited(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m.", "match": "client_id=a*"}}, 5_000)
    assert of(subscriptions, client_id="a" * 100).metrics == ("m.",)
    monkeypatch.setattr(module, "TELEMETRY_MATCHING_STEPS_MAX", 10)
    assert of(subscriptions, client_id="a" * 100).metrics == ()
    assert "took too many steps" in caplog.text


def test_a_selector_of_java_alone_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m.", "match": "client_id=(?!b).*"}}, 5_000)
    assert of(subscriptions, client_id="a").metrics == ()
    assert "subscription s of client metrics matches no client" in caplog.text


def test_a_client_without_the_attribute_does_not_match() -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m.", "match": "client_id=.*"}}, 5_000)
    assert of(subscriptions, client_software_name="x").metrics == ()


def test_default_is_in_force_only_without_resources() -> None:
    assert of(Subscriptions({}, 5_000))[1:] == (("org.apache.kafka.",), 5_000)
    assert of(Subscriptions({}, 0))[1:] == ((), 300_000)
    assert of(Subscriptions({"s": {"interval.ms": "1000"}}, 5_000))[1:] == ((), 1_000)
