"""The habits of the house that no linter knows: sizes, places, what a room may not do.

Docstrings and annotations are ruff's and mypy's, imports are import-linter's; see pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.structure import STATEMENTS, structure

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "minibroker"
LINES_OF_A_MODULE = 600
LINES_OF_A_FUNCTION = 70
FUNCTION = re.compile(r" *(async )?def ")
FILES = 803
INNER_IMPORTS = 146
IMPORT_CIRCLES = 0
SANS_IO = ("wire", "schemas", "records")

# In pieces, because this file is a tracked one too.
REGISTRIES = [
    ".".join(name) for name in (("pypi", "org"), ("pythonhosted", "org"), ("repo1", "maven"), ("repo", "maven"), ("npmjs", "org"))
]
REGISTRIES += [
    ".".join(name) for name in (("proxy", "golang"), ("sum", "golang"), ("crates", "io"), ("deb", "debian"), ("spark-packages", "org"))
]


def modules(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions of a file. Only statements are walked: expressions hold no function, but most nodes."""
    waiting: list[ast.AST] = [ast.parse(file.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for part in STATEMENTS:
            inner = getattr(node, part, None)
            waiting += inner if isinstance(inner, list) else []  # the body of a lambda is an expression


def may_hold_a_long_function(file: Path) -> bool:
    """Whether some `def` is that far from the next one of its depth; most files need not be parsed."""
    lines = file.read_text().splitlines()
    starts = [(number, len(line) - len(line.lstrip())) for number, line in enumerate(lines) if FUNCTION.match(line)]
    starts.append((len(lines), 0))
    ends = (next(end for end, inner in starts[index + 1 :] if inner <= depth) for index, (_, depth) in enumerate(starts[:-1]))
    return any(end - start > LINES_OF_A_FUNCTION for (start, _), end in zip(starts, ends, strict=False))


def of_house(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_modules_stay_readable() -> None:
    too_long = {
        of_house(file): lines
        for file in modules("minibroker", "tests", "benchmarks")
        if (lines := len(file.read_text().splitlines())) > LINES_OF_A_MODULE
    }
    assert too_long == {}


def test_functions_stay_readable() -> None:
    too_long = {
        f"{of_house(file)}:{function.name}": lines
        for file in modules("minibroker", "tests", "benchmarks")
        if may_hold_a_long_function(file)
        for function in functions(file)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > LINES_OF_A_FUNCTION
    }
    assert too_long == {}


def test_the_package_stays_few_files_without_circles() -> None:
    """`python -m tests.support.structure` prints where they are. Lower a ceiling when the package is below it; do not raise one."""
    found = structure()
    assert len(found.lines) <= FILES
    assert found.inner_imports.total() <= INNER_IMPORTS, found.inner_imports
    assert len(found.circles) <= IMPORT_CIRCLES, found.circles


def test_every_room_is_in_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    named = {name for layer in layers for name in re.findall(r"\w+", layer)}
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} <= named


@pytest.mark.parametrize("room", SANS_IO)
def test_sans_io_rooms_touch_no_file_and_no_terminal(room: str) -> None:
    forbidden = {"open", "print", "input", "read_bytes", "read_text", "write_bytes", "write_text"}
    found = [
        f"{of_house(file)}:{node.lineno}"
        for file in modules(f"minibroker/{room}")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else "")
        in forbidden
    ]
    assert found == []


def test_an_api_is_three_files_with_one_stem() -> None:
    def stems(folder: str, prefix: str = "") -> set[str]:
        return {file.stem.removeprefix(prefix) for file in (ROOT / folder).rglob(f"{prefix}k[0-9][0-9]_*.py")}

    handlers = stems("minibroker/handlers")
    assert handlers, "no handler at all"
    assert handlers <= stems("minibroker/schemas")
    assert handlers <= stems("tests/handlers", "test_")


def test_an_api_has_golden_frames() -> None:
    handlers = {file.stem for file in (PACKAGE / "handlers").rglob("k*.py")}
    assert handlers <= {file.stem for file in (ROOT / "tests/golden/frames").glob("*.jsonl")}


def test_tracked_files_name_no_registry() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True, text=True).stdout.split("\0")
    found = [
        f"{name}: {registry}"
        for name in tracked
        if name and (ROOT / name).is_file()
        for registry in REGISTRIES
        if registry.encode() in (ROOT / name).read_bytes()
    ]
    assert found == []


def test_compiled_modules_mean_the_same_to_mypyc() -> None:
    """It makes a list of a generator expression, and ignores the cause of a `raise`, which `storage_error` sets itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    different = []
    for name in names:
        for node in ast.walk(ast.parse((PACKAGE / f"{name}.py").read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.cause, ast.Name):
                is_the_same = isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func).endswith(("failed", "storage_error"))
            else:
                is_the_same = not (isinstance(node, ast.Return) and isinstance(node.value, ast.GeneratorExp))
            if not is_the_same and isinstance(node, ast.stmt):
                different.append(f"{name}.py:{node.lineno}")
    assert different == []
