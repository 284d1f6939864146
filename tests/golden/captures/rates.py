"""Capture how long Apache Kafka throttles clients above a quota, from its own classes (Rates.java).

Writes rates_kafka_4.3.1.json: of each client samples, window in seconds, quota, and [time in ms, value, throttle by Rate, by TokenBucket].
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

from tests.support.java import kafka_jars

FILE = Path(__file__).parents[1] / "rates_kafka_4.3.1.json"
START_MS = 1_700_000_000_000


def clients() -> list[tuple[tuple[int, int, float], list[tuple[int, float]]]]:
    """What is tried: steady and bursty clients, long and short silences, values that are taken back."""
    random.seed(7)
    found = []
    for samples, seconds, quota in ((11, 1, 1000.0), (11, 1, 50_000.0), (3, 2, 10.0), (2, 1, 1.5), (1, 1, 100.0), (11, 5, 0.25)):
        for pause_ms in (10, 300, 1_000, 4_000, 15_000):
            now_ms, events = START_MS, []
            for _ in range(25):
                now_ms += random.choice((0, pause_ms, random.randint(1, 2 * pause_ms)))
                value = round(quota * random.choice((0.1, 1, 1, 5, 40)) * random.random(), 3)
                events.append((now_ms, value if random.random() < 0.9 else -value))
            found.append(((samples, seconds, quota), events))
    return found


def capture() -> None:
    """Run and write."""
    tried = clients()
    lines = []
    for settings, events in tried:
        lines += [" ".join(map(str, settings)), *(f"{now_ms} {value}" for now_ms, value in events)]
    command = ["java", "-cp", f"{kafka_jars()}/*", str(FILE.parent / "Rates.java")]
    result = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True).stdout.split()
    answers = iter(zip(map(int, result[::2]), map(int, result[1::2]), strict=True))
    rows = [[*settings, [[now_ms - START_MS, value, *next(answers)] for now_ms, value in events]] for settings, events in tried]
    provenance = "Apache Kafka 4.3.1: Rate and TokenBucket of kafka-clients; asked by python -m tests.golden capture rates"
    FILE.write_text(json.dumps({"provenance": provenance, "clients": rows}, separators=(",", ":")).replace("]]],", "]]],\n"))
