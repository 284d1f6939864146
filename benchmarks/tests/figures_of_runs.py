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
    """minibroker is twice as fast as Kafka in produce and takes half of its time, with kfake between them; its start is a tenth."""
    return a_run(
        ("minibroker", "produce 64 x 1 kB", "MB/s", [600, 500, 700]),
        ("kafka", "produce 64 x 1 kB", "MB/s", [300, 310, 290]),
        ("kfake", "produce 64 x 1 kB", "MB/s", [450, 450, 450]),
        ("minibroker", "latency", "acknowledged p50 us", [50, 40, 60]),
        ("kafka", "latency", "acknowledged p50 us", [100, 100, 120]),
        ("kfake", "latency", "acknowledged p50 us", [45, 45, 45]),
        ("minibroker", "start", "cold start ms", [200, 200, 200]),
        ("kafka", "start", "cold start ms", [2000, 2000, 2000]),
    )
