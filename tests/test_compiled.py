"""The compiled build (hatch_build.py): its wheel serves clients, and passes tests of the modules that are compiled.

The source is pure Python, so everything else is tested there. docs/performance.md says how to run other tests on a compiled build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import minibroker
from tests.support.becoming import wait_until
from tests.support.ports import free_port

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 600  #: the build alone takes 50 s of CPU
pytestmark = pytest.mark.timeout(TIMEOUT_S + 100)
TESTS = (
    *("tests/records", "tests/dispatch", "tests/storage", "tests/log/test_faults.py", "tests/log/test_read.py", "tests/handlers/fetch"),
    *("tests/cluster/test_cluster.py", "tests/cluster/test_partition.py", "tests/cluster/directories/test_late_opening.py"),
)
TESTS_WITH_SOCKETS = ("tests/server/test_connection.py", "tests/server/test_receive_buffer.py")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, and unpack it: the folder for PYTHONPATH."""
    if "MINIBROKER_COMPILED" not in os.environ:
        pytest.skip("MINIBROKER_COMPILED is not set: the build takes a minute of CPU")
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("no C compiler, or no Python.h")
    folder = tmp_path_factory.mktemp("compiled")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    environment = os.environ | {"MINIBROKER_COMPILE": "1", "MINIBROKER_COMPILE_LEVEL": "0"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=TIMEOUT_S)
    (wheel,) = folder.glob("*.whl")
    assert not wheel.name.endswith("py3-none-any.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "package")
    return folder / "package"


def run(package: Path, *arguments: str) -> str:
    """Run Python with the compiled package before the source tree."""
    command = [sys.executable, "-P", *arguments]
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_every_module_compiled_and_as_source(package: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for name in modules:
        assert (package / "minibroker" / f"{name}{suffix}").exists(), name
        assert (package / "minibroker" / f"{name}.py").exists(), name
    shown = run(package, "-m", "minibroker", "--version")
    assert shown.startswith(f"minibroker {minibroker.__version__} (compiled, ")


def test_tests_of_compiled_modules_pass(package: Path) -> None:
    printed = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=append", "-m", "check", *TESTS)
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None
    assert int(passed[1]) > 1500, printed
    run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=append", *TESTS_WITH_SOCKETS)


@pytest.fixture(params=[(), ("--metrics-port", "0")], ids=["plain", "metrics"])
def port(request: pytest.FixtureRequest, package: Path, tmp_path: Path) -> Iterator[int]:
    """A compiled broker, without and with counters of its requests."""
    port, output = free_port(), tmp_path / "out.txt"
    arguments = ("serve", "--port", str(port), "--data-dir", str(tmp_path / "data"), *request.param)
    command = [sys.executable, "-P", "-m", "minibroker", *arguments]
    with (
        output.open("w") as out,
        subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(package)}, stdout=out, stderr=out) as broker,
    ):
        try:
            wait_until(lambda: "minibroker ready" in output.read_text() or broker.poll() is not None, "the broker is ready or failed")
            yield port
        finally:
            broker.terminate()
    assert "Traceback" not in output.read_text()
    assert broker.returncode == 0, output.read_text()


def test_a_compiled_broker_serves_producers_and_consumers(port: int, tmp_path: Path) -> None:
    """Small and compressed batches, and a look-up of offsets, by the commands of the source tree."""
    server = ("-b", f"127.0.0.1:{port}")
    lines = [f"record {number}" for number in range(1000)]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))

    def cli(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "minibroker", *arguments, *server], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    cli("topics", "create", "orders", "--partitions", "1")
    cli("produce", "orders", str(tmp_path / "lines"))
    cli("produce", "orders", str(tmp_path / "lines"), "--compression", "lz4")
    assert cli("consume", "orders", "-e").splitlines() == lines * 2
    assert "2000" in cli("offsets", "--topic", "orders")
