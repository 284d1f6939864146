"""Capture how Avro's Java library prints schemas, and which readers can read what which writers wrote (AvroSchemas.java).

Repeats the questions of avro_java_1.12.json and writes the answers there. Add a case by adding it with an empty answer.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.java import jars

VERSION = "1.12.0"
FILE = Path(__file__).parents[1] / "avro_java_1.12.json"
PROGRAM = FILE.with_name("AvroSchemas.java")


def capture() -> None:
    """Ask Java again."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    lines = [f"text\t{json.dumps(schema) if not isinstance(schema, str) else schema}" for schema, _ in content["texts"]]
    lines += [f"compare\t{json.dumps(reader)}\t{json.dumps(writer)}" for _, reader, writer, _ in content["comparisons"]]
    folder = jars(f"avro-{VERSION}", f"org.apache.avro:avro:{VERSION}", "org.slf4j:slf4j-nop:2.0.16")
    command = ["java", "-cp", f"{folder}/*", str(PROGRAM)]
    printed = subprocess.run(command, input="\n".join([*lines, ""]), text=True, check=True, stdout=subprocess.PIPE).stdout
    answers = iter(printed.split("\n"))
    for case in [*content["texts"], *content["comparisons"]]:
        case[-1] = next(answers)
    rows = [
        f' "{name}": [\n  ' + ",\n  ".join(json.dumps(case, ensure_ascii=False) for case in content[name]) + "\n ]"
        for name in ("texts", "comparisons")
    ]
    FILE.write_text(f'{{\n "provenance": {json.dumps(content["provenance"])},\n' + ",\n".join(rows) + "\n}\n", encoding="utf-8")
