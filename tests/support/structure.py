"""`python -m tests.support.structure`: print how the package is divided into files, and what one Produce and one Fetch pass through."""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parents[2] / "minibroker"
STATEMENTS = ("body", "orelse", "handlers", "finalbody", "cases")  #: the fields of a node that hold statements


class Structure(NamedTuple):
    """Numbers of the package's files."""

    lines: list[int]  #: of each file
    inner_imports: Counter[str]  #: imports inside functions, by folder
    circles: list[list[str]]  #: modules that import each other, also inside functions and under TYPE_CHECKING


def structure() -> Structure:
    """Read all files of the package."""
    trees = {module_name(file): (file, ast.parse(file.read_text())) for file in sorted(PACKAGE.rglob("*.py"))}
    inner = Counter(
        file.parent.relative_to(PACKAGE.parent).as_posix()
        for file, tree in trees.values()
        for _ in {node.lineno for node, is_inside in imports_of(tree) if is_inside}
    )
    imports = {name: set(imported_by(tree, trees.keys())) for name, (_, tree) in trees.items()}
    return Structure([len(file.read_text().splitlines()) for file, _ in trees.values()], inner, circles_in(imports))


def module_name(file: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield the imports of a file, and whether each is inside a function. Only statements are walked: expressions hold none."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, is_inside = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, is_inside
        is_inside |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in STATEMENTS:
            inner = getattr(node, part, None)
            waiting += [(each, is_inside) for each in inner] if isinstance(inner, list) else []  # the body of a lambda is an expression


def imported_by(tree: ast.AST, modules: Any) -> Iterator[str]:
    """Yield the modules of the package that a file imports, wherever in it."""
    for node, _ in imports_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module and not node.level:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names)


def circles_in(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of two modules or more, largest first."""
    reachable = {name: _reachable(name, imports) for name in imports}
    found = defaultdict(list)
    for name in imports:
        circle = frozenset(other for other in reachable[name] if name in reachable.get(other, ()))
        if len(circle) > 1:
            found[circle].append(name)
    return sorted(found.values(), key=len, reverse=True)


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def modules_of_requests() -> dict[str, list[str]]:
    """Return the modules whose code one Produce and one Fetch of one partition run, after the first of each."""
    from minibroker.schemas import k00_produce, k01_fetch
    from tests.support.broker_in_memory import BrokerInMemory, frame_of, records

    broker = BrokerInMemory(topics={"orders": 1})
    data = k00_produce.Partition(index=0, records=records(1))
    topic = k00_produce.Topic(name="orders", partition_data=[data])
    produce = k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[topic])
    part = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = k01_fetch.Request(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[k01_fetch.Topic(topic="orders", partitions=[part])])
    found = {}
    for name, request in (("Produce", produce), ("Fetch", fetch)):
        frames = [memoryview(bytearray(frame_of(request, 12))) for _ in range(3)]
        for frame in frames[:2]:
            broker.dispatcher.dispatch(broker.connection, frame)
        found[name] = modules_run_by(partial(broker.dispatcher.dispatch, broker.connection, frames[2]))
    return found


def modules_run_by(call: Callable[[], object]) -> list[str]:
    """Return the modules of the package whose functions a call runs."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(module_name(Path(file)) for file in files if Path(file).is_relative_to(PACKAGE) and "<" not in file)


def main() -> None:
    """Print all numbers."""
    lines, inner, circles = structure()
    print(f"{len(lines)} files, {sum(lines)} lines, median {statistics.median(lines):.0f}")
    print(f"{sum(each < 40 for each in lines)} files below 40 lines, {sum(each < 60 for each in lines)} below 60")
    print(f"{inner.total()} imports inside functions: {dict(inner.most_common())}")
    print(f"{len(circles)} import circles")
    for circle in circles:
        print(f"    {len(circle)}: {', '.join(circle[:10])}")
    for name, modules in modules_of_requests().items():
        print(f"{name} of one partition runs {len(modules)} modules: {', '.join(modules)}")


if __name__ == "__main__":
    main()
