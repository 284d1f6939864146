"""Generate the encoder of one (struct, version, flexible). `wire/compiled.py` shows the result."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from operator import attrgetter
from typing import Any

from minibroker.wire import codec
from minibroker.wire.primitives import MAX_STRING_SIZE, NUMBER_STRUCTS, NUMBERS, UUID_SIZE, EncodeError, unsigned_varint
from minibroker.wire.schema import Buffer, Field, default_of
from minibroker.wire.source import NO_EXTRA, Extra, Source

#: all exceptions that generated code raises for a value of the wrong type or size
FAILURES = (struct.error, AttributeError, TypeError, ValueError, OverflowError)

FEW = 8  #: arrays of fewer numbers are encoded by a function that is ready: most are lists of replicas
_SHORT_VARINTS = tuple(bytes((value,)) for value in range(128))


def compile_encoder(struct_type: type[Any], version: int, flexible: bool, extra: Extra = NO_EXTRA) -> Callable[[Any], list[Buffer]]:
    """Generate `encode(value) -> chunks`. Each record batch is one chunk, uncopied; the bytes between them are joined."""
    source = Source("def encode(value):")
    source.names.update(
        FAILURES=FAILURES,
        definition=lambda value: codec.encode_chunks(value, version, flexible=flexible),
        pack=struct.pack,
        short_varints=_SHORT_VARINTS,
        string_length=_string_length,
        tagged=lambda value: codec.encode_tagged_fields(value, version),
        unsigned_varint=unsigned_varint,
    )
    keeps_views = codec.has_records(struct_type, version)
    writer = _EncoderWriter(source, version, flexible, extra)
    with source.block("try:"):
        source.line("out = []")
        if keeps_views:
            source.line("chunks = []")
        writer.struct(struct_type, "value")
        writer.flush()
        result = 'chunks + [b"".join(out)] if out else chunks' if keeps_views else '[b"".join(out)]'
        source.line(f"return {result}")
    with source.block("except FAILURES:"):
        source.line("pass")
    source.line("return definition(value)")
    made: Callable[[Any], list[Buffer]] = source.function("encode", f"encoder of {struct_type.__name__} v{version}")
    return made


def _string_length(length: int) -> bytes:
    if length > MAX_STRING_SIZE + 1:
        raise EncodeError(f"string of {length - 1} bytes")
    return unsigned_varint(length)


def _tagged_numbers(fields: list[Field]) -> Callable[[Any], bytes]:
    """Return a function that does what `codec.encode_tagged_fields` does for a struct whose tagged fields are numbers."""
    plan = []
    for field in fields:
        number = NUMBER_STRUCTS[field.kind]
        head = unsigned_varint(field.tag or 0) + unsigned_varint(number.size)
        plan.append((attrgetter(field.name), default_of(field), struct.Struct(f">{len(head)}s{NUMBERS[field.kind]}").pack, head))

    def encode(value: Any) -> bytes:
        sent = [pack(head, content) for get, default, pack, head in plan if (content := get(value)) != default]
        return unsigned_varint(len(sent)) + b"".join(sent)

    return encode


@cache
def _packs_of_few(form: str, flexible: bool) -> tuple[Callable[..., bytes], ...]:
    """Return functions that encode a count and so many numbers, by the count as it is encoded; the last one is for null, -1."""
    forms = [f">B{count - 1}{form}" if flexible and count else ">B" if flexible else f">i{count}{form}" for count in range(FEW)]
    return tuple(struct.Struct(each).pack for each in [*forms, ">i"])


class _EncoderWriter:
    """Writes statements field by field. Numbers are collected in a run for one pack."""

    def __init__(self, source: Source, version: int, flexible: bool, extra: Extra) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.extra = extra
        self.path: list[tuple[type[Any], str]] = []  # structs around the present field, with their variables
        self.run: list[tuple[str, str]] = []  # (format, expression)

    def flush(self) -> None:
        """Write the run of numbers."""
        if self.run:
            form = struct.Struct(">" + "".join(form for form, _ in self.run))
            values = ", ".join(expression for _, expression in self.run if expression)
            packed = f"{self.source.bind('pack', form.pack)}({values})" if values else repr(bytes(form.size))
            self.source.line(f"out.append({packed})")
            self.run.clear()

    def piece(self, expression: str) -> None:
        """Write an expression of bytes, after the run."""
        self.flush()
        self.source.line(f"out.append({expression})")

    def struct(self, struct_type: type[Any], value: str) -> None:
        """Write the fields of `value`, then its tagged fields."""
        self.path.append((struct_type, value))
        self.source.write(self.extra.before_struct(self.path))
        for field in codec.sent_fields(struct_type, self.version):
            self.field(field, f"{value}.{field.name}")
        if self.flexible:
            tagged = codec.tagged_fields(struct_type, self.version).values()
            if tagged:
                is_plain = " and ".join(self.has_default(field, f"{value}.{field.name}") for field in tagged)
                self.piece(f'b"\\0" if {is_plain} else {self.tagged(value, list(tagged))}')
            else:
                self.run.append(("x", ""))
        self.source.write(self.extra.after_struct(self.path))
        self.path.pop()

    def tagged(self, value: str, fields: list[Field]) -> str:
        """Return an expression for the bytes of tagged fields, some of which are sent.

        Numbers (states of transactions) have a function, and a single UUID (committed offsets) is inlined.
        """
        field = fields[0]
        if all(each.kind in NUMBERS and not each.is_array and each.struct is None for each in fields):
            return f"{self.source.bind('tagged', _tagged_numbers(fields))}({value})"
        if len(fields) > 1 or field.kind != "uuid" or field.is_array or field.tag is None:
            return f"tagged({value})"
        head = b"\1" + unsigned_varint(field.tag) + unsigned_varint(UUID_SIZE)
        return f'{head!r} + {value}.{field.name}.int.to_bytes({UUID_SIZE}, "big")'

    def has_default(self, field: Field, content: str) -> str:
        """Return a condition under which a tagged field is certainly not sent."""
        default = default_of(field)
        if default is None:
            return f"{content} is None"
        if field.is_array:
            return f"{content} is not None and not len({content})" if default == [] else "False"
        name = self.source.bind("default", default)
        return f"({content} is {name} or {content} == {name})" if field.struct is not None else f"{content} == {name}"

    def field(self, field: Field, content: str) -> None:
        """Write one field."""
        null_allowed = field.null_in(self.version)
        if field.is_array:
            self.array(field, content, null_allowed)
        elif field.struct is not None and null_allowed:
            self.marked_struct(field.struct, content)
        else:
            self.element(field, content, null_allowed)

    def element(self, field: Field, content: str, null_allowed: bool) -> None:
        """Write one value that is not an array."""
        if field.struct is not None:
            value = self.source.variable("value")
            self.source.line(f"{value} = {content}")
            self.struct(field.struct, value)
        elif field.kind in NUMBERS:
            self.run.append((NUMBERS[field.kind], content))
        elif field.kind == "uuid":
            self.run.append(("16s", f'{content}.int.to_bytes(16, "big")'))
        else:
            data = self.source.variable("data")
            self.length(field.kind, data, content, null_allowed)
            if field.kind == "records":
                self.chunk(data)
            else:
                self.piece(data)

    def measure(self, kind: str, data: str, content: str, null_allowed: bool) -> str:
        """Assign the content to the variable `data`, empty for null.

        Returns the variable of its length or count, which has one more in a flexible version.
        """
        length = self.source.variable("n")
        encode = ".encode()" if kind == "string" else ""
        more = " + 1" if self.flexible else ""
        if null_allowed:
            with self.source.block(f"if {content} is None:"):
                self.source.line(f"{data} = b''")
                self.source.line(f"{length} = {0 if self.flexible else -1}")
        with self.source.block("else:") if null_allowed else nullcontext():
            self.source.line(f"{data} = {content}{encode}")
            self.source.line(f"{length} = len({data}){more}")
        return length

    def length(self, kind: str, data: str, content: str, null_allowed: bool) -> str:
        """Do what `measure` does, and write the length."""
        length = self.measure(kind, data, content, null_allowed)
        if self.flexible:
            long = "string_length" if kind == "string" else "unsigned_varint"
            self.piece(f"short_varints[{length}] if {length} < 128 else {long}({length})")
        else:
            self.run.append(("h" if kind == "string" else "i", length))
        return length

    def chunk(self, data: str) -> None:
        """Write record batches as a chunk, after the bytes before them."""
        self.flush()
        with self.source.block(f"if len({data}):"):
            self.source.line(f'chunks += (b"".join(out), {data})')
            self.source.line("out.clear()")
            self.source.write(self.extra.at_records(self.path, data))

    def array(self, field: Field, content: str, null_allowed: bool) -> None:
        """Write an array: numbers in one call, others in a loop."""
        items = self.source.variable("items")
        if field.kind in NUMBERS:
            length = self.measure("array", items, content, null_allowed)
            packs = self.source.bind("packs", _packs_of_few(NUMBERS[field.kind], self.flexible))
            size = f"unsigned_varint({length})" if self.flexible else f'pack(">i", {length})'
            form = f'f">{{len({items})}}{NUMBERS[field.kind]}"'
            self.piece(f"{packs}[{length}]({length}, *{items}) if {length} < {FEW} else {size} + pack({form}, *{items})")
            return
        length = self.length("array", items, content, null_allowed)
        self.flush()
        item = self.source.variable("item")
        with self.source.block(f"for {item} in {items}:"):
            self.element(field, item, null_allowed=False)
            self.flush()
        if field.struct is not None and not null_allowed:
            self.source.write(self.extra.after_array(self.path, field.name, length))

    def marked_struct(self, struct_type: type[Any], content: str) -> None:
        """Write a struct that may be null."""
        value = self.source.variable("value")
        self.source.line(f"{value} = {content}")
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.source.line('out.append(b"\\xff")')
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self.struct(struct_type, value)
            self.flush()
