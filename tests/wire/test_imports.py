"""Starting must stay fast: what importing all schemas does not do."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, pathlib, sys
import minibroker.schemas
from minibroker.wire import compiled, header, schema

built = []
schema.build_constructor = built.append
root = pathlib.Path(minibroker.schemas.__path__[0])
for file in root.rglob("*.py"):
    importlib.import_module(".".join(["minibroker.schemas", *file.relative_to(root).with_suffix("").parts]))
resolved = [name for name, module in list(sys.modules.items()) if name.startswith("minibroker.schemas.")
            for found in vars(module).values() if isinstance(found, type) and getattr(found, "fields_", None) is not None]
print(len(built), len(resolved), len(compiled._decoders), *sorted({"dataclasses", "inspect", "asyncio", "json"} & set(sys.modules)))
"""


def test_importing_schemas_does_not_resolve_or_generate_code() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "0"]
