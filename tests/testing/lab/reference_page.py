"""The table of operations in docs/lab.md: `python -m tests.testing.lab.reference_page` writes it, test_docs.py compares."""

from __future__ import annotations

import re
from pathlib import Path

from minibroker.testing.lab.declaration import Operation, operations_of
from minibroker.testing.lab.operations import BrokerOperations, FaultOperations, HighWatermarks, Leaders, Nodes
from minibroker.testing.lab.registry_operations import RegistryOperations

PAGE = Path(__file__).parents[3] / "docs" / "lab.md"
GROUPS = (BrokerOperations, HighWatermarks, FaultOperations, Leaders, Nodes, RegistryOperations)
_TABLE = re.compile(r"(\| command \| arguments \| \|\n\| --- \| --- \| --- \|\n)(?:\|.*\n)*")


def _row(operation: Operation) -> str:
    required = [f"`{name}`" for name, each in operation.parameters.items() if each.default is each.empty]
    optional = [f"`{name}`" for name, each in operation.parameters.items() if each.default is not each.empty]
    arguments = "; ".join([*([", ".join(required)] if required else []), *([f"optional: {', '.join(optional)}"] if optional else [])])
    return f"| `{operation.name}` | {arguments}{' ' if arguments else ''}| {' '.join(operation.doc.split())} |\n"


def with_table(page: str) -> str:
    """A page whose table is that of the operations."""
    rows = "".join(_row(operation) for group in GROUPS for operation in operations_of(group))
    return _TABLE.sub(lambda match: match[1] + rows, page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
