"""Rates and token buckets: the numbers of Apache Kafka's own classes (tests/golden/rates_kafka_4.3.1.json), and what they mean."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from minibroker.dispatch.quotas import METERS_MAX, THROTTLE_MAX_MS, Meters, Rate, TokenBucket, Window
from tests.golden.captures.rates import FILE, START_MS

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


def test_throttled_client_reaches_its_quota() -> None:
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


@pytest.mark.parametrize("back_ms", [5_000, 86_400_000])
def test_clock_set_back_does_not_extend_throttling(back_ms: int) -> None:
    window, now_ms = Window(11, 1000), 200_000_000
    rate, bucket = Rate(window), TokenBucket(window)
    rate.record(2000, now_ms)
    bucket.spend(2000, 100, now_ms)
    rate_ms, bucket_ms = rate.throttle_ms(100, now_ms), bucket.throttle_ms(100, now_ms)
    now_ms -= back_ms
    rate.record(0, now_ms)
    assert (rate.throttle_ms(100, now_ms) <= rate_ms, bucket.throttle_ms(100, now_ms)) == (True, bucket_ms)
    assert bucket.throttle_ms(100, now_ms + bucket_ms) == 0


def test_client_within_quota_is_not_throttled_after_the_clock_is_set_back() -> None:
    rate, day_ms = Rate(Window(11, 1000)), 86_400_000
    rate.record(100, 2 * day_ms)
    for second in range(1_000):
        rate.record(100, day_ms + second * 1000)
        assert rate.throttle_ms(100, day_ms + second * 1000) <= 1000


@pytest.mark.parametrize(("quota", "held_ms"), [(5e-324, THROTTLE_MAX_MS), (0.001, THROTTLE_MAX_MS), (math.inf, 0), (math.nan, 0)])
def test_every_quota_has_a_valid_throttle_time(quota: float, held_ms: int) -> None:
    window = Window(11, 1000)
    rate, bucket = Rate(window), TokenBucket(window)
    rate.record(1e8, 1000)
    bucket.spend(1e8, quota, 1000)
    assert (rate.throttle_ms(quota, 1000), bucket.throttle_ms(quota, 1000)) == (held_ms, held_ms)


def test_meters_of_silent_clients_are_dropped() -> None:
    window, meters = Window(11, 1000), Meters(Rate)
    for number in range(3 * METERS_MAX):
        meters.of(("", str(number)), window, 0).record(1, 0)
    assert len(meters) == 3 * METERS_MAX
    for number in range(2 * METERS_MAX):
        meters.of(("later", str(number)), window, 20_000).record(1, 20_000)
    assert len(meters) == 2 * METERS_MAX
    for number in range(3 * METERS_MAX):
        meters.of(("clock set back", str(number)), window, 1000).record(1, 1000)
    assert len(meters) == 3 * METERS_MAX
