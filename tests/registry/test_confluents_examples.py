"""Compatibility of JSON Schema and Protobuf, compared with the examples that Confluent's own tests read.

Run by hand: CONFLUENT_SCHEMA_REGISTRY is the folder of a checkout of confluentinc/schema-registry.
Its commit 794611bd (8.4, 2026-08) has 263 examples for JSON Schema and 55 for Protobuf.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from minibroker.registry.json_schema import JsonSchema
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.protobuf_schema import ProtobufSchema
from tests.support.failing import failing

FOLDER = os.environ.get("CONFLUENT_SCHEMA_REGISTRY", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="CONFLUENT_SCHEMA_REGISTRY names no checkout")
OURS_ALONE = "Ignore changes to custom imports"  #: a Protobuf example that imports what its test adds in code


def examples_of(provider: str) -> list[dict[str, Any]]:
    """The examples. Their JSON has comments and commas before closing brackets."""
    found: list[dict[str, Any]] = []
    for path in sorted((Path(FOLDER) / provider / "src" / "test" / "resources").rglob("diff-*.json")):
        text = re.sub(r"(?m)^\s*//.*$", "", path.read_text(encoding="utf-8"))
        found += json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
    return [each for each in found if each["description"] != OURS_ALONE]


def check_json(example: dict[str, Any]) -> None:
    old, new = (JsonSchema(json.dumps(example[f"{side}_schema"]), (), is_new=False) for side in ("original", "update"))
    found = new.differences(old)
    assert (not found) == example["compatible"], found


def check_protobuf(example: dict[str, Any]) -> None:
    sides = []
    for side in ("original", "update"):
        references = [ReferencedSchema(each["name"], each["dependency"]) for each in example.get(f"{side}_dependencies") or ()]
        sides.append(ProtobufSchema(example[f"{side}_schema"], references, is_new=False))
    found = sides[1].differences(sides[0])
    kinds = set(re.findall(r'errorType:"(\w+)"', "".join(found)))
    assert (not found) == example["compatible"], found
    assert kinds <= {each.split(" ")[0] for each in example["changes"]}


def test_json_schemas() -> None:
    found = examples_of("json-schema-provider")
    assert len(found) > 200
    assert failing(found, check_json, lambda each: each["description"]) == {}


def test_protobuf_schemas() -> None:
    found = examples_of("protobuf-provider")
    assert len(found) > 50
    assert failing(found, check_protobuf, lambda each: each["description"]) == {}
