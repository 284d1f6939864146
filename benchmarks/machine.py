"""What a run was made on and of: the machine, the commit, the versions of the brokers."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from interpreters import interpreter
from other_peers import KFAKE
from peers import KAFKA_VERSION, Peer
from reporting.results import About


def now(about: About, kinds: Mapping[str, type[Peer]]) -> About:
    """Return `about` with the present facts added; a run that continues with another machine or commit lists both."""
    commits = [*filter(None, about.commit.split(", ")), commit()]
    return replace(about, commit=", ".join(dict.fromkeys(commits)), machine=about.machine or machine(), versions=versions(kinds))


def commit() -> str:
    """Return the commit of this clone, with `+` if files differ from it."""
    head = _said("git", "rev-parse", "--short", "HEAD")
    changed = _said("git", "status", "--porcelain", "--untracked-files=no", "--", "minibroker")
    return f"{head}{'+' if changed else ''}" if head else "unknown"


def machine() -> dict[str, str]:
    """Describe this machine for a reader."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "Python": interpreter().build.removeprefix("CPython "),
        "Java": java() or "none",
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return re.sub(r"\s+", " ", found[1]).strip() if found else platform.processor() or platform.machine()


def java() -> str:
    """Return the version of an installed package, or ""."""
    found = re.search(r'version "([^"]+)"', _said("java", "-version"))
    return found[1] if found else ""


def versions(kinds: Mapping[str, type[Peer]]) -> dict[str, str]:
    """Return the version of each broker by key."""
    return {key: _version(key) for key in kinds}


def _version(key: str) -> str:
    if key == "kafka":
        return KAFKA_VERSION
    if key.startswith("kfake"):
        return next(line.split()[-1] for line in (KFAKE / "go.mod").read_text().splitlines() if "pkg/kfake " in line)
    if key == "mock":
        from confluent_kafka import libversion  # noqa: PLC0415  only where it is measured

        return f"librdkafka {libversion()[0]}"
    if key == "tansu":
        return _said("tansu", "--version").removeprefix("tansu ")
    return commit()


def _said(*command: str) -> str:
    """Return what a program prints on both outputs, or "" if it is not installed."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return (done.stdout + done.stderr).strip() if not done.returncode else ""
