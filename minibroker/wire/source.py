"""Python source under construction, for the generators of decoders and encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

Path = Sequence[tuple[type[Any], str]]  #: structs from the outermost to the present one, each with the variable that has it


def _nothing(*_: Any) -> Iterable[str]:
    return ()


class Extra(NamedTuple):
    """Statements that a generated function executes besides its own: a broker with metrics counts by them."""

    before_struct: Callable[[Path], Iterable[str]] = _nothing  #: returns those before the fields of a struct are written
    after_struct: Callable[[Path], Iterable[str]] = _nothing  #: returns those after its fields
    #: (path, field, variable) -> those after an array of structs that may not be null. The variable has the number of its elements, in a
    #: flexible version one more
    after_array: Callable[[Path, str, str], Iterable[str]] = _nothing
    at_records: Callable[[Path, str], Iterable[str]] = _nothing  #: (path, variable) -> those for record batches that are not empty
    at_end: Iterable[str] = ()  #: those at the end of a decoder


NO_EXTRA: Final = Extra()


class Source:
    """Lines of one function, the objects that it uses, and names for its variables."""

    def __init__(self, header: str) -> None:
        self.lines = [header]
        self.names: dict[str, Any] = {}
        self._depth = 1
        self._count = 0

    def line(self, text: str) -> None:
        """Write one statement at the current indentation."""
        self.lines.append("    " * self._depth + text)

    def write(self, statements: Iterable[str]) -> None:
        """Write statements at the current indentation, each of which may have several lines."""
        for statement in statements:
            for text in statement.splitlines():
                self.line(text)

    def block(self, header: str) -> Source:
        """Write a compound statement: `with source.block("if n < 0:"): ...`."""
        self.line(header)
        self._depth += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.lines[-1].endswith(":"):
            self.line("pass")
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, used: Any) -> str:
        """Return the name by which the generated function reaches an object. One object has one name."""
        for name, bound in self.names.items():
            if bound is used:
                return name
        name = self.variable(prefix)
        self.names[name] = used
        return name

    def function(self, name: str, title: str) -> Any:
        """Compile the function, which keeps its text in `source`. Tracebacks show `title` in the place of a file name."""
        text = "\n".join(self.lines) + "\n"
        exec(compile(text, f"<{title}>", "exec"), self.names)  # noqa: S102  written by us from our own schemas
        made = self.names[name]
        made.source = text
        return made
