"""Ask Apache Kafka's own assignors: python -m tests.coordinator.group.consumer.observe_assignors LIBRARY_FOLDER [SEEDS]

Differences between them and ours are printed; the answers to the first seeds become assignors_kafka_4.3.1.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.coordinator.group.consumer.cases import drawn, line_of, text_of

HERE = Path(__file__).parent
KEPT = HERE / "assignors_kafka_4.3.1.json"
KEPT_SEEDS = 50


def main(library_folder: str, seeds: int) -> None:
    cases = [(seed, case) for seed in range(seeds) for case in drawn(seed)]
    requests = [line_of(case) for _, case in cases]
    command = ["java", "-Xmx256m", "-cp", f"{library_folder}/*", str(HERE / "Assignors.java")]
    output = subprocess.run(command, input="\n".join(requests), capture_output=True, text=True, check=True).stdout
    answers = output.splitlines()
    differences = 0
    for (seed, case), line, theirs in zip(cases, requests, answers, strict=True):
        ours = " ".join(f"{member_id}={text_of(each)}" for member_id, each in case.assign().items())
        if ours != theirs:
            differences += 1
            print(f"seed {seed}\n  case  {line}\n  ours  {ours}\n  Kafka {theirs}")
    print(f"{len(cases)} cases, {differences} differences")
    kept = [[line, theirs] for (seed, _), line, theirs in zip(cases, requests, answers, strict=True) if seed < KEPT_SEEDS]
    KEPT.write_text(json.dumps({"broker": "Apache Kafka 4.3.1", "cases": kept}, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else KEPT_SEEDS)
