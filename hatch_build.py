"""Compile the modules that pyproject.toml lists with mypyc, if MINIBROKER_COMPILE=1 is set. Without it the wheel is pure Python.

MINIBROKER_COMPILE_LEVEL is the optimisation level of the C compiler (0 to 3, default 3). Level 0 builds in less than half of the time.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompilingHook(BuildHookInterface[Any]):
    """Puts the extension modules beside their sources into the wheel."""

    @property
    def is_wanted(self) -> bool:
        """Whether this build is a compiled one."""
        return os.environ.get("MINIBROKER_COMPILE", "") not in {"", "0"}

    def dependencies(self) -> list[str]:
        """Return what a compiled build needs: mypyc, and the type information of the libraries that the modules import."""
        if not self.is_wanted:
            return []
        needed: list[str] = self.config["requires"]
        return [*needed, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile. An editable installation stays pure Python."""
        if version == "editable" or not self.is_wanted:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="minibroker-compile-")  # removed after the wheel is written
        level = os.environ.get("MINIBROKER_COMPILE_LEVEL", "3")
        built = _compile(Path(self.root), Path(self._folder.name), self.config["modules"], level)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(file): name for name, file in built.items()})


def _compile(root: Path, folder: Path, modules: list[str], level: str) -> dict[str, Path]:
    """Return the extension modules, by their paths in the wheel."""
    from mypyc.build import mypycify  # noqa: PLC0415  only a compiled build needs it
    from setuptools import Distribution  # noqa: PLC0415  likewise
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415  likewise

    before = Path.cwd()
    os.chdir(root)  # mypyc names modules by relative paths
    try:
        extensions = mypycify(
            # `silent`: other modules need libraries and stubs that only the development environment has
            ["--follow-imports=silent", *(f"minibroker/{name}.py" for name in modules)],
            opt_level=level,
            debug_level="0",
            multi_file=level != "0",  # one file needs least CPU, several can be compiled in parallel
            target_dir=str(folder / "c"),
            group_name="minibroker",
        )
        command = build_ext(Distribution({"name": "minibroker", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return {str(file.relative_to(folder / "lib")): file for file in (folder / "lib").rglob("*") if file.is_file()}
