"""Write `minibroker/config/kafka_broker_configs.json` from what Apache Kafka said of itself: `python -m tests.config.kafka_table`.

Sources: tests/golden/broker_configs_kafka_4.3.1.json (what a broker answered) and config_docs_kafka_4.3.1.json (valid values, update mode).
"""

from __future__ import annotations

import json
from pathlib import Path

from minibroker.config.kafka_table import FILE
from tests.config.kafka_configs import DESCRIBED, DOCUMENTATION
from tests.config.test_reference import DOCS

_DEFAULT_SOURCE = 5


def content() -> str:
    """One row a line."""
    lines = []
    for name, (_, kind, _, _, _, synonyms) in DESCRIBED.items():
        default = next((value for other, value, source in synonyms if other == name and source == _DEFAULT_SOURCE), None)
        _, _, valid_values, mode = DOCS["broker"][name]
        lines.append(f"{json.dumps(name)}: {json.dumps([kind, default, valid_values, mode, DOCUMENTATION[name]])}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(FILE).write_text(content())
