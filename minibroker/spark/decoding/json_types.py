"""JSON Schema to the types of `from_json`.

A type that Spark does not have becomes a string, in which `from_json` puts the JSON text: values of several types,
objects without declared properties, and a schema inside itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from minibroker.spark.failures import SourceError

_DEPTH_MAX: Final = 100
_FIELDS_MAX: Final = 10_000
_STEPS_MAX: Final = 50_000  #: schemas that are looked at, each as often as it is referenced
_SIMPLE: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_TEXT: Final = StringType()


def json_type(text: str, documents: Mapping[str, str]) -> DataType:
    """Return the type of a schema's values.

    Args:
        text: the schema.
        documents: the schemas that it references, by the names of the references.

    Raises:
        SourceError: it is no schema, too large, or its values are neither objects nor arrays.
    """
    try:
        root = json.loads(text)
        others = {name: json.loads(each) for name, each in documents.items()}
    except (ValueError, RecursionError):
        raise SourceError("the schema is not JSON") from None
    found = _Types(root, others).of(root, root, ())
    if isinstance(found, StructType | ArrayType | MapType):
        return found
    raise SourceError("from_json needs a schema of objects or arrays: declare the properties of the object")


class _Types:
    """Types of one schema and those that it references."""

    def __init__(self, root: Any, documents: Mapping[str, Any]) -> None:
        self._documents = {name.rstrip("#"): each for name, each in documents.items()}
        for each in (root, *documents.values()):
            if isinstance(each, dict):
                for name in ("$id", "id"):
                    if isinstance(each.get(name), str):
                        self._documents.setdefault(each[name].rstrip("#"), each)
        self._fields_left = _FIELDS_MAX
        self._steps_left = _STEPS_MAX

    def of(self, schema: Any, document: Any, within: tuple[int, ...]) -> DataType:
        """Return the type of a schema in a document; `within` are the schemas around it."""
        if not isinstance(schema, dict) or id(schema) in within or len(within) > _DEPTH_MAX:
            return _TEXT
        self._steps_left -= 1
        if self._steps_left < 0:
            raise SourceError(f"the schema has more than {_STEPS_MAX} parts, each counted as often as it is referenced")
        within = (*within, id(schema))
        if isinstance(schema.get("$ref"), str):
            target, target_document = self._target(schema["$ref"], document)
            return self.of(target, target_document, within)
        for name in ("oneOf", "anyOf"):
            if isinstance(schema.get(name), list):
                return self._common([each for each in schema[name] if not _is_null(each)], document, within)
        kinds = schema.get("type")
        kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each not in ("null", None)]
        if "allOf" in schema or "properties" in schema or kinds == ["object"]:
            return self._object(schema, document, within) if kinds in ([], ["object"]) else _TEXT
        if kinds == ["array"]:
            return self._array(schema, document, within)
        return _SIMPLE.get(str(kinds[0]), _TEXT) if len(kinds) == 1 else _TEXT

    def _common(self, branches: list[Any], document: Any, within: tuple[int, ...]) -> DataType:
        """Return the type of all branches; a string if they have several."""
        kinds = [self.of(each, document, within) for each in branches]
        return kinds[0] if kinds and all(each == kinds[0] for each in kinds) else _TEXT

    def _object(self, schema: dict[str, Any], document: Any, within: tuple[int, ...]) -> DataType:
        fields: dict[str, DataType] = {}
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            kind = self.of(part, document, within)
            if isinstance(kind, StructType):
                fields |= {field.name: field.dataType for field in kind.fields}
        properties = schema.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            fields[name] = self.of(each, document, within)
        self._fields_left -= len(fields)
        if self._fields_left < 0:
            raise SourceError(f"the schema has more than {_FIELDS_MAX} fields")
        if fields:
            return StructType([StructField(name, kind) for name, kind in fields.items()])
        values = schema.get("additionalProperties")
        return MapType(_TEXT, self.of(values, document, within)) if isinstance(values, dict) and values else _TEXT

    def _array(self, schema: dict[str, Any], document: Any, within: tuple[int, ...]) -> DataType:
        items = schema.get("items")
        if isinstance(schema.get("prefixItems"), list) or isinstance(items, list):
            items = None  # a tuple: each item has a schema of its own
        return ArrayType(self.of(items, document, within))

    def _target(self, reference: str, document: Any) -> tuple[Any, Any]:
        """Return what a `$ref` names, and the document that it is in; (None, None) if it is not there."""
        place, _, pointer = reference.partition("#")
        if place:
            document = self._documents.get(place)
        target = document
        for word in pointer.split("/")[1:] if pointer.startswith("/") else ():
            name = unquote(word).replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        return target, document


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"
