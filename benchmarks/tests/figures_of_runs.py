"""Runs with figures that a reader can check in the head."""

from __future__ import annotations

from reporting.results import About, Measurement, Run

ABOUT = About(
    date="2026-11-21 23:40",
    commit="abc1234",
    command="make bench",
    machine={"processor": "A processor, 2 cores", "memory": "8 GiB"},
    versions={"minibroker": "abc1234", "kafka": "4.3.1"},
    peers=("minibroker", "kafka", "kfake"),
    loads=("start", "produce 64 x 1 kB", "latency"),
    rounds=3,
)


def a_run(*figures: tuple[str, str, str, list[float]], about: About = ABOUT) -> Run:
    """(broker, load, figure, its value in each round)."""
    found: dict[tuple[int, str, str], dict[str, float]] = {}
    for peer, load, figure, values in figures:
        for number, value in enumerate(values, 1):
            found.setdefault((number, peer, load), {})[figure] = value
    return Run(about, [Measurement(number, peer, load, 1.0, values) for (number, peer, load), values in found.items()])


def three_brokers() -> Run:
    """minibroker has three times Kafka's rate of produce and half of its latency; kfake is between them. Its start takes a twentieth."""
    return a_run(
        ("minibroker", "produce 64 x 1 kB", "MB/s", [600, 500, 700]),
        ("kafka", "produce 64 x 1 kB", "MB/s", [200, 210, 190]),
        ("kfake", "produce 64 x 1 kB", "MB/s", [450, 450, 450]),
        ("minibroker", "latency", "acknowledged p50 us", [50, 36, 60]),
        ("kafka", "latency", "acknowledged p50 us", [100, 100, 120]),
        ("kfake", "latency", "acknowledged p50 us", [45, 45, 45]),
        ("minibroker", "start", "cold start ms", [200, 200, 200]),
        ("kafka", "start", "cold start ms", [4000, 4000, 4000]),
    )
