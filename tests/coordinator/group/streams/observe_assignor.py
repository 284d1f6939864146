"""Ask Apache Kafka's own assignor: python -m tests.coordinator.group.streams.observe_assignor LIBRARY_FOLDER [SEEDS]

Differences between it and ours are printed; the answers to the first seeds become assignor_kafka_4.3.1.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.coordinator.group.streams.cases import drawn, line_of, told

HERE = Path(__file__).parent
KEPT = HERE / "assignor_kafka_4.3.1.json"
KEPT_SEEDS = 40


def main(library_folder: str, seeds: int) -> None:
    cases = [(seed, case) for seed in range(seeds) for case in drawn(seed)]
    requests = [line_of(case) for _, case in cases]
    command = ["java", "-Xmx256m", "-cp", f"{library_folder}/*", str(HERE / "StickyAssignor.java")]
    answers = subprocess.run(command, input="\n".join(requests), capture_output=True, text=True, check=True).stdout.splitlines()
    differences = 0
    for (seed, case), line, theirs in zip(cases, requests, answers, strict=True):
        ours = told(case.assign())
        if ours != theirs:
            differences += 1
            print(f"seed {seed}\n  case  {line}\n  ours  {ours}\n  Kafka {theirs}")
    print(f"{len(cases)} cases, {differences} differences")
    kept = [[line, theirs] for (seed, _), line, theirs in zip(cases, requests, answers, strict=True) if seed < KEPT_SEEDS]
    KEPT.write_text(json.dumps({"broker": "Apache Kafka 4.3.1", "cases": kept}, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else KEPT_SEEDS)
