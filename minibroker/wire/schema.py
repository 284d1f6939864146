"""The vocabulary of schemas: the fields of a message, declared once for all its versions.

A struct is a class of annotated fields in wire order:

    @struct
    class Topic:
        name: String
        topic_id: Uuid = field(since=10, default=NIL_UUID)
        partitions: list[Partition] | None = field(nullable=4)

An annotation is a primitive of this module, another struct, `list[...]` of one of them, and `| None` after
all but numbers and UUIDs. Null is sent as length -1 (0 in a compact form), for a struct as a marker byte -1 where 1 announces a value.

A declaration must cost microseconds, because a broker imports dozens of them when it starts. Annotations stay strings until
a codec or a constructor first calls `fields_of`, and `__init__` is generated at its first call.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, ParamSpec, TypeAlias, TypeVar, cast, dataclass_transform

Buffer: TypeAlias = bytes | bytearray | memoryview

# The first string of each is its kind, which the codecs use.
Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
UInt16 = Annotated[int, "uint16"]
UInt32 = Annotated[int, "uint32"]
Bool = Annotated[bool, "bool"]
Float64 = Annotated[float, "float64"]
Uuid = Annotated[uuid.UUID, "uuid"]
String = Annotated[str, "string"]
Bytes = Annotated[bytes, "bytes"]
Records = Annotated[Buffer, "records"]  #: decoded to a memoryview slice of the frame, encoded without a copy

# Kafka's entityType: the value names one of the topics or partitions that a request or a response
# is about. Each may fail separately. Topics that a message only mentions (a session's forgotten
# topics, a subscription) are a String, Uuid or Int32.
TOPIC_NAME: Final = "topicName"
TOPIC_ID: Final = "topicId"
PARTITION_INDEX: Final = "partitionIndex"
TopicName = Annotated[str, "string", TOPIC_NAME]
TopicId = Annotated[uuid.UUID, "uuid", TOPIC_ID]
PartitionIndex = Annotated[int, "int32", PARTITION_INDEX]
ResourceName = Annotated[str, "string", TOPIC_NAME]  #: a topic's if `resource_type` next to it says so

NIL_UUID: Final = uuid.UUID(int=0)  #: "no topic id"
MISSING: Final = object()  #: the field has no default

LAST_VERSION: Final = 32767  #: versions are int16
_NULLABLE: Final = ("string", "bytes", "records", "struct")

T = TypeVar("T")
P = ParamSpec("P")


class Declaration:
    """The arguments of `field(...)`, until the annotation is resolved to a Field."""

    __slots__ = ("annotation", "default", "nullable", "since", "tag", "until")

    def __init__(self, since: int, until: int | None, nullable: int | None, tag: int | None, default: Any) -> None:
        self.annotation = ""
        self.since = since
        self.until = LAST_VERSION if until is None else until
        self.nullable = nullable
        self.tag = tag
        self.default = default


def field(*, since: int = 0, until: int | None = None, nullable: int | None = None, tag: int | None = None, default: Any = MISSING) -> Any:
    """Declare more about a field than its annotation can.

    Args:
        since: first version that has the field.
        until: last version that has it, inclusive.
        nullable: first version in which null may be sent, for an annotation `| None` (without this: every version).
        tag: the field is a tagged one, left out when it has its default.
        default: the value where a version lacks the field or a tagged one is left out, and in the constructor. A list
            starts as a fresh list for each instance, so write `()`. For a struct, give its class: each of its fields has its default.
    """
    if default is MISSING and (since > 0 or until is not None or tag is not None):
        raise TypeError("a field that is not always sent needs a default")
    return Declaration(since, until, nullable, tag, default)


class Field:
    """One resolved field of a struct."""

    __slots__ = ("default", "entity", "is_array", "kind", "name", "nullable", "since", "struct", "tag", "until")

    def __init__(self, name: str, declared: Declaration, namespace: dict[str, Any]) -> None:
        """Resolve an annotation such as `list[Topic] | None` by name, without `typing` and without evaluating it."""
        required = declared.annotation.removesuffix("| None").rstrip()
        self.is_array = required.startswith("list[")
        element, _, attribute = (required[5:-1] if self.is_array else required).partition(".")
        found: Any = getattr(namespace[element], attribute) if attribute else namespace[element]
        is_struct = isinstance(found, type) and issubclass(found, Struct)
        self.name = name
        self.kind: str = "struct" if is_struct else found.__metadata__[0]  #: "int8" ... "records"; of the elements when is_array
        self.entity: str | None = None if is_struct else next(iter(found.__metadata__[1:]), None)  #: TOPIC_NAME ... if it names one
        self.struct: type[Any] | None = found if is_struct else None
        self.nullable = None if required == declared.annotation else declared.nullable or 0  #: null from this version on; None: never
        if self.nullable is not None and not (self.is_array or self.kind in _NULLABLE):
            raise TypeError(f"{name}: {declared.annotation}: the format has no null for {element}")
        self.since = declared.since
        self.until = declared.until  #: inclusive
        self.tag = declared.tag
        self.default = declared.default  #: as declared; see default_of

    def in_version(self, version: int) -> bool:
        """Whether this version carries the field."""
        return self.since <= version <= self.until

    def null_in(self, version: int) -> bool:
        """Whether null may be sent in this version."""
        return self.nullable is not None and version >= self.nullable


class Struct:
    """The class that @struct returns: slots for the fields, value semantics, a keyword-only constructor.

    Only the type checker makes instances immutable: decoders fill them attribute by attribute.
    """

    __slots__ = ()
    declared_: ClassVar[dict[str, Declaration]] = {}
    fields_: ClassVar[tuple[Field, ...] | None] = None
    entities_: ClassVar[dict[str, str] | None] = None

    def __init__(self, **values: Any) -> None:
        build_constructor(type(self))
        type(self).__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _comparable(self) == _comparable(other)

    def __hash__(self) -> int:
        return hash(_comparable(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.declared_)})"


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def struct(declaration: type[T]) -> type[T]:
    """Turn a class of annotated fields into a struct."""
    namespace = dict(declaration.__dict__)
    declared = {}
    for name, annotation in declaration.__annotations__.items():
        default = namespace.pop(name, MISSING)
        declared[name] = default if isinstance(default, Declaration) else Declaration(0, None, None, None, default)
        declared[name].annotation = annotation
    del namespace["__dict__"], namespace["__weakref__"]
    namespace["__slots__"] = tuple(declared)
    namespace["declared_"] = declared
    return type(declaration.__name__, (Struct,), namespace)


def fields_of(struct_type: type[Any]) -> tuple[Field, ...]:
    """Return the fields in wire order, resolved at the first call."""
    fields: tuple[Field, ...] | None = struct_type.fields_
    if fields is None:
        namespace = sys.modules[struct_type.__module__].__dict__
        fields = tuple(Field(name, declared, namespace) for name, declared in struct_type.declared_.items())
        struct_type.fields_ = fields
    return fields


def entities_of(struct_type: type[Any]) -> dict[str, str]:
    """Return the fields that are a TOPIC_NAME, TOPIC_ID or PARTITION_INDEX, by these names; collected at the first call."""
    entities: dict[str, str] | None = struct_type.entities_
    if entities is None:
        entities = {each.entity: each.name for each in fields_of(struct_type) if each.entity is not None and not each.is_array}
        struct_type.entities_ = entities
    return entities


def default_of(field: Field) -> Any:
    """Return the value of a field that was not sent: a new list each time, or MISSING if the field has no default."""
    if field.is_array and field.default is not None and field.default is not MISSING:
        return list(field.default)
    if field.struct is not None and field.default is field.struct:
        field.default = field.struct()
    return field.default


def build_constructor(struct_type: type[Any]) -> None:
    """Generate `__init__` of the class: keyword-only, straight-line, a new list for each list without an argument."""
    parameters, body, names = _parameters_and_body(struct_type)
    if parameters:
        parameters.insert(0, "*")
    struct_type.__init__ = _function("__init__", ["self", *parameters], body or ["pass"], names)


def constructor(struct_type: Callable[P, T]) -> Callable[P, T]:
    """Return the constructor of a struct as a plain function. It costs less than half of calling the class, for frequent responses.

    Only the type checker requires names for its arguments: Python looks up defaults of keyword-only parameters one by one.
    """
    parameters, body, names = _parameters_and_body(cast("type[Any]", struct_type))
    parameters.sort(key=lambda parameter: "=" in parameter)
    names.update(new=object.__new__, Struct=struct_type)
    made: Callable[P, T] = _function("make", parameters, ["self = new(Struct)", *body, "return self"], names)
    return made


def _parameters_and_body(struct_type: type[Any]) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the source of a function that fills `self`: a parameter and a statement for each field, and the defaults that these use."""
    names: dict[str, Any] = {}
    parameters, body = [], []
    for each in fields_of(struct_type):
        name, default = each.name, default_of(each)
        value = name
        if default is MISSING:
            parameters.append(name)
        else:
            names[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
            if isinstance(default, list):
                fresh = f"list(default_{name})" if default else "[]"
                value = f"{fresh} if {name} is default_{name} else {name}"
        body.append(f"self.{name} = {value}")
    return parameters, body, names


def _function(name: str, parameters: list[str], body: list[str], names: dict[str, Any]) -> Any:
    statements = "".join(f"    {statement}\n" for statement in body)
    exec(f"def {name}({', '.join(parameters)}):\n{statements}", names)  # noqa: S102  names of our own schemas
    return names[name]


def replace(value: T, **changes: Any) -> T:
    """Return a copy with some fields changed."""
    struct_type: type[Any] = type(value)
    fields: dict[str, Any] = {name: getattr(value, name) for name in struct_type.declared_}
    changed: T = struct_type(**fields | changes)
    return changed


def _comparable(value: Any) -> tuple[Any, ...]:
    """Return the fields as a tuple, in which a list equals a tuple of the same elements."""
    return tuple(tuple(each) if isinstance(each, list) else each for each in (getattr(value, name) for name in value.declared_))
