"""A release: the wheel and the source archive are valid, and a broker starts from the files of the wheel alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

import minibroker
from tests.support.becoming import wait_until
from tests.support.ports import free_port

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


def test_names_contents_and_metadata(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    (archive,) = dist.glob("*.tar.gz")
    assert wheel.name == f"minibroker-{minibroker.__version__}-py3-none-any.whl"
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, archive], check=True, capture_output=True, timeout=60)
    subprocess.run([sys.executable, "-m", "check_wheel_contents", wheel], check=True, capture_output=True, timeout=60)
    with tarfile.open(archive) as files:
        tops = {Path(name).parts[1] for name in files.getnames()}
    assert tops == {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "minibroker", "pyproject.toml"}


def test_a_broker_starts_from_the_wheel_with_all_its_pages(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path / "package")  # noqa: S202  built here
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "package"), "PYTHONDONTWRITEBYTECODE": "1"}
    imported = "import minibroker; print(minibroker.__file__)"
    where = subprocess.run([sys.executable, "-c", imported], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path)

    ports = [str(free_port()) for _ in range(2)]
    command = [sys.executable, "-m", "minibroker", "serve", "--port", ports[0], "--console-port", ports[1], "--data-dir", "data"]
    output = tmp_path / "out.txt"
    with output.open("w") as out, subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=out, stderr=out) as broker:
        try:
            wait_until(lambda: "minibroker ready" in output.read_text() or broker.poll() is not None, "the broker is ready or failed")
            page = urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/", timeout=30).read().decode()
            for path in set(re.findall(r'(?:href|src)="(/[^"#?]+)"', page)):
                assert urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}{path}", timeout=30).status == 200, path
        finally:
            broker.terminate()
    assert broker.returncode == 0, output.read_text()
