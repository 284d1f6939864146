"""Check JSON by its schema before it is encoded.

Patterns run in RE2, references lead nowhere outside, and the number of references that a validation
follows, and of searches for what no other keyword has evaluated, is limited: a schema can otherwise keep
a validator busy for years.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from minibroker.extras import install_command
from minibroker.registry.json_text import read_json
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.serdes.errors import LimitError, SerdesError

try:
    import re2
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError, best_match
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7, DRAFT202012, specification_with

    from minibroker.registry.json_schema import limited_validator
except ImportError as error:
    raise SerdesError(f"JSON Schema needs {error.name}: {install_command('registry')}") from error

_REFERENCES_MAX: Final = 1_000  #: followed in one validation
_REFERENCES_PER_LETTER: Final = 2  #: of the value, in addition
_SHOWN: Final = 150  #: letters at the beginning and at the end of a long message, which may have the value in it
_FOLLOWING: Final = ("$ref", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")


class JsonValidator:
    """Checks values by a schema."""

    def __init__(self, text: str, references: Sequence[ReferencedSchema]) -> None:
        schema = read_json(text)
        base = validators.validator_for(schema, default=validators.Draft7Validator)
        registry: Registry[Any] = Registry()
        for reference in references:
            contents = read_json(reference.text)
            named = contents.get("$schema") if isinstance(contents, Mapping) else None
            specification = DRAFT7 if named is None else specification_with(named, default=DRAFT202012)
            resource: Resource[Any] = specification.create_resource(contents)
            registry = registry.with_resource(reference.name, resource).with_resource(resource.id() or reference.name, resource)
        self._left = 0
        self._validator = limited_validator(base, self._keywords)(schema, registry=registry)

    def check(self, value: Any) -> None:
        """Raise SerdesError for a value that is not valid."""
        try:
            self._left = _REFERENCES_MAX + _REFERENCES_PER_LETTER * len(json.dumps(value))
            error = best_match(self._validator.iter_errors(value))
        except RecursionError:
            raise SerdesError("too many nested values") from None
        except (Unresolvable, re2.error) as failure:
            raise SerdesError(f"its schema cannot be used: {failure}") from failure
        if error is None:
            return
        message = error.message
        found = SerdesError(message if len(message) <= 2 * _SHOWN else f"{message[:_SHOWN]} ... {message[-_SHOWN:]}")
        for name in reversed(list(error.absolute_path)):
            found.within(f"[{name}]" if isinstance(name, int) else str(name))
        raise found

    def _keywords(self, base: Any) -> dict[str, Any]:
        counted = {name: self._counted(base.VALIDATORS[name]) for name in _FOLLOWING if name in base.VALIDATORS}
        return counted | {"pattern": _pattern, "patternProperties": _pattern_properties}

    def _counted(self, follow: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def check(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._left -= 1
            if self._left < 0:
                raise LimitError("its schema has too many references to check the value")
            yield from follow(validator, reference, instance, schema) or ()

        return check


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not re2.search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, each in instance.items():
            if re2.search(pattern, name):
                yield from validator.descend(each, subschema, path=name, schema_path=pattern)
