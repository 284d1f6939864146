"""Commands by name: functions whose arguments are JSON values, checked by their annotations before they are called."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Union, get_args, get_origin, get_type_hints

from minibroker.testing.errors import BrokerError

Command = Callable[..., Any]  #: a JSON value, or what gives one when it is awaited


class UnknownCommandError(BrokerError):
    """There is no command of that name."""


class CommandTable:
    """What there is to be done."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}

    def add(self, name: str, command: Command) -> None:
        """A command; its docstring begins with a line that says what it does."""
        self._commands[name] = command

    def add_all(self, prefix: str, source: object, *names: str) -> None:
        """Methods of an object: `prefix.method` does each."""
        for name in names:
            self.add(f"{prefix}.{name}", getattr(source, name))

    def describe(self) -> list[dict[str, Any]]:
        """Name, purpose and arguments of each, by name."""
        return [_described(name, self._commands[name]) for name in sorted(self._commands)]

    def require(self, name: str) -> None:
        """Raise UnknownCommandError, with the nearest name, unless there is such a command."""
        if name not in self._commands:
            near = get_close_matches(name, self._commands, 1)
            raise UnknownCommandError(f"there is no command {name!r}{f': did you mean {near[0]}?' if near else ''}")

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do a command; BrokerError if there is no such command, or if it has no such arguments."""
        self.require(name)
        command = self._commands[name]
        _check(name, command, arguments)
        return command(**arguments)


def _described(name: str, command: Command) -> dict[str, Any]:
    return {
        "command": name,
        "purpose": (inspect.getdoc(command) or "").partition("\n")[0],
        "arguments": {each.name: _words_of(each) for each in inspect.signature(command).parameters.values()},
    }


def _words_of(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "any")
    return kind if parameter.default is parameter.empty else f"{kind} = {parameter.default!r}"


def _check(name: str, command: Command, arguments: Mapping[str, Any]) -> None:
    parameters = inspect.signature(command).parameters
    for given in arguments:
        if given not in parameters:
            known = ", ".join(parameters) or "none"
            raise BrokerError(f"{name}: there is no argument {given!r}; there are: {known}")
    for each in parameters.values():
        if each.default is each.empty and each.name not in arguments:
            raise BrokerError(f"{name}: argument {each.name!r} is missing")
    hints = get_type_hints(command)
    for given, value in arguments.items():
        if not _is_of(value, hints.get(given, Any)):
            raise BrokerError(f"{name}: {given}={value!r} must be {parameters[given].annotation}")


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
