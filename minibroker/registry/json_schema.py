"""JSON schemas of drafts 4 to 2020-12, checked against their metaschema.

References lead into the schema itself, to its `$id`s, and to the names of its registered references.
Nothing is fetched from the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partialmethod
from typing import Any, Final

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft7Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from minibroker.registry.errors import invalid_schema
from minibroker.registry.json_schema_compatibility import Change, JsonSchemaComparison, Side
from minibroker.registry.json_schema_nodes import Nodes, Schema
from minibroker.registry.json_text import read_json, write_json
from minibroker.registry.parsed_schema import ParsedSchema, ReferencedSchema

_BASE: Final = "urn:minibroker:schema"
_OLD_DIALECTS: Final = ("draft-03", "draft-04", "draft-06", "draft-07")
_DEFAULT_DIALECT: Final = "http://json-schema.org/draft-07/schema#"

_NEW, _OLD = "%(reader)s", "%(writer)s"  #: names of the two sides, which `compatibility.py` fills in
_DESCRIPTIONS: Final = {
    "_INCREASED": f"The value at path '{{path}}' in the {_NEW} schema is more than its value in the {_OLD} schema",
    "_EXPANDED": f"The value at path '{{path}}' in the {_NEW} schema is more than its value in the {_OLD} schema",
    "_DECREASED": f"The value at path '{{path}}' in the {_NEW} schema is less than its value in the {_OLD} schema",
    "PATTERN_CHANGED": f"The value at path '{{path}}' is different between the {_NEW} and {_OLD} schema",
    "MULTIPLE_OF_CHANGED": f"The value at path '{{path}}' is different between the {_NEW} and {_OLD} schema",
    "DEPENDENCY_ARRAY_CHANGED": f"The value at path '{{path}}' is different between the {_NEW} and {_OLD} schema",
    "TYPE_NARROWED": f"A type at path '{{path}}' is different between the {_NEW} schema and the {_OLD} schema",
    "_CHANGED": f"A type at path '{{path}}' is different between the {_NEW} schema and the {_OLD} schema",
    "_TO_OPEN_CONTENT_MODEL": (
        f"The {_NEW} schema has an open content model and has a property or item at path '{{path}}' which is missing in the {_OLD} schema"
    ),
    "_TO_UNOPEN_CONTENT_MODEL": (
        f"The {_NEW} schema has an unopen content model and has a required property at path '{{path}}' which is missing in the "
        f"{_OLD} schema"
    ),
    "_FROM_CLOSED_CONTENT_MODEL": (
        f"The {_NEW} has a closed content model and is missing a property or item present at path '{{path}}' in the {_OLD} schema"
    ),
    "_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        f"A property or item is missing in the {_NEW} schema but present at path '{{path}}' in the {_OLD} schema and is not covered by "
        "its partially open content model"
    ),
    "_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        f"The {_NEW} schema has a property or item at path '{{path}}' which is missing in the {_OLD} schema and is not covered by its "
        "partially open content model"
    ),
    "_NARROWED": f"An array or combined type at path '{{path}}' has fewer elements in the {_NEW} schema than the {_OLD} schema",
    "_EXTENDED": f"An array or combined type at path '{{path}}' has more elements in the {_NEW} schema than the {_OLD} schema",
    "": f"The keyword at path '{{path}}' in the {_NEW} schema is not present in the {_OLD} schema",
}  #: Confluent's words by the ends of the kinds of changes; the first that fits


class JsonSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Sequence[ReferencedSchema], *, is_new: bool) -> None:
        """Parse it. Raises RegistryError (42201)."""
        try:
            self._schema = _read(text)
            if is_new:
                _check_new(self._schema)
            registry = _registry(self._schema, references)
            self._resolver = registry.resolver(_BASE)
            self._nodes = Nodes(self._resolve, has_modern_dialect=_is_modern(self._schema))
            self._root = self._nodes.of(self._schema, self._resolver)
            for reference, scope in _references_in(self._schema, self._resolver):
                scope.lookup(reference)
        except SchemaError as error:
            raise invalid_schema(f"Invalid schema of type JSON, details: {error.message} at {error.json_path}") from error
        except Unresolvable as error:
            raise invalid_schema(f"Invalid schema of type JSON, details: cannot resolve the reference {error.ref!r}") from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise invalid_schema(f"Invalid schema of type JSON, details: {error}") from error
        except RecursionError:
            raise invalid_schema("Invalid schema of type JSON, details: too many nested schemas") from None
        self.text = write_json(self._schema)
        self.normal_text = write_json(_sorted(self._schema))
        self.resolved_text = "\n".join([self.normal_text, *(write_json(_sorted(read_json(each.text))) for each in references)])

    @staticmethod
    def _resolve(reference: str, scope: Any) -> tuple[Schema, Any]:
        found = scope.lookup(reference)
        return found.contents, found.resolver

    def formatted(self, form: str) -> str:
        """The text; JSON Schema has no other forms."""
        del form
        return self.text

    def equals(self, stored: ParsedSchema) -> bool:
        """Whether it is the same schema. The order of keys counts, unless `stored` has them sorted, as Karapace stores all of them."""
        return stored.text in {self.text, self.normal_text}

    def differences(self, writer: ParsedSchema) -> list[str]:
        """Why what was valid for `writer` may not be valid for this schema, in Confluent's words."""
        if not isinstance(writer, JsonSchema):
            raise TypeError("schemas of different types are not compared")
        old, new = Side(writer._nodes, writer._root), Side(self._nodes, self._root)  # noqa: SLF001  of the same class
        try:
            return [_text(each) for each in JsonSchemaComparison(old, new).changes()]
        except RecursionError:
            raise invalid_schema("the schemas are too deep to compare") from None


def _read(text: str) -> Schema:
    schema = read_json(text)
    if not isinstance(schema, bool | dict):
        raise TypeError("a schema is an object, true or false")
    return schema


def _dialect(schema: Schema) -> str:
    named = schema.get("$schema") if isinstance(schema, Mapping) else None
    return named if isinstance(named, str) else _DEFAULT_DIALECT


def _is_modern(schema: Schema) -> bool:
    return not any(each in _dialect(schema) for each in _OLD_DIALECTS)


def _registry(schema: Schema, references: Sequence[ReferencedSchema]) -> Registry[Any]:
    """The schema and those that it references, by name and by their own `$id`. It fetches nothing."""
    registry: Registry[Any] = Registry()
    for reference in references:
        contents = read_json(reference.text)
        resource = _resource(contents)
        registry = registry.with_resource(reference.name, resource)
        registry = registry.with_resource(resource.id() or reference.name, resource)
    root = _resource(schema)
    registry = registry.with_resource(_BASE, root).with_resource(root.id() or _BASE, root)
    return registry.crawl()


def _resource(schema: Schema, dialect: str | None = None) -> Resource[Any]:
    specification = specification_with(dialect or _dialect(schema), default=DRAFT202012)
    return specification.create_resource(schema)


def _references_in(schema: Schema, scope: Any) -> Iterator[tuple[str, Any]]:
    """All `$ref`s of a schema with the place that they are resolved from."""
    todo: list[tuple[Any, Any]] = [(schema, scope)]
    while todo:
        node, scope = todo.pop()
        if isinstance(node, Mapping):
            identifier = node.get("$id")
            if isinstance(identifier, str) and not identifier.startswith("#"):
                scope = scope.in_subresource(_resource(node, _dialect(schema)))
            if isinstance(node.get("$ref"), str):
                yield node["$ref"], scope
            todo += [(each, scope) for name, each in node.items() if name not in {"enum", "const", "default", "examples"}]
        elif isinstance(node, list):
            todo += [(each, scope) for each in node]


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _text(change: Change) -> str:
    path = change.path.replace("%", "%%")  # the texts are formatted once more, with the names of the two sides
    description = next(text for end, text in _DESCRIPTIONS.items() if change.kind.endswith(end)).format(path=path)
    return f'{{errorType:"{change.kind}", description:"{description}\'}}'


def _check_new(schema: Schema) -> None:
    """Check a schema by the metaschema of its `$schema`, or of draft 7. Raises SchemaError."""
    base = validator_for(schema, default=Draft7Validator)
    validator = limited_validator(base, lambda _: {})(base.META_SCHEMA, format_checker=base.FORMAT_CHECKER)
    for error in validator.iter_errors(schema):
        raise SchemaError.create_from(error)


def limited_validator(base: Any, keywords: Callable[[Any], Mapping[str, Any]]) -> Any:
    """Return a validator class that does not compare each item with all others to see whether items are unique.

    The library takes its own class for each subschema with `$schema`, such as the root when `$ref` leads back to it. This one does not.

    Args:
        base: the library's class of a dialect.
        keywords: returns more functions of keywords for such a class.
    """
    classes: dict[Any, Any] = {}

    def limited(base: Any) -> Any:
        if base not in classes:
            made = classes[base] = extend(base, {"uniqueItems": _unique_items, **keywords(base)})
            made.evolve = partialmethod(evolve, made.evolve)
        return classes[base]

    def evolve(validator: Any, inherited: Any, **changes: Any) -> Any:
        found = inherited(validator, **changes)
        if type(found) is type(validator):
            return found
        fields = {"format_checker": found.format_checker, "registry": found._registry, "_resolver": found._resolver}  # noqa: SLF001
        return limited(type(found))(found.schema, **fields)

    return limited(base)


def _unique_items(_validator: Any, are_unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if are_unique and isinstance(instance, list) and len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _hashable(value: Any) -> Any:
    """Return what is equal for equal JSON: 1 and 1.0, but neither 1 and true nor an object and a list."""
    if isinstance(value, dict):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return (bool, value) if isinstance(value, bool) else value
