"""Which changes of a JSON Schema keep old data valid.

The new schema must accept all that the old one accepted. Changes are found keyword by keyword, and have
the names of Confluent's registry. Only those that are not compatible are returned:

    keyword                           not compatible
    min.., exclusiveMinimum, ..       added or increased
    max.., exclusiveMaximum, ..       added or decreased
    pattern, multipleOf, const, enum  added or changed; more values of an enum, and divisors of multipleOf, are
    type                              changed, or `number` to `integer`
    required                          added, unless the property has a default
    properties                        added to a schema that allowed any value under that name;
                                      removed from one that allows no others
    dependencies, uniqueItems         added or extended
    anyOf, oneOf                      fewer parts
    allOf                             more parts
    not                               the other way round

Content models: an object that allows other properties is open, one that does not is closed, and one
that allows them by a schema, by name or in general, is partially open. The same holds for arrays.

Source: Schema Registry's documentation, "JSON Schema compatibility rules", and its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from minibroker.errors import InvalidRegularExpression
from minibroker.registry.errors import invalid_schema
from minibroker.registry.json_schema_nodes import Node, Nodes, Schema
from minibroker.regular_expression import Regex

_PAIRS_MAX: Final = 50_000  #: of nodes that are compared; a bound of time
_PASSES_MAX: Final = 20
_LOWER: Final = frozenset({"minLength", "minimum", "exclusiveMinimum", "minProperties", "minItems", "minContains"})
_UPPER: Final = frozenset({"maxLength", "maximum", "exclusiveMaximum", "maxProperties", "maxItems", "maxContains"})
_WORDS: Final = {
    "minLength": "MIN_LENGTH", "maxLength": "MAX_LENGTH", "minimum": "MINIMUM", "maximum": "MAXIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM", "exclusiveMaximum": "EXCLUSIVE_MAXIMUM", "minProperties": "MIN_PROPERTIES",
    "maxProperties": "MAX_PROPERTIES", "minItems": "MIN_ITEMS", "maxItems": "MAX_ITEMS", "minContains": "MIN_CONTAINS",
    "maxContains": "MAX_CONTAINS",
}  # fmt: skip


class Change(NamedTuple):
    """A change that is not compatible."""

    kind: str
    path: str


class Side(NamedTuple):
    """One of the two schemas."""

    nodes: Nodes
    root: Node


class JsonSchemaComparison:
    """Compares an old schema with a new one. Comparisons within it, of negated schemas, share its budget."""

    def __init__(self, old: Side, new: Side, pairs_left: Iterator[int] | None = None) -> None:
        self._old = old
        self._new = new
        self._known: dict[tuple[int, int], list[Change] | None] = {}  #: paths are relative to the pair; None while it is compared
        self._assumed: set[tuple[int, int]] = set()  #: pairs that were taken for compatible, because they contain themselves
        self._failed: dict[tuple[int, int], list[Change]] = {}  #: of the last pass
        self._pairs_left = iter(range(_PAIRS_MAX)) if pairs_left is None else pairs_left

    def changes(self) -> list[Change]:
        """All changes that are not compatible.

        A pair of schemas that contains itself is taken for compatible at first. If it turns out not to be, all is compared again with that.
        """
        for _ in range(_PASSES_MAX):
            found = self._compare(self._old.root, self._new.root)
            failed = {pair: changes for pair, changes in self._known.items() if changes}
            if not self._assumed & failed.keys() or failed.keys() == self._failed.keys():
                break
            self._failed, self._known, self._assumed = failed, {}, set()
        return [Change(each.kind, f"#/{each.path}") for each in found]

    def _compare(self, old: Node, new: Node) -> list[Change]:
        old, new = _followed(old, self._old.nodes), _followed(new, self._new.nodes)
        pair = (id(old), id(new))
        if pair in self._known:
            known = self._known[pair]
            if known is None:
                self._assumed.add(pair)
                return self._failed.get(pair, [])
            return known
        if next(self._pairs_left, None) is None:
            raise invalid_schema(f"the schemas are too complex to compare: more than {_PAIRS_MAX} pairs of their parts")
        self._known[pair] = None
        found = self._known[pair] = self._compare_kinds(old, new)
        return found

    def _at(self, path: str, old: Node, new: Node) -> list[Change]:
        return [Change(each.kind, f"{path}/{each.path}" if each.path else path) for each in self._compare(old, new)]

    def _compare_schemas(self, path: str, old: Schema, new: Schema, old_node: Node, new_node: Node) -> list[Change]:
        """Compare the values of a keyword of two nodes."""
        return self._at(path, self._old.nodes.of(old, old_node.scope), self._new.nodes.of(new, new_node.scope))

    def _compare_kinds(self, old: Node, new: Node) -> list[Change]:
        if new.kind in _COMBINED and old.kind not in _COMBINED:
            is_sum = new.kind != "allOf" or len(new.parts) == 1
            if is_sum and any(not self._compare(old, part) for part in new.parts):
                return []
        elif old.kind in _COMBINED and new.kind not in _COMBINED:
            is_product = old.kind == "allOf" or len(old.parts) == 1
            if is_product and any(not self._compare(part, new) for part in old.parts):
                return []
        if old.kind != new.kind and not (old.kind in _COMBINED and new.kind in _COMBINED):
            return [] if old.kind == "none" or new.kind == "any" else [Change("TYPE_CHANGED", "")]
        match old.kind:
            case "allOf" | "anyOf" | "oneOf":
                return self._compare_combined(old, new)
            case "object":
                return self._compare_objects(old, new)
            case "array":
                return self._compare_arrays(old, new)
            case "not":
                reverse = JsonSchemaComparison(
                    Side(self._new.nodes, self._new.nodes.of(new.keywords["not"], new.scope)),
                    Side(self._old.nodes, self._old.nodes.of(old.keywords["not"], old.scope)),
                    self._pairs_left,
                )
                return [Change("NOT_TYPE_EXTENDED", "not")] if reverse.changes() else []
        return [*_compare_values(old.keywords, new.keywords)]

    # Combinators

    def _compare_combined(self, old: Node, new: Node) -> list[Change]:
        old_parts, new_parts = _distinct(old.parts), _distinct(new.parts)
        if old.kind != new.kind and not _is_wider(old, new):
            return [Change("COMBINED_TYPE_CHANGED", "")]
        found = []
        if len(old_parts) < len(new_parts) and new.kind == "allOf":
            found.append(Change("PRODUCT_TYPE_EXTENDED", ""))
        if len(old_parts) > len(new_parts) and old.kind != "allOf":
            found.append(Change("SUM_TYPE_NARROWED", ""))
        edges = [[index for index, part in enumerate(new_parts) if not self._compare(each, part)] for each in old_parts]
        if _largest_matching(edges) < min(len(old_parts), len(new_parts)):
            found.append(Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""))
        return found

    # Objects

    def _compare_objects(self, old: Node, new: Node) -> list[Change]:
        old_properties, new_properties = old.keywords.get("properties", {}), new.keywords.get("properties", {})
        required, was_required = set(new.keywords.get("required", ())), set(old.keywords.get("required", ()))
        found: list[Change] = []
        found += [
            Change("REQUIRED_ATTRIBUTE_ADDED", f"required/{name}")
            for name in old_properties
            if name in new_properties and name in required - was_required and not _has_default(new_properties[name])
        ]
        for name in dict.fromkeys([*old_properties, *new_properties]):
            path = f"properties/{name}"
            if name not in new_properties:
                found += self._property_removed(path, name, old, new)
            elif name not in old_properties:
                found += self._property_added(path, name, old, new)
            else:
                found += self._compare_schemas(path, old_properties[name], new_properties[name], old, new)
        found += self._compare_dependencies(old, new)
        found += self._compare_others("additionalProperties", "ADDITIONAL_PROPERTIES", old, new)
        found += self._compare_unevaluated("unevaluatedProperties", "UNEVALUATED_PROPERTIES", old, new)
        return [*found, *_compare_values(old.keywords, new.keywords)]

    def _property_removed(self, path: str, name: str, old: Node, new: Node) -> list[Change]:
        if _is_open_object(new):
            return []
        schema = old.keywords["properties"][name]
        others = _schema_of_others(new, name)
        if others is None:
            return [] if schema is False else [Change("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
        found = self._compare_schemas(path, schema, others, old, new)
        return [*found, Change("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)] if found else []

    def _property_added(self, path: str, name: str, old: Node, new: Node) -> list[Change]:
        schema = new.keywords["properties"][name]
        is_required, has_default = name in new.keywords.get("required", ()), _has_default(schema)
        if _is_open_object(old):
            if schema is True or schema == {}:
                return []
            if not is_required:
                return [Change("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)]
            kind = "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED" if has_default else "REQUIRED_PROPERTY_ADDED"
            return [Change(f"{kind}_TO_OPEN_CONTENT_MODEL", path)]
        found: list[Change] = []
        others = _schema_of_others(old, name)
        if others is not None:
            found = self._compare_schemas(path, others, schema, old, new)
            if found:
                found.append(Change("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path))
        if is_required and not has_default:
            found.append(Change("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path))
        return found

    def _compare_dependencies(self, old: Node, new: Node) -> list[Change]:
        (old_names, old_schemas), (new_names, new_schemas) = _dependencies(old), _dependencies(new)
        found: list[Change] = []
        for name, needed in new_names.items():
            path = f"dependencies/{name}"
            before = old_names.get(name)
            if before is None:
                found.append(Change("DEPENDENCY_ARRAY_ADDED", path))
            elif needed > before:
                found.append(Change("DEPENDENCY_ARRAY_EXTENDED", path))
            elif not needed <= before:
                found.append(Change("DEPENDENCY_ARRAY_CHANGED", path))
        for name, schema in new_schemas.items():
            path = f"dependencies/{name}"
            if name not in old_schemas:
                found.append(Change("DEPENDENCY_SCHEMA_ADDED", path))
            else:
                found += self._compare_schemas(path, old_schemas[name], schema, old, new)
        return found

    # Arrays

    def _compare_arrays(self, old: Node, new: Node) -> list[Change]:
        (old_items, old_item), (new_items, new_item) = _items(old), _items(new)
        found: list[Change] = []
        if old_item is None and new_item is not None:
            found.append(Change("SCHEMA_ADDED", "items"))
        elif old_item is not None and new_item is not None:
            found += self._compare_schemas("items", old_item, new_item, old, new)
        for index, (before, after) in enumerate(zip(old_items, new_items, strict=False)):
            found += self._compare_schemas(f"items/{index}", before, after, old, new)
        for index in range(len(new_items), len(old_items)):
            found += self._item_removed(f"items/{index}", old_items[index], old, new)
        for index in range(len(old_items), len(new_items)):
            found += self._item_added(f"items/{index}", new_items[index], old, new)
        found += self._compare_others("additionalItems", "ADDITIONAL_ITEMS", old, new)
        found += self._compare_unevaluated("unevaluatedItems", "UNEVALUATED_ITEMS", old, new)
        return [*found, *_compare_values(old.keywords, new.keywords)]

    def _item_removed(self, path: str, schema: Schema, old: Node, new: Node) -> list[Change]:
        if _is_open_array(new):
            return []
        others = _schema_of_items(new)
        if others is None:
            return [] if schema is False else [Change("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
        found = self._compare_schemas(path, schema, others, old, new)
        return [*found, Change("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)] if found else []

    def _item_added(self, path: str, schema: Schema, old: Node, new: Node) -> list[Change]:
        if _is_open_array(old):
            return [] if schema is True or schema == {} else [Change("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path)]
        others = _schema_of_items(old)
        if others is None:
            return []
        found = self._compare_schemas(path, others, schema, old, new)
        return [*found, Change("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)] if found else []

    # Both

    def _compare_others(self, keyword: str, words: str, old: Node, new: Node) -> list[Change]:
        """Properties or items that are not named."""
        before, after = _others(old, keyword), _others(new, keyword)
        if (before is False) != (after is False):
            return [Change(f"{words}_REMOVED", keyword)] if after is False else []
        if before is None and after is not None:
            return [Change(f"{words}_NARROWED", keyword)]
        if before is None or after is None or before is False:
            return []
        return self._compare_schemas(keyword, before, after, old, new)

    def _compare_unevaluated(self, keyword: str, words: str, old: Node, new: Node) -> list[Change]:
        before, after = old.keywords.get(keyword, True), new.keywords.get(keyword)
        if after is None:
            return []
        if after is False:
            return [] if before is False else [Change(f"{words}_REMOVED", keyword)]
        if before is False or after is True or after == {}:
            return []
        if before is True or before == {}:
            return [Change(f"{words}_NARROWED", keyword)]
        return self._compare_schemas(keyword, before, after, old, new)


_COMBINED: Final = frozenset({"allOf", "anyOf", "oneOf"})


def _followed(node: Node, nodes: Nodes) -> Node:
    return node if node.reference is None else nodes.of({"$ref": node.reference}, node.scope)


def _is_wider(old: Node, new: Node) -> bool:
    """Whether another combinator allows at least as much."""
    is_single, will_be_single = len(old.parts) == 1, len(new.parts) == 1
    return new.kind == "anyOf" or (is_single and (will_be_single or new.kind == "oneOf")) or (will_be_single and old.kind == "allOf")


def _distinct(parts: Iterable[Node]) -> list[Node]:
    return [*{part.identity(): part for part in parts}.values()]


def _largest_matching(edges: Sequence[Sequence[int]]) -> int:
    """How many of the left nodes can be given a right node each. `edges` has the right nodes of each left one."""
    partner: dict[int, int] = {}

    def give(left: int, seen: set[int]) -> bool:
        for right in edges[left]:
            if right not in seen:
                seen.add(right)
                if right not in partner or give(partner[right], seen):
                    partner[right] = left
                    return True
        return False

    return sum(give(left, set()) for left in range(len(edges)))


def _compare_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Keywords whose value is a number, a text or a list of values."""
    for name in sorted((_LOWER | _UPPER) & new.keys()):
        yield from _compare_limit(name, _number(old.get(name)), _number(new[name]))
    yield from _compare_multiple(_number(old.get("multipleOf")), _number(new.get("multipleOf")))
    if "pattern" in new and old.get("pattern") != new["pattern"]:
        yield Change("PATTERN_CHANGED" if "pattern" in old else "PATTERN_ADDED", "pattern")
    if new.get("integer") and not old.get("integer"):
        yield Change("TYPE_NARROWED", "")
    if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
        yield Change("UNIQUE_ITEMS_ADDED", "uniqueItems")
    if "const" in new and _distinct_values([old["const"]]) != _distinct_values([new["const"]]):
        yield Change("ENUM_ARRAY_CHANGED", "const")
    if "enum" in new:
        was, will_be = _distinct_values(old["enum"]), _distinct_values(new["enum"])
        if not was <= will_be:
            yield Change("ENUM_ARRAY_NARROWED" if will_be < was else "ENUM_ARRAY_CHANGED", "enum")


def _compare_limit(name: str, old: Fraction | None, new: Fraction | None) -> Iterator[Change]:
    if new is None:
        return
    if old is None:
        yield Change(f"{_WORDS[name]}_ADDED", name)
    elif name in _LOWER and new > old:
        yield Change(f"{_WORDS[name]}_INCREASED", name)
    elif name in _UPPER and new < old:
        yield Change(f"{_WORDS[name]}_DECREASED", name)


def _compare_multiple(old: Fraction | None, new: Fraction | None) -> Iterator[Change]:
    if not new or old == new:
        return
    if old is None:
        yield Change("MULTIPLE_OF_ADDED", "multipleOf")
    elif old % new:
        yield Change("MULTIPLE_OF_EXPANDED" if old and not new % old else "MULTIPLE_OF_CHANGED", "multipleOf")


def _distinct_values(values: Iterable[Any]) -> set[tuple[Any, ...]]:
    return {Node("enum", {"value": each}).identity() for each in values}


def _number(value: object) -> Fraction | None:
    """A number; draft 4's booleans for exclusive limits are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Fraction(str(value))


def _has_default(schema: Schema) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def _dependencies(node: Node) -> tuple[dict[str, set[str]], dict[str, Schema]]:
    """Properties that need other properties, and those that need a schema. They were one keyword before 2019-09."""
    old = node.keywords.get("dependencies", {})
    names = {name: set(value) for name, value in old.items() if isinstance(value, list)}
    names |= {name: set(value) for name, value in node.keywords.get("dependentRequired", {}).items()}
    schemas = {name: value for name, value in old.items() if not isinstance(value, list)}
    return names, schemas | dict(node.keywords.get("dependentSchemas", {}))


def _others(node: Node, keyword: str) -> Schema | None:
    """The schema of properties or items that are not named; None: any is allowed."""
    if keyword == "additionalItems":
        value = node.keywords.get("items" if "prefixItems" in node.keywords else keyword)
    else:
        value = node.keywords.get(keyword)
    return None if value is True else value


def _is_open_object(node: Node) -> bool:
    unevaluated = node.keywords.get("unevaluatedProperties", True)
    has_patterns = bool(node.keywords.get("patternProperties"))
    return _others(node, "additionalProperties") is None and not has_patterns and (unevaluated is True or unevaluated == {})


def _schema_of_others(node: Node, name: str) -> Schema | None:
    """The schema of a property that is not named, in a partially open object."""
    for pattern, schema in node.keywords.get("patternProperties", {}).items():
        if _finds(pattern, name):
            found: Schema = schema
            return found
    others = _others(node, "additionalProperties")
    if others is not None:
        return None if others is False else others
    return _partial(node.keywords.get("unevaluatedProperties"))


def _is_open_array(node: Node) -> bool:
    unevaluated = node.keywords.get("unevaluatedItems", True)
    return _others(node, "additionalItems") is None and (unevaluated is True or unevaluated == {})


def _schema_of_items(node: Node) -> Schema | None:
    others = _others(node, "additionalItems")
    if others is not None:
        return None if others is False else others
    return _partial(node.keywords.get("unevaluatedItems"))


def _partial(unevaluated: Schema | None) -> Schema | None:
    return None if unevaluated is None or isinstance(unevaluated, bool) or unevaluated == {} else unevaluated


def _items(node: Node) -> tuple[Sequence[Schema], Schema | None]:
    """The schemas of the first items, and the schema of all items if there are no first ones."""
    if "prefixItems" in node.keywords:
        return node.keywords["prefixItems"], None
    items = node.keywords.get("items")
    return (items, None) if isinstance(items, list) else ((), items)


def _finds(pattern: str, text: str) -> bool:
    try:
        return Regex(f"(?s:.*)(?:{pattern})(?s:.*)").matches(text)
    except InvalidRegularExpression:
        return False
