"""Rates and token buckets: the numbers of Apache Kafka's own classes (tests/golden/rates_kafka_4.3.1.json), and what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minibroker.dispatch.rates import Rate, TokenBucket, Window
from tests.golden.capture_rates import FILE, START_MS

CLIENTS: list[list[Any]] = json.loads(FILE.read_text())["clients"]


@pytest.mark.parametrize(("samples", "seconds", "quota", "events"), CLIENTS)
def test_clients_are_held_as_long_as_by_apache_kafka(samples: int, seconds: int, quota: float, events: list[list[float]]) -> None:
    window = Window(samples, seconds * 1000)
    rate, bucket = Rate(window), TokenBucket(window)
    ours = []
    for after_ms, value, *_ in events:
        now_ms = START_MS + int(after_ms)
        rate.record(value, now_ms)
        bucket.spend(value, quota, now_ms)
        ours.append([rate.throttle_ms(quota, now_ms), bucket.throttle_ms(quota, now_ms)])
    assert ours == [event[2:] for event in events]


def test_a_client_that_waits_as_it_is_told_gets_its_quota() -> None:
    rate, now_ms, done = Rate(Window(11, 1000)), 0, 0
    while now_ms < 60_000:
        rate.record(500, now_ms)
        done += 500
        now_ms += max(rate.throttle_ms(1000, now_ms), 1)
    assert 1000 * 60 <= done <= 1000 * 72  # the first windows are free


def test_silence_is_forgiveness() -> None:
    window = Window(11, 1000)
    rate, bucket = Rate(window), TokenBucket(window)
    rate.record(1e6, 0)
    bucket.spend(1e6, 100, 0)
    assert rate.throttle_ms(100, 10_999) > 0
    assert rate.throttle_ms(100, 11_000) == 0
    assert bucket.throttle_ms(100, 9_000_000) > 0
    assert bucket.throttle_ms(100, 10_000_000) == 0


def test_a_clock_that_goes_back_holds_nobody_for_longer() -> None:
    window = Window(11, 1000)
    rate, bucket = Rate(window), TokenBucket(window)
    rate.record(2000, 100_000)
    bucket.spend(2000, 100, 100_000)
    before = rate.throttle_ms(100, 100_000), bucket.throttle_ms(100, 100_000)
    rate.record(0, 5_000)
    assert (rate.throttle_ms(100, 5_000), bucket.throttle_ms(100, 5_000)) == before
