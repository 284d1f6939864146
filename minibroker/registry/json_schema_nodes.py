"""A JSON Schema as nodes of one kind each, which can be compared.

    kind                              from
    any, none                         {} and true; false
    string, number, object, array     `type`, or else keywords that only this type has
    boolean, null                     `type`
    const, enum, not                  the keyword
    allOf, anyOf, oneOf               the keyword; `type` with several names is anyOf
    other                             `if`, `$dynamicRef` and others that are not compared

A schema with parts of several kinds, such as `type` with `enum`, is an allOf of these parts. `$ref` is
followed when a node is compared, so that schemas may contain themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

STRING_KEYWORDS: Final = frozenset({"minLength", "maxLength", "pattern", "format"})
NUMBER_KEYWORDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
OBJECT_KEYWORDS: Final = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"}
    | {"dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties"}
)
ARRAY_KEYWORDS: Final = frozenset(
    {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"}
    | {"minContains", "maxContains", "unevaluatedItems"}
)
_OF_TYPE: Final = {
    "string": ("string", STRING_KEYWORDS),
    "number": ("number", NUMBER_KEYWORDS),
    "integer": ("number", NUMBER_KEYWORDS),
    "object": ("object", OBJECT_KEYWORDS),
    "array": ("array", ARRAY_KEYWORDS),
    "boolean": ("boolean", frozenset[str]()),
    "null": ("null", frozenset[str]()),
}
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")
_NOT_COMPARED: Final = ("if", "$dynamicRef", "$recursiveRef")

Schema = bool | Mapping[str, Any]
Resolve = Callable[[str, Any], tuple[Schema, Any]]  #: (reference, scope) -> (schema, its scope)


@dataclass(slots=True, eq=False)
class Node:
    """One schema, or one part of it."""

    kind: str
    keywords: Mapping[str, Any] = field(default_factory=dict)  #: those of the kind, as they are written
    parts: list[Node] = field(default_factory=list)  #: of a combinator
    has_default: bool = False
    scope: Any = None  #: where references are resolved from
    reference: str | None = None  #: what it refers to, if it is only that

    def identity(self) -> tuple[Any, ...]:
        """A value that is equal for nodes that mean the same: of duplicates in a combinator one counts."""
        return (self.kind, _frozen(self.keywords), tuple(part.identity() for part in self.parts), self.reference)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozenset((key, _frozen(each)) for key, each in value.items())
    if isinstance(value, list):
        return (list, *map(_frozen, value))
    return (type(value), value)


class Nodes:
    """Makes the nodes of one schema, each once."""

    def __init__(self, resolve: Resolve, *, has_modern_dialect: bool) -> None:
        """`has_modern_dialect`: keywords beside `$ref` count, as they do since 2019-09."""
        self._resolve = resolve
        self._has_modern_dialect = has_modern_dialect
        self._made: dict[int, Node] = {}
        self._kept: list[Schema] = []  # so that no id is used twice

    def of(self, schema: Schema, scope: Any) -> Node:
        """The node of a schema, with references followed."""
        node = self.unresolved(schema, scope)
        followed = 0
        while node.reference is not None:
            followed += 1
            if followed > 100:
                return Node("other")  # references that lead to each other allow everything
            node = self.unresolved(*self._resolve(node.reference, node.scope))
        return node

    def unresolved(self, schema: Schema, scope: Any) -> Node:
        """The node of a schema; a reference is not followed."""
        if isinstance(schema, bool) or not schema:
            return Node("any" if schema or schema == {} else "none")
        node = self._made.get(id(schema))
        if node is None:
            node = self._made[id(schema)] = self._make(schema, scope)
            self._kept.append(schema)
        return node

    def _make(self, schema: Mapping[str, Any], scope: Any) -> Node:
        has_default = "default" in schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and not self._has_modern_dialect:
            return Node("reference", has_default=has_default, scope=scope, reference=reference)
        parts = [*self._parts(schema, scope)]
        if isinstance(reference, str):
            parts.insert(0, Node("reference", scope=scope, reference=reference))
        if not parts:
            return Node("any", has_default=has_default)
        if len(parts) == 1:
            parts[0].has_default = has_default
            return parts[0]
        return Node("allOf", parts=parts, has_default=has_default, scope=scope)

    def _parts(self, schema: Mapping[str, Any], scope: Any) -> Iterator[Node]:
        if "const" in schema:
            yield Node("const", {"const": schema["const"]})
        if "enum" in schema:
            yield Node("enum", {"enum": schema["enum"]})
        yield from self._typed(schema, scope)
        for name in _COMBINATORS:
            if name in schema:
                yield Node(name, parts=[self.unresolved(each, scope) for each in schema[name]], scope=scope)
        if "not" in schema:
            yield Node("not", {"not": schema["not"]}, scope=scope)
        if any(name in schema for name in _NOT_COMPARED):
            yield Node("other")

    def _typed(self, schema: Mapping[str, Any], scope: Any) -> Iterator[Node]:
        names = schema.get("type")
        if isinstance(names, str):
            yield _typed_node(names, schema, scope)
        elif isinstance(names, list):
            yield Node("anyOf", parts=[_typed_node(name, schema, scope) for name in names], scope=scope)
        elif "const" not in schema and "enum" not in schema:
            for name in ("string", "number", "object", "array"):
                if _OF_TYPE[name][1] & schema.keys():
                    yield _typed_node(name, schema, scope)


def _typed_node(name: str, schema: Mapping[str, Any], scope: Any) -> Node:
    kind, keywords = _OF_TYPE[name]
    own = {key: value for key, value in schema.items() if key in keywords}
    return Node(kind, own | ({"integer": True} if name == "integer" else {}), scope=scope)
