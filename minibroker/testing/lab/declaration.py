"""The declaration of an operation of the lab: a typed method under `@operation` in a group.

Every other form is made from it.

    class Leaders(OperationGroup, prefix="leaders"):
        @operation
        def move(self, topic: str, partition: int, *, to: Annotated[int, Option("The broker.")]) -> None:
            '''Let another broker lead a partition.'''

    by name, with JSON arguments    OperationTable.call("leaders.move", {...}): HTTP and the process of BrokerProcess
    synchronous handles             remote(Leaders, execute), an object of the same type
    asynchronous handles            move = awaited(Leaders.move), a line for each, which mypy and editors can follow
    `minibroker lab`                cli/lab/derived.py: a parameter with an `Option` is an option, any other an argument
    docs/lab.md                     tests/testing/lab/reference_page.py

The first line of the docstring is the purpose in `GET /`, in docs/lab.md and in the list of
commands of the shell.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Coroutine, Mapping
from difflib import get_close_matches
from functools import cache, cached_property, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints, overload

from minibroker.testing.options import BrokerError

P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G", bound="OperationGroup")


class Execute(Protocol):
    """Executes an operation of a broker by name, and returns its result."""

    def __call__(self, name: str, arguments: dict[str, Any], /) -> Any:
        """Raises BrokerError, a single line, if it fails."""


class UnknownOperationError(BrokerError):
    """There is no operation of that name."""


class Option(NamedTuple):
    """What `minibroker lab` shows of a parameter that is an option there."""

    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None


class Operation:
    """Name, parameters and result of a function, read from its signature when they are first needed."""

    def __init__(self, name: str, function: Callable[..., Any], *, is_reading: bool = False) -> None:
        """`is_reading`: the operation changes nothing."""
        self.name = name
        self.function = function
        self.is_reading = is_reading

    @property
    def purpose(self) -> str:
        """The first line of the docstring."""
        return self.doc.partition("\n")[0]

    @property
    def doc(self) -> str:
        """The whole docstring."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters by name, without `self`."""
        return {name: each for name, each in inspect.signature(self.function).parameters.items() if name != "self"}

    @cached_property
    def hints(self) -> dict[str, Any]:
        """Types of the parameters, and of "return"."""
        return get_type_hints(self.function)

    @cached_property
    def options(self) -> dict[str, Option]:
        """The `Option` of each parameter that has one."""
        hints = get_type_hints(self.function, include_extras=True)
        return {name: more for name, hint in hints.items() for more in getattr(hint, "__metadata__", ()) if isinstance(more, Option)}

    @property
    def is_gettable(self) -> bool:
        """Whether HTTP's GET executes it: it changes nothing and needs no argument."""
        return self.is_reading and all(each.default is not each.empty for each in self.parameters.values())

    def describe(self) -> dict[str, Any]:
        """Encode name, purpose and arguments as JSON."""
        arguments = {}
        for name, each in self.parameters.items():
            kind = _type_name(self.hints[name])
            arguments[name] = kind if each.default is each.empty else f"{kind} = {each.default!r}"
        return {"command": self.name, "purpose": self.purpose, "arguments": arguments}

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise BrokerError if an argument is unknown, missing or of another type."""
        for name in arguments:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise BrokerError(f"{self.name}: there is no argument {name!r} (arguments: {known})")
        for each in self.parameters.values():
            if each.default is each.empty and each.name not in arguments:
                raise BrokerError(f"{self.name}: argument {each.name!r} is missing")
        for name, value in arguments.items():
            if not _is_of(value, self.hints[name]):
                raise BrokerError(f"{self.name}: {name} must be of type {_type_name(self.hints[name])}, got {value!r}")

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a Python call by name. Raises TypeError as Python does."""
        try:
            bound = inspect.signature(self.function).bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"broker.{self.name}() {error}") from None
        return {name: value for name, value in bound.arguments.items() if name != "self"}

    def result(self, value: Any) -> Any:
        """Convert a result from JSON, whose objects have no integers as keys, to the declared type."""
        hint = self.hints.get("return")
        return {int(key): each for key, each in value.items()} if get_origin(hint) is dict and get_args(hint)[0] is int else value


def _type_name(hint: Any) -> str:
    return str(hint).replace("typing.", "") if get_args(hint) else getattr(hint, "__name__", str(hint))


def _is_of(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    origin = get_origin(hint)
    if origin in {types.UnionType, Union}:
        return any(_is_of(value, each) for each in get_args(hint))
    kind = origin or hint
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


# Declaring


class OperationGroup:
    """Operations that belong together.

    `prefix` starts the name of each: "leaders" for `leaders.move`.
    """

    def __init_subclass__(cls, prefix: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        for member in vars(cls).values():
            declared = operation_of(member)
            if declared is not None and prefix:
                declared.name = f"{prefix}.{declared.function.__name__}"


@overload
def operation(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]: ...
@overload
def operation(function: Callable[P, R]) -> Callable[P, R]: ...
def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a method as an operation.

    The type of an asynchronous one is that of its awaited result.
    """
    function._operation = Operation(function.__name__, function)  # type: ignore[attr-defined]  # noqa: SLF001  read below
    return function


@overload
def reading(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]: ...
@overload
def reading(function: Callable[P, R]) -> Callable[P, R]: ...
def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a method as an operation that changes nothing."""
    function._operation = Operation(function.__name__, function, is_reading=True)  # type: ignore[attr-defined]  # noqa: SLF001
    return function


def operation_of(member: object) -> Operation | None:
    """Return the declaration of a method or property of a group; None if it is not an operation."""
    found = getattr(member.fget if isinstance(member, property) else member, "_operation", None)
    return found if isinstance(found, Operation) else None


def operations_of(group: type[OperationGroup]) -> list[Operation]:
    """Return all operations of a group, in the order of their declarations."""
    return [found for member in vars(group).values() if (found := operation_of(member)) is not None]


def _declared(method: object) -> Operation:
    found = operation_of(method)
    if found is None:
        raise TypeError(f"{method!r} is not under @operation")
    return found


# Handles


def called(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return the method for a class whose `_execute` calls a broker elsewhere."""
    declared = _declared(method)

    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return declared.result(self._execute(declared.name, declared.arguments(args, kwargs)))

    return call


def awaited(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the method as a coroutine, for a class whose `_execute` is awaited."""
    declared = _declared(method)

    @wraps(method)
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return declared.result(await self._execute(declared.name, declared.arguments(args, kwargs)))

    return call


def remote(group: type[G], execute: Execute) -> G:
    """Return a group whose broker runs elsewhere: each of its operations calls `execute`."""
    handle: G = object.__new__(_remote_type(cast("Any", group)))
    handle._execute = execute  # type: ignore[attr-defined]  # noqa: SLF001  `called` reads it
    return handle


@cache
def _remote_type(group: Any) -> Any:
    members: dict[str, Any] = {}
    for name, member in vars(group).items():
        if operation_of(member) is not None:
            members[name] = property(called(cast("Any", member.fget))) if isinstance(member, property) else called(member)
    return type(group.__name__, (group,), members)


# By name


class OperationTable:
    """The operations of one broker by name."""

    def __init__(self, *groups: OperationGroup) -> None:
        self._operations: dict[str, Operation] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        for group in groups:
            for member in vars(type(group)).values():
                declared = operation_of(member)
                if declared is not None:
                    self._operations[declared.name] = declared
                    self._functions[declared.name] = types.MethodType(declared.function, group)

    def add(self, name: str, function: Callable[..., Any]) -> None:
        """Add an operation that is declared by a plain function."""
        self._operations[name] = Operation(name, function)
        self._functions[name] = function

    def describe(self) -> list[dict[str, Any]]:
        """Encode name, purpose and arguments of each operation, sorted by name."""
        return [self._operations[name].describe() for name in sorted(self._operations)]

    def find(self, name: str) -> Operation:
        """Return the declaration. Raises UnknownOperationError, which names the nearest one."""
        if name not in self._operations:
            near = get_close_matches(name, self._operations, 1)
            raise UnknownOperationError(f"there is no command {name!r}{f': did you mean {near[0]}?' if near else ''}")
        return self._operations[name]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Execute an operation.

        Raises BrokerError if there is none of that name, or it has other arguments.
        """
        self.find(name).check(arguments)
        return self._functions[name](**arguments)
