"""Images and containers by podman, with runc: the image of docker/Dockerfile is built once for what is in the tree, and run for real.

The tests ask no registry. Debian's Python 3.14, installed by debootstrap, takes the place of the base that the Dockerfile names. Tests
skip, with the reason, where that cannot be done.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.support.soak import IS_SOAK

ROOT = Path(__file__).parents[2]
BASE: Final = "localhost/minibroker-base:python3.14"
PROGRAMS: Final = ("podman", "runc", "debootstrap")
ENVIRONMENT: Final = {**os.environ, "CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf"))}
HELPERS: Final = ("/usr/lib/podman", "/usr/libexec/podman")  # where podman has those that know containers by name
READY: Final = r"Kafka Server started"
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
TIMEOUT_S: Final = 90.0
BASE_MAX_BYTES: Final = 1_000_000_000  #: of a base while it is unpacked


@functools.cache
def missing() -> str | None:
    """Why no container can be run here; None when it can."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"{', '.join(absent)} not installed (.ci/run installs them for root)"
    if not any(Path(folder, "aardvark-dns").exists() for folder in HELPERS):
        return "aardvark-dns and netavark not installed (.ci/run installs them for root)"
    if os.geteuid() != 0:
        return "debootstrap needs root"
    return None


def podman(*arguments: str, stdin: bytes | None = None, check: bool = True) -> str:
    """Run podman; what it printed. CalledProcessError, with what it complained of, when it fails."""
    done = subprocess.run(["podman", *arguments], input=stdin, capture_output=True, env=ENVIRONMENT, check=False)
    if check and done.returncode:
        raise AssertionError(f"podman {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode()


def podman_code(*arguments: str) -> int:
    """Run podman; its exit code."""
    return subprocess.run(["podman", *arguments], capture_output=True, env=ENVIRONMENT, check=False).returncode


def logs(container: str) -> str:
    """What a container printed, on stdout and stderr."""
    call = ["podman", "logs", container]
    return subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, check=False).stdout


def image() -> str:
    """The name of the image of this tree, built where it is not there; skips the calling test where that is not possible."""
    if reason := missing():
        pytest.skip(reason)
    name = f"localhost/minibroker-test:{_fingerprint()}"
    with (Path(tempfile.gettempdir()) / "minibroker-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of pytest-xdist want it at one time
        if not _exists(name):
            _make_base()
            _build(name)
    return name


def _exists(name: str) -> bool:
    return podman_code("image", "exists", name) == 0


def _fingerprint() -> str:
    """Of everything that goes into the image."""
    digest = hashlib.sha256()
    for folder in ("docker", "minibroker"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".yaml":
                digest.update(str(file).encode() + file.read_bytes())
    for file in (ROOT / "requirements.lock", ROOT / "pyproject.toml", ROOT / "hatch_build.py"):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _make_base() -> None:
    """Create a system like `python:3.14-slim`: Debian with Python 3.14, its headers and pip, without documentation.

    Debian's Python is in /usr instead of /usr/local. The lists of packages remain, so that the build fetches none.
    """
    if _exists(BASE):
        return
    memory = Path("/dev/shm")  # noqa: S108  dpkg syncs each file, which takes half of the time on a disk
    spacious = memory.is_dir() and shutil.disk_usage(memory).free > BASE_MAX_BYTES and not os.statvfs(memory).f_flag & os.ST_NOEXEC
    with tempfile.TemporaryDirectory(dir=memory if spacious else None) as folder:
        call = ["debootstrap", "--variant=minbase", "--include=libpython3-dev,netcat-openbsd,python3-pip", "sid", folder]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"debootstrap cannot make a base here: {done.stdout[-300:]}{done.stderr[-300:]}")
        for name in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/log"):
            shutil.rmtree(Path(folder, name), ignore_errors=True)
        for name in ("var/cache/apt/archives/partial", "var/log"):
            Path(folder, name).mkdir(parents=True)
        for file in Path(folder, "usr/lib").glob("*/libpython*.so*"):
            file.unlink()  # of the headers' package; Debian's interpreter does not need it
        for name in ("lib/python3/dist-packages/pip", "bin/pip", "bin/pip3"):
            target = Path(folder, "usr/local", name.replace("python3", "python3.14"))
            target.parent.mkdir(parents=True, exist_ok=True)
            Path(folder, "usr", name).rename(target)
        shutil.copy("/etc/resolv.conf", Path(folder, "etc/resolv.conf"))
        Path(folder, "etc/apt/apt.conf.d/snapshot").write_text('Acquire::Check-Valid-Until "false";\n')  # a mirror may be frozen
        with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(["podman", "import", "-q", "-", BASE], stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL)


def _build(name: str) -> None:
    """By docker/Dockerfile."""
    podman("build", *build_options(), "-f", str(ROOT / "docker" / "Dockerfile"), "-t", name, str(ROOT))


def build_options() -> list[str]:
    """Of `podman build`. Where pip has to trust certificates of its own here, it does so in the build, too."""
    certificates = os.environ.get("PIP_CERT") or (CERTIFICATES if Path(CERTIFICATES).exists() else "")
    arguments = (f"BASE={BASE}", f"MINIBROKER_COMPILE={int(IS_SOAK)}", "MINIBROKER_COMPILE_LEVEL=0")  # the compiler takes 45 s of CPU
    options = [word for each in arguments for word in ("--build-arg", each)] + ["--format", "docker", "--isolation", "chroot"]
    if certificates:
        options += ["--volume", f"{certificates}:/etc/ssl/certs/host.crt:ro", "--build-arg", "PIP_CERT=/etc/ssl/certs/host.crt"]
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        if variable in os.environ:
            options += ["--build-arg", f"{variable}={os.environ[variable]}"]
    return options


class Container:
    """A container that runs in the background; `with` removes it.

    Args:
        command: instead of the image's own; with `entrypoint` its arguments.
        ports: of the container, each published on a free port of the host (`port`), or as `host:container`.
        files: path in the container, maybe with `:ro` -> file or folder of the host, or a volume, mounted there.
    """

    def __init__(
        self,
        image: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        ports: Sequence[int | str] = (),
        files: Mapping[str, Path | str] | None = None,
        entrypoint: Sequence[str] = (),
        options: Sequence[str] = (),
        ready: str | None = READY,
    ) -> None:
        self.name = f"minibroker-{uuid.uuid4().hex[:12]}"
        call = ["run", "--detach", "--name", self.name, *options]
        for variable, value in (environment or {}).items():
            call += ["--env", f"{variable}={value}"]
        for port in ports:
            call += ["--publish", f"127.0.0.1::{port}" if isinstance(port, int) else f"127.0.0.1:{port}"]
        for path, source in (files or {}).items():
            call += ["--volume", f"{source}:{path}"]
        if entrypoint:
            call += ["--entrypoint", json.dumps(list(entrypoint))]
        self.started_s = time.monotonic()
        podman(*call, image, *command)
        if ready is not None:
            self.wait_for_log(ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        podman("rm", "--force", "--volumes", "--time", "0", self.name, check=False)

    def logs(self) -> str:
        """What it printed, on stdout and stderr."""
        return logs(self.name)

    def wait_for_log(self, pattern: str) -> str:
        """Wait until its output has the pattern."""
        deadline = time.monotonic() + TIMEOUT_S
        while re.search(pattern, text := self.logs()) is None:
            assert time.monotonic() < deadline, f"no {pattern!r} in time in:\n{text}"
            assert self.state()["Running"], f"{self.name} ended with {self.state()['ExitCode']}:\n{text}"
            time.sleep(0.02)
        return text

    def state(self) -> dict[str, Any]:
        """Running, ExitCode, ..."""
        (found,) = json.loads(podman("inspect", self.name))
        state: dict[str, Any] = found["State"]
        return state

    def inspect(self, form: str) -> str:
        """A field by Go's template."""
        return podman("inspect", "--format", form, self.name).strip()

    def port(self, port: int) -> int:
        """The host's port for one of the container's."""
        return int(podman("port", self.name, f"{port}/tcp").rpartition(":")[2])

    def address(self) -> str:
        """Where the container is in its network."""
        return self.inspect("{{.NetworkSettings.IPAddress}}")

    def run(self, *command: str, check: bool = True, stdin: str | None = None) -> str:
        """Run a command in it."""
        options = ["--interactive"] if stdin is not None else []
        return podman("exec", *options, self.name, *command, check=check, stdin=None if stdin is None else stdin.encode())

    def put(self, path: str, text: str, mode: int = 0o777) -> None:
        """Write a file as root, as Docker's API does when it is given an archive."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(Path(path).name)
            entry.size, entry.mode = len(text.encode()), mode
            tar.addfile(entry, io.BytesIO(text.encode()))
        podman("cp", "-", f"{self.name}:{Path(path).parent}", stdin=archive.getvalue())

    def stop(self, timeout_s: int = 10) -> int:
        """SIGTERM, and SIGKILL behind the time-out; its exit code."""
        podman("stop", "--time", str(timeout_s), self.name)
        return int(self.state()["ExitCode"])
