"""Random struct declarations and random values for them: what property tests of the codecs are made of."""

from __future__ import annotations

import itertools
import sys
import uuid
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from minibroker.wire.schema import Field, default_of, fields_of

VERSIONS = range(5)

# kind -> (name in the vocabulary, default as written in a declaration)
KINDS = {
    "int8": ("Int8", "-1"),
    "int16": ("Int16", "0"),
    "int32": ("Int32", "-1"),
    "int64": ("Int64", "2**63 - 1"),
    "uint16": ("UInt16", "7"),
    "uint32": ("UInt32", "0"),
    "bool": ("Bool", "True"),
    "float64": ("Float64", "0.5"),
    "uuid": ("Uuid", "NIL_UUID"),
    "string": ("String", "''"),
    "bytes": ("Bytes", "b''"),
    "records": ("Records", "b''"),
}
NEVER_NULL = {"Int8", "Int16", "Int32", "Int64", "UInt16", "UInt32", "Bool", "Float64", "Uuid"}
NAMES = ("Int8", "Int16", "Int32", "Int64", "UInt16", "UInt32", "Bool", "Float64", "Uuid", "String", "Bytes", "Records", "NIL_UUID")

_module_numbers = itertools.count(1)


@st.composite
def declarations(draw: st.DrawFn) -> type[Any]:
    """A struct of up to three levels, with every feature of the vocabulary somewhere in it."""
    names = [f"Struct{number}" for number in range(draw(st.integers(1, 3)))]
    text = f"from __future__ import annotations\nfrom minibroker.wire.schema import {', '.join(NAMES)}, field, struct\n"
    for position, name in enumerate(names):
        text += _struct_source(draw, name, names[:position])
    return declare(text, names[-1])


def declare(text: str, name: str) -> type[Any]:
    """The struct `name` of a module with this source."""
    module = ModuleType(f"declared_{next(_module_numbers)}")
    sys.modules[module.__name__] = module  # where a struct looks its annotations up
    exec(compile(text, module.__name__, "exec"), module.__dict__)  # noqa: S102  written by this very file
    found: type[Any] = vars(module)[name]
    return found


def _struct_source(draw: st.DrawFn, name: str, inner: list[str]) -> str:
    lines = [f"@struct\nclass {name}:"]
    tags = draw(st.lists(st.integers(0, 200), unique=True, max_size=2))
    lines += [f"    field{number}: {_field_source(draw, inner, tag=None)}" for number in range(draw(st.integers(0, 5)))]
    lines += [f"    tagged{tag}: {_field_source(draw, inner, tag=tag)}" for tag in tags]
    # One field is always there: elements without any byte could not be counted.
    lines.insert(draw(st.sampled_from([1, len(lines)])), "    anchor: Int8")
    return "\n".join([*lines, ""])


def _field_source(draw: st.DrawFn, inner: list[str], tag: int | None) -> str:
    struct = draw(st.sampled_from([None, *inner]))
    element, default = KINDS[draw(st.sampled_from(sorted(KINDS)))] if struct is None else (struct, "...")
    is_array = draw(st.booleans())
    null = draw(st.sampled_from(["", " | None"])) if is_array or element not in NEVER_NULL else ""
    # The anchor has no default, so a struct is no default of itself: null or an array takes its place.
    if struct is not None and not is_array and tag is not None:
        null = " | None"
    if is_array:
        default = draw(st.sampled_from(["()", "None"])) if null else "()"
    elif null and draw(st.booleans()):
        default = "None"
    arguments = [f"tag={tag}"] if tag is not None else []
    if default == "...":
        if not null:
            return element
        default = "None"
    since, until = draw(st.integers(0, 4)), draw(st.sampled_from([None, 2, 4]))
    arguments += [f"since={since}", f"until={until}", f"default={default}"]
    if null:
        arguments.append(f"nullable={draw(st.sampled_from([None, 0, 2]))}")
    return f"{f'list[{element}]' if is_array else element}{null} = field({', '.join(arguments)})"


def values(struct: type[Any], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    """Values that this version can carry and that come back equal."""
    return st.builds(struct, **{field.name: _field_values(field, version, flexible) for field in fields_of(struct)})


def _field_values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if not field.in_version(version) or (field.tag is not None and not flexible):
        return st.builds(default_of, st.just(field))
    elements = _element_values(field, version, flexible)
    every = st.lists(elements, max_size=3) if field.is_array else elements
    if field.tag is not None and not (default_of(field) is None and not field.null_in(version)):
        every = st.builds(default_of, st.just(field)) | every
    return st.none() | every if field.null_in(version) else every


def _element_values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return values(field.struct, version, flexible)
    return ELEMENTS[field.kind]


ELEMENTS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.integers(0, 2**128 - 1).map(lambda number: uuid.UUID(int=number)),
    "string": st.text(max_size=6) | st.sampled_from(["x" * 126, "x" * 127, "é" * 64, "x" * 20_000]),
    "bytes": st.binary(max_size=6) | st.sampled_from([b"x" * 126, b"x" * 127, b"x" * 128]),
    "records": st.binary(max_size=6) | st.sampled_from([b"x" * 127, b"x" * 5000]),
}
