"""Serve a large request as several small ones, whose answers are merged into one response.

A handler declares in which arrays its request may be cut, and which arrays of the response answer
them:

    @handles(schema, Pieces("topics.partitions", "topics.partitions", size=500))
    def list_offsets(ctx, request): ...

The handler itself stays plain synchronous code. It gets requests of at most `size` elements, one in
each slice (dispatch/slices.py). An invariant holds within one piece:

- Each piece is checked and served separately. If a handler must see elements together because they
  identify the same entity, `key` returns equal values for them. They are in one piece, in the place
  of the first. More than REPEATED_MAX equal ones are INVALID_REQUEST.
- If a piece fails as a whole, the answer reports the error for the elements of that piece.
- A request that must be served as a whole (`most`) is not cut. If it has more elements, each of
  them gets POLICY_VIOLATION.
- Elements of the response are encoded piece by piece, so that their objects never exist at the same
  time.

Elements are those of the innermost array. A null array, which means everything, counts as an array
of the largest size.

A request whose elements a handler must see all together cannot be cut. It has a limit instead,
above which it is rejected:

    @handles(schema, limit=ElementLimit(FEATURE_UPDATES_MAX))
    def update_features(ctx, request): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from minibroker.config.request_limits import REPEATED_MAX
from minibroker.errors import InvalidRequest, KafkaError
from minibroker.wire import codec
from minibroker.wire.compiled import encoder
from minibroker.wire.schema import Buffer, Field, fields_of, replace

USUAL_SIZE: Final = 200

Key = Callable[[Any, Any], object]  #: (RequestContext, element of the outermost array) -> a value equal for elements that belong together


class Pieces:
    """How requests of one API are cut."""

    __slots__ = ("_piece_size", "answer", "beside", "check", "is_atomic", "key", "others", "request", "size", "weight")

    def __init__(  # each argument is named
        self,
        request: str,
        answer: str,
        *,
        size: int = USUAL_SIZE,
        key: Key | None = None,
        beside: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        most: int | None = None,
        weight: Callable[[Any], int] | None = None,
        check: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """Declare where the elements are.

        Args:
            request: The arrays, from the outermost one to the one that is cut, such as "groups.topics".
            answer: The arrays of the answers to their elements.
            size: The most elements of a piece, which should take a millisecond or two.
            key: Returns a value that is equal for elements that must be in the same piece.
            beside: Arrays inside an element of the innermost array whose elements count as well, and stay together.
            others: Further arrays of the request besides the outermost one, whose elements are answered after its elements.
            most: The limit of a request that is served as a whole and cannot be cut. A request with more elements is refused.
            weight: Returns the number of elements that an element counts as, if its arrays do not show it; for requests with one array.
            check: (RequestContext, request). Raises the error that refuses the whole request before it is cut.
        """
        self.weight = weight
        self.check = check
        self.is_atomic = most is not None
        self.request = tuple(request.split("."))
        self.answer = tuple(answer.split("."))
        self.size = size if most is None else most
        self._piece_size = size  #: also used to answer a request that is refused as a whole
        self.key = key
        self.beside = beside
        self.others = others

    def are_in(self, request_type: type[Any], version: int) -> bool:
        """Whether this version has the array."""
        return _field(request_type, self.request[0]).in_version(version)

    def min_size(self, request_type: type[Any], version: int, flexible: bool) -> int:
        """Return the size in bytes of the smallest request of more than one piece."""
        sizes, struct_type = [], request_type
        for name in self.request:
            field = _field(struct_type, name)
            sizes.append(codec.min_element_size(field, version, flexible))
            struct_type = field.struct or struct_type
        sizes += [codec.min_element_size(_field(request_type, name), version, flexible) for name in self.others]
        return self.size * min(sizes)

    def is_one(self, request: Any) -> bool:
        """Whether a request is small enough to be served at once."""
        left = self.size
        for name in (self.request[0], *self.others):
            for element in getattr(request, name) or ():
                left -= self._weight(element, self.request[1:])
                if left < 0:
                    return False
        return True

    def cut(self, ctx: Any, request: Any) -> Iterator[Piece | None]:
        """Yield the pieces, each created when the caller needs it; None is a pause."""
        names = (self.request[0], *self.others)
        for name in names:
            rest: dict[str, Any] = {other: [] for other in names if other != name}
            yield from self._cut_array(ctx, replace(request, **rest) if rest else request, name)

    def _cut_array(self, ctx: Any, request: Any, outer: str) -> Iterator[Piece | None]:
        elements: Iterable[Any] = getattr(request, outer) or ()
        groups: Iterable[Sequence[Any]] | None = None
        if self.key is not None:
            together: dict[object, list[Any]] = {}
            for number, element in enumerate(elements):
                together.setdefault(self.key(ctx, element), []).append(element)
                if not number % 1000:
                    yield None
            yield from self._cut_repeated(request, outer, together)
            groups = together.values()
        for part, depth in self._cut(elements, groups, self.request[1:]):
            yield Piece(replace(request, **{outer: part}), depth)

    def _cut_repeated(self, request: Any, outer: str, together: dict[object, list[Any]]) -> Iterator[Piece]:
        """Take out the elements of keys that occur more often than REPEATED_MAX, and yield them as refused pieces."""
        for key in [key for key, group in together.items() if len(group) > REPEATED_MAX]:
            group = together.pop(key)
            for start in range(0, len(group), USUAL_SIZE):
                yield Piece(replace(request, **{outer: group[start : start + USUAL_SIZE]}), 0, is_refused=True)

    def _cut(
        self, elements: Iterable[Any], groups: Iterable[Sequence[Any]] | None, inner: tuple[str, ...]
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield parts of an array, and how many levels of each continue the previous part."""
        part: list[Any] = []
        total = 0
        for group in ((element,) for element in elements) if groups is None else groups:
            weight = sum(self._weight(element, inner) for element in group)
            if part and total + weight > self._piece_size:
                yield part, 0
                part, total = [], 0
            if weight > self._piece_size and inner and len(group) == 1 and getattr(group[0], inner[0]) is not None:
                is_first = True
                for cut, depth in self._cut(getattr(group[0], inner[0]), None, inner[1:]):
                    yield [replace(group[0], **{inner[0]: cut})], 0 if is_first else depth + 1
                    is_first = False
                continue
            part += group
            total += weight
        if part:
            yield part, 0

    def _weight(self, element: Any, inner: tuple[str, ...]) -> int:
        """Count the elements in an element, including itself.

        Above the size of a piece the number is not exact.
        """
        if self.weight is not None:
            return self.weight(element)
        names = inner[:1] or self.beside
        weight = 0 if inner else 1
        for name in names:
            elements = getattr(element, name)
            if elements is None:
                weight += self.size if inner else 0
            elif len(inner) <= 1 and not (inner and self.beside):
                weight += len(elements)
            else:
                for each in elements:
                    weight += self._weight(each, inner[1:])
                    if weight > self.size:
                        return weight
        return max(weight, 1)


class Piece(NamedTuple):
    """A part of a request, as a request."""

    request: Any
    depth: int  #: how many levels of arrays continue the previous piece: its last element is the first one here
    is_refused: bool = False  #: too many elements have the same key


class MergedResponse:
    """The answers to all pieces, merged into one."""

    def __init__(self, pieces: Pieces, version: int, *, flexible: bool) -> None:
        self._name = pieces.answer[0]
        self._response: Any = None
        self._array = _OpenArray(pieces.answer[1:], version, flexible)

    @property
    def size(self) -> int:
        """Bytes encoded so far."""
        return self._array.size

    def add(self, response: Any, depth: int) -> None:
        """Add the answer to the next piece."""
        elements = getattr(response, self._name)
        self._array.add(elements or (), depth)
        if self._response is None:
            self._response = response
            return
        for field in fields_of(type(response)):
            if field.name != self._name:
                setattr(self._response, field.name, _joined(field, getattr(self._response, field.name), getattr(response, field.name)))

    def response(self) -> Any:
        """Return the whole answer, ready to be encoded."""
        setattr(self._response, self._name, self._array.encoded())
        return self._response


def _joined(field: Field, before: Any, now: Any) -> Any:
    """Join the other fields of two answers: the first error, the longest throttle time, the union of lists."""
    if field.is_array and field.struct is not None and now:
        return [*before, *(each for each in now if each not in before)] if before else now
    if field.name == "throttle_time_ms":
        return max(before, now)
    return before or now


class _OpenArray:
    """An array whose last element may continue in the next piece; earlier elements are encoded."""

    def __init__(self, inner: tuple[str, ...], version: int, flexible: bool) -> None:
        self.size = 0
        self._inner = inner
        self._version = version
        self._flexible = flexible
        self._count = 0
        self._chunks: list[Buffer] = []
        self._last: Any = None
        self._nested: _OpenArray | None = None  #: the inner array of `_last`, if that was continued

    def add(self, elements: Sequence[Any] | codec.EncodedArray, depth: int) -> None:
        if isinstance(elements, codec.EncodedArray):
            self._add_encoded(elements)
            return
        first = 0
        if depth and self._last is not None and elements:
            first = 1
            name = self._inner[0]
            if self._nested is None:
                self._nested = _OpenArray(self._inner[1:], self._version, self._flexible)
                self._nested.add(getattr(self._last, name) or (), 0)
            before = self._nested.size
            self._nested.add(getattr(elements[0], name) or (), depth - 1)
            self.size += self._nested.size - before
            for field in fields_of(type(self._last)):
                if field.name != name and not field.is_array:
                    setattr(self._last, field.name, getattr(self._last, field.name) or getattr(elements[0], field.name))
        encoded: list[Buffer] = []
        for element in elements[first:]:
            self._end_last(encoded)
            self._last = element
        if not self._inner:
            self._end_last(encoded)
        self._keep(encoded)

    def encoded(self) -> codec.EncodedArray:
        """Return the whole array. No element can be added afterwards."""
        encoded: list[Buffer] = []
        self._end_last(encoded)
        self._keep(encoded)
        return codec.EncodedArray(self._count, self._chunks)

    def _add_encoded(self, elements: codec.EncodedArray) -> None:
        """Add the elements of an answer that is encoded already (dispatch/plan.py), to a request with one array."""
        self._count += elements.count
        self._chunks += elements.chunks
        self.size += sum(map(len, elements.chunks))

    def _end_last(self, encoded: list[Buffer]) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        self._count += 1
        if self._nested is None:
            encoded += encoder(type(last), self._version, self._flexible)(last)
            return
        setattr(last, self._inner[0], self._nested.encoded())
        self.size -= self._nested.size
        self._nested = None
        encoded += codec.encode_chunks(last, self._version, flexible=self._flexible)

    def _keep(self, encoded: list[Buffer]) -> None:
        chunks = codec.joined(encoded)
        self.size += sum(map(len, chunks))
        self._chunks += chunks


class ElementLimit(NamedTuple):
    """The most elements that a request may have if its handler must see them all together.

    The arrays of all levels count. An element has at least one byte, so frames of up to `most`
    bytes are not counted. The limits are in minibroker/config/request_limits.py.
    """

    most: int

    def refusal(self, request: Any) -> KafkaError | None:
        """Return the error that refuses a request of more elements; None if it may be served."""
        if count_elements(request, self.most) <= self.most:
            return None
        return InvalidRequest(f"A request may have {self.most} elements at most.")


def count_elements(struct: Any, most: int) -> int:
    """Count the elements of all arrays in a struct; stop soon after `most` of them."""
    total = 0
    for name, is_array, has_structs in _containers(type(struct)):
        value = getattr(struct, name)
        if value is None:
            continue
        if is_array:
            total += len(value)
        if has_structs:
            for each in value if is_array else (value,):
                if total > most:
                    return total
                total += count_elements(each, most - total)
    return total


_CONTAINERS: Final[dict[type[Any], list[tuple[str, bool, bool]]]] = {}


def _containers(struct_type: type[Any]) -> list[tuple[str, bool, bool]]:
    """Return the fields that may contain elements: name, whether it is an array, whether its structs have such fields."""
    found = _CONTAINERS.get(struct_type)
    if found is None:
        found = _CONTAINERS[struct_type] = []
        for field in fields_of(struct_type):
            has_structs = field.struct is not None and bool(_containers(field.struct))
            if field.is_array or has_structs:
                found.append((field.name, field.is_array, has_structs))
    return found


def _field(struct_type: type[Any], name: str) -> Field:
    return next(field for field in fields_of(struct_type) if field.name == name)
