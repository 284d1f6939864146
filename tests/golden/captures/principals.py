"""Capture how Java spells distinguished names, and what Kafka's SslPrincipalMapper makes of them (PrincipalNames.java).

Repeats the questions of principals_kafka_4.3.1.json and writes the answers there. Add a case by adding it with an empty answer.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.java import kafka_jars

FILE = Path(__file__).parents[1] / "principals_kafka_4.3.1.json"
PROGRAM = FILE.with_name("PrincipalNames.java")


def capture() -> None:
    """Ask Java again."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    lines = [f"name {der}" for _, der, _ in content["names"]] + [f"rule {rules}\t{name}" for rules, name, _ in content["rules"]]
    command = ["java", "-cp", f"{kafka_jars()}/*", str(PROGRAM)]
    answers = iter(subprocess.run(command, input="\n".join([*lines, ""]), text=True, check=True, stdout=subprocess.PIPE).stdout.split("\n"))
    for case in [*content["names"], *content["rules"]]:
        case[2] = next(answers)
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
