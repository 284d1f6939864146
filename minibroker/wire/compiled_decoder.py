"""Generate the decoder of one (struct, version, flexible). `wire/compiled.py` shows the result and why it is safe.

A sliced decoder is the same code as a generator. It pauses after a number of elements, and subtracts the memory of objects from a
budget before it creates them. A frame of 10 MB can hold millions of tiny elements, each an object with its strings and lists, so
their memory (the weight) is estimated from the declaration. Strings and bytes of more than SHORT bytes count with their own size.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from minibroker.errors import WireError
from minibroker.wire import codec
from minibroker.wire.primitives import MAX_STRING_SIZE, NUMBERS, Reader, read_unsigned_varint, uuid_of
from minibroker.wire.schema import Buffer, Field, default_of, fields_of
from minibroker.wire.source import NO_EXTRA, Extra, Source

SHORT: Final = 15  #: a string or bytes of at most this many bytes has the weight of its kind
REFERENCE: Final = 9  #: a place in a list, which grows by an eighth

_STRUCT: Final = 16  #: bytes that the garbage collector adds to an instance
_LIST: Final = sys.getsizeof([])
_OF_KIND: Final = {
    "bool": 0,
    "int8": 0,
    "float64": 24,
    "string": 64,
    "bytes": 48,
    "records": 208,  # a view
    "uuid": 144,
}
_NUMBER: Final = 32


class OverBudgetError(WireError):
    """A message has more values than its budget allows."""


def weight_of_element(field: Field, version: int) -> int:
    """Return the bytes of one element of the field, without the elements of its arrays."""
    return _OF_KIND.get(field.kind, _NUMBER) if field.struct is None else weight_of(field.struct, version)


def weight_of(struct_type: type[Any], version: int) -> int:
    """Return the bytes of an instance with its fields, without the elements of its arrays."""
    weight: int = struct_type.__basicsize__ + _STRUCT
    for field in fields_of(struct_type):
        if field.is_array:
            weight += _LIST
        elif field.tag is None and field.in_version(version):
            weight += weight_of_element(field, version)
    return weight


class MalformedError(Exception):
    """Raised by generated code for an invalid length. The codec then decodes the message again, for the error."""


#: all exceptions that generated code raises for bad bytes
FAILURES = (struct.error, IndexError, UnicodeDecodeError, WireError, MalformedError)

#: (data, start, budget) -> generator that pauses and returns (value, position after it, the rest of the budget)
SlicedDecoder = Callable[[Buffer, int, int], Generator[None, None, tuple[Any, int, int]]]

_PAUSE_EVERY: Final = 256  #: elements
_NUMBERS_AT_ONCE: Final = 8192
_WEIGHT_OF_TAGS: Final = 256  #: of the tagged fields of one struct besides their bytes

_CONTENT_OF_BYTES = {"string": "data[begin:pos].decode()", "bytes": "data[begin:pos]"}
_CONTENT_OF_VIEW = {"string": "data[begin:pos].tobytes().decode()", "bytes": "bytes(data[begin:pos])", "records": "data[begin:pos]"}


def compile_decoder(
    struct_type: type[Any], version: int, flexible: bool, extra: Extra = NO_EXTRA
) -> Callable[[Buffer, int], tuple[Any, int]]:
    """Generate `decode(data, start) -> (value, position after it)`.

    Statements of `extra` at the end see `value` and `end`, the size of `data`. It has none for structs.
    """
    source = Source("def decode(data, start):")
    keeps_views = codec.has_records(struct_type, version)
    writer = _DecoderWriter(source, version, flexible, _CONTENT_OF_VIEW if keeps_views else _CONTENT_OF_BYTES)
    source.names.update(
        FAILURES=FAILURES,
        MalformedError=MalformedError,
        definition=lambda data, start: codec.decode_from(struct_type, data, start, version, flexible=flexible),
        new=object.__new__,
        read_tagged=writer.read_tagged,
        read_unsigned_varint=read_unsigned_varint,
        unpack_from=struct.unpack_from,
        uuid_of=uuid_of,
    )
    with source.block("try:"):
        # Slicing bytes is faster than slicing a view of them, but a message with records is not copied.
        type_name = "memoryview" if keeps_views else "bytes"
        with source.block(f"if type(data) is not {type_name}:"):
            source.line(f"data = {type_name}(data)")
        source.line("end = len(data)")
        source.line("pos = start")
        writer.struct(struct_type, "value")
        writer.flush()
        with source.block("if pos <= end:"):
            source.write(extra.at_end)
            source.line("return value, pos")
    with source.block("except FAILURES:"):
        source.line("pass")
    source.line("return definition(data, start)")
    made: Callable[[Buffer, int], tuple[Any, int]] = source.function("decode", f"decoder of {struct_type.__name__} v{version}")
    return made


def compile_sliced_decoder(struct_type: type[Any], version: int, flexible: bool) -> SlicedDecoder:
    """Generate `decode(data, start, budget)`, a generator that pauses and returns (value, position after it, the rest of the budget).

    Its errors do not name the wrong field, because the codec, which finds it, does not pause.
    """
    source = Source("def decode(data, start, budget):")
    writer = _DecoderWriter(source, version, flexible, _CONTENT_OF_VIEW, sliced=True)

    def refuse(position: int) -> None:
        raise WireError(f"{struct_type.__name__} version {version}: malformed before byte {position}") from None

    source.names.update(
        FAILURES=FAILURES,
        MalformedError=MalformedError,
        OverBudgetError=OverBudgetError,
        getsizeof=sys.getsizeof,
        new=object.__new__,
        read_tagged=writer.read_tagged,
        read_unsigned_varint=read_unsigned_varint,
        refuse=refuse,
        unpack_from=struct.unpack_from,
        uuid_of=uuid_of,
    )
    source.line("end = len(data)")
    source.line("pos = start")
    source.line("step = 0")
    with source.block("try:"):
        writer.spend(str(weight_of(struct_type, version)))
        writer.struct(struct_type, "value")
        writer.flush()
        with source.block("if pos <= end:"):
            source.line("return value, pos, budget")
    with source.block("except OverBudgetError:"):
        source.line("raise")
    with source.block("except FAILURES:"):
        source.line("pass")
    source.line("refuse(min(pos, end))")
    source.line("yield")
    made: SlicedDecoder = source.function("decode", f"sliced decoder of {struct_type.__name__} v{version}")
    return made


class _DecoderWriter:
    """Writes statements field by field. Numbers are collected in a run until a field of unknown length follows."""

    def __init__(self, source: Source, version: int, flexible: bool, content: dict[str, str], *, sliced: bool = False) -> None:
        self.source = source
        self.sliced = sliced
        self.content = content
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []  # (format, where the number goes)
        self.after_run: list[str] = []  # statements that convert numbers after the unpack

    def flush(self) -> None:
        """Write the run: one unpack, or an index for a single byte."""
        if not self.run:
            return
        form = struct.Struct(">" + "".join(form for form, _ in self.run))
        targets = ", ".join(target for _, target in self.run)
        if form.format == ">B":
            self.source.line(f"{targets} = data[pos]")
        else:
            unpack = self.source.bind("unpack", form.unpack_from)
            self.source.line(f"{targets if len(self.run) > 1 else f'({targets},)'} = {unpack}(data, pos)")
        self.source.line(f"pos += {form.size}")
        for statement in self.after_run:
            self.source.line(statement)
        self.run.clear()
        self.after_run.clear()

    def struct(self, struct_type: type[Any], value: str, also: str = "") -> None:
        """Create an instance, hand it to `also`, fill its attributes."""
        self.source.line(f"{value} = new({self.source.bind('Struct', struct_type)})")
        if also:
            self.source.line(also.format(value))
        for field in fields_of(struct_type):
            if field.tag is None and field.in_version(self.version):
                self.field(field, f"{value}.{field.name}")
            else:
                self.source.line(f"{value}.{field.name} = {self.default(field)}")
        if self.flexible:
            count = self.source.variable("tags")
            self.run.append(("B", count))
            self.flush()
            with self.source.block(f"if {count}:"):
                if self.sliced:
                    self.source.line(f"budget += pos - {_WEIGHT_OF_TAGS}")
                self.source.line(f"pos = read_tagged({value}, data, pos - 1)")
                if self.sliced:
                    self.spend("pos")

    def default(self, field: Field) -> str:
        """An expression for the value of a field that is not sent."""
        default = default_of(field)
        if default is None or default == []:
            return repr(default)
        name = self.source.bind("default", default)
        return f"list({name})" if field.is_array else name

    def read_tagged(self, value: Any, data: Buffer, position: int) -> int:
        """Read tagged fields at run time, by the codec. Returns the position after them."""
        reader = Reader(data, position)
        codec.read_tagged_fields(reader, value, self.version)
        return reader.position

    def field(self, field: Field, target: str) -> None:
        """Read one field into `target`."""
        store = target + " = {}"
        null_allowed = field.null_in(self.version)
        if field.is_array:
            self.array(field, store, null_allowed)
        elif field.struct is not None and null_allowed:
            self.marked_struct(field.struct, store)
        elif field.struct is not None:
            self.struct(field.struct, self.source.variable("value"), store)
        elif field.kind in NUMBERS:
            self.run.append((NUMBERS[field.kind], target))
        else:
            self.element(field, store, null_allowed)

    def element(self, field: Field, store: str, null_allowed: bool) -> None:
        """Read one value that is not a number; `store` is the statement that keeps it."""
        if field.struct is not None:
            self.struct(field.struct, self.source.variable("value"), store)
        elif field.kind == "uuid":
            raw = self.source.variable("uuid")
            self.run.append(("16s", raw))
            self.after_run.append(store.format(f"uuid_of({raw})"))
        else:
            with self.present(field.kind, store, null_allowed) as size:
                self.source.line("begin = pos")
                self.source.line(f"pos += {size}")
                if self.sliced:
                    self.long_content(field.kind, size, store)
                else:
                    self.source.line(store.format(self.content[field.kind]))

    def long_content(self, kind: str, size: str, store: str) -> None:
        """Store a string or bytes. Long ones count with their own size, since a string takes up to four bytes for each character."""
        if kind == "records":
            self.source.line(store.format(self.content[kind]))
            return
        with self.source.block(f"if {size} > {SHORT}:"):
            self.spend(size)
            self.source.line(f"content = {self.content[kind]}")
            if kind == "string":
                self.spend(f"getsizeof(content) - {size}")
            self.source.line(store.format("content"))
        with self.source.block("else:"):
            self.source.line(store.format(self.content[kind]))

    def array(self, field: Field, store: str, null_allowed: bool) -> None:
        """Read an array: numbers in one call, others in a loop."""
        with self.present("array", store, null_allowed) as count:
            size = codec.min_element_size(field, self.version, self.flexible)
            self.refuse(f"{count} * {size} > end - pos")
            if self.sliced:
                self.spend(f"{count} * {REFERENCE + weight_of_element(field, self.version)}")
            if field.kind in NUMBERS and self.sliced:
                self.many_numbers(field, store, count, size)
                return
            if field.kind in NUMBERS:
                self.source.line(store.format(f'list(unpack_from(f">{{{count}}}{NUMBERS[field.kind]}", data, pos))'))
                self.source.line(f"pos += {count} * {size}")
                return
            items = self.source.variable("items")
            self.source.line(f"{items} = []")
            self.source.line(store.format(items))
            with self.source.block(f"while {count}:"):  # most arrays are short: a range costs more than it saves
                self.source.line(f"{count} -= 1")
                if self.sliced:
                    self.pause()
                self.element(field, f"{items}.append({{}})", null_allowed=False)
                self.flush()

    def many_numbers(self, field: Field, store: str, count: str, size: int) -> None:
        """Read an array of numbers, a part at a time."""
        items, part = self.source.variable("items"), self.source.variable("part")
        self.source.line(f"{items} = []")
        self.source.line(store.format(items))
        with self.source.block(f"while {count}:"):
            self.source.line(f"{part} = min({count}, {_NUMBERS_AT_ONCE})")
            self.source.line(f'{items} += unpack_from(f">{{{part}}}{NUMBERS[field.kind]}", data, pos)')
            self.source.line(f"pos += {part} * {size}")
            self.source.line(f"{count} -= {part}")
            with self.source.block(f"if {count}:"):
                self.source.line("yield")

    def pause(self) -> None:
        """Write a pause after every _PAUSE_EVERY elements."""
        self.source.line("step += 1")
        with self.source.block(f"if step == {_PAUSE_EVERY}:"):
            self.source.line("step = 0")
            self.source.line("yield")

    def spend(self, weight: str) -> None:
        """Subtract the weight of objects from the budget before they are created."""
        self.source.line(f"budget -= {weight}")
        with self.source.block("if budget < 0:"):
            self.source.line("raise OverBudgetError")

    def marked_struct(self, struct_type: type[Any], store: str) -> None:
        """Read a struct that may be null."""
        marker = self.source.variable("marker")
        self.run.append(("b", marker))
        self.flush()
        with self.source.block(f"if {marker} == 1:"):
            self.struct(struct_type, self.source.variable("value"), store)
            self.flush()
        with self.source.block(f"elif {marker} == -1:"):
            self.source.line(store.format("None"))
        with self.source.block("else:"):
            self.source.line("raise MalformedError")

    @contextmanager
    def present(self, kind: str, store: str, null_allowed: bool) -> Iterator[str]:
        """Read a length or count. Statements written in the `with` run if it is not null."""
        length = self.source.variable("n")
        self.run.append(("B" if self.flexible else "h" if kind == "string" else "i", length))
        self.flush()
        if self.flexible:
            with self.source.block(f"if {length} > 127:"):
                self.source.line(f"{length}, pos = read_unsigned_varint(data, pos - 1)")
                if kind == "string":
                    self.refuse(f"{length} > {MAX_STRING_SIZE + 1}")
        is_null = f"{length} == 0" if self.flexible else f"{length} < 0"
        with self.source.block(f"if {is_null}:"):
            if not null_allowed:
                self.source.line("raise MalformedError")
            elif not self.flexible:
                self.refuse(f"{length} != -1")
            if null_allowed:
                self.source.line(store.format("None"))
        with self.source.block("else:") if null_allowed else nullcontext():
            if self.flexible:
                self.source.line(f"{length} -= 1")
            yield length

    def refuse(self, condition: str) -> None:
        """Write a check that rejects the message."""
        with self.source.block(f"if {condition}:"):
            self.source.line("raise MalformedError")
