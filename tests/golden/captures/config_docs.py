"""Capture the documentation of Apache Kafka's configs. No broker is needed.

Kafka's site is made from pages that its classes print. Writes config_docs_kafka_4.3.1.json:
    broker  name -> type, default (null: none), valid values, update mode
    topic   name -> type, default, valid values, the broker property behind it (null: none)
    group   name -> type, default, valid values
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.java import run_tool

FILE = Path(__file__).parents[1] / "config_docs_kafka_4.3.1.json"
PAGES = {
    "broker": ("kafka.server.KafkaConfig", "Update Mode"),
    "topic": ("org.apache.kafka.storage.internals.log.LogConfig", "Server Default Property"),
    "group": ("org.apache.kafka.coordinator.group.GroupConfig", None),
}


def rows(page: str, last: str | None) -> Iterator[tuple[str, list[str | None]]]:
    """Name, and what the file has of it."""
    for item in re.findall(r"<li>\n(.*?)</li>\n", page, re.DOTALL):
        name = re.search(r'<a id="([^"]+)"', item)
        cells = dict(re.findall(r"<tr><th>([^<]+):</th><td>(.*?)</td></tr>", item, re.DOTALL))
        found: list[str | None] = [cells["Type"], default(cells["Default"]), html.unescape(cells["Valid Values"])]
        if last is not None:
            found.append(None if cells[last] == "null" else cells[last])
        assert name is not None
        yield name[1], found


def default(text: str) -> str | None:
    """Without `(7 days)` behind it; `""` is an empty text, `null` and nothing are no default."""
    text = html.unescape(re.sub(r" \(\d+ [a-z]+\)$", "", text))
    return None if text in {"null", ""} else "" if text == '""' else text


def capture() -> None:
    """Print the pages and write the file."""
    content = {kind: dict(sorted(rows(run_tool(tool), last))) for kind, (tool, last) in PAGES.items()}
    provenance = (
        f"Apache Kafka 4.3.1: the pages that {', '.join(tool for tool, _ in PAGES.values())} print; "
        "python -m tests.golden capture config_docs"
    )
    text = json.dumps({"provenance": provenance, **content}, separators=(",", ":"))
    FILE.write_text(text.replace('],"', '],\n"').replace('},"', '},\n"') + "\n")
