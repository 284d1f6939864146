"""Kafka's own Java tools: their jars, fetched once by Maven into a cache folder of ours, and a way to run them.

The cache is `MINIBROKER_TEST_CACHE`, by default `~/.cache/minibroker-tests`. Tests skip where Java or Maven is missing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

KAFKA_VERSION = "4.3.1"
LOGGING = "org.slf4j:slf4j-simple:1.7.36"
#: A folder of the cache, and what Maven is asked for, for `jars`.
STREAMS = (f"kafka-streams-{KAFKA_VERSION}", f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", LOGGING)
CONNECT = (f"kafka-connect-{KAFKA_VERSION}", *(f"org.apache.kafka:connect-{part}:{KAFKA_VERSION}" for part in ("runtime", "file")), LOGGING)
CLASS_DATA = "classes.jsa"  #: in a folder of jars: what a JVM has made of them, for others to start from (JEP 350)

#: Options of JVMs that live for seconds: a compiler that is soon done, a collector without threads of its own, the JDK's own class data.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
GET_OFFSET_SHELL = "org.apache.kafka.tools.GetOffsetShell"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
LOG_DIRS_COMMAND = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS_COMMAND = "org.apache.kafka.tools.DeleteRecordsCommand"
BROKER_API_VERSIONS_COMMAND = "org.apache.kafka.tools.BrokerApiVersionsCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>minibroker.tests</groupId><artifactId>{name}</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId>
<configuration><outputDirectory>${{project.basedir}}</outputDirectory></configuration></plugin></plugins></build>
</project>
"""
_TOGETHER = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>minibroker.tests</groupId><artifactId>together</artifactId><version>1</version><packaging>pom</packaging>
<modules>{modules}</modules></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def cache_folder() -> Path:
    """Where downloads for tests are kept between runs."""
    return Path(os.environ.get("MINIBROKER_TEST_CACHE", "~/.cache/minibroker-tests")).expanduser()


def require_java() -> None:
    """Skip the calling test where there is no JVM."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed")


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """The folder with Kafka's jars; fetched at the first call, by one process at a time."""
    return jars(f"kafka-{version}", *kafka_coordinates(version))


def kafka_coordinates(version: str = KAFKA_VERSION) -> tuple[str, ...]:
    """What `kafka_jars` asks Maven for."""
    return f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}", LOGGING


def jars(name: str, *coordinates: str) -> Path:
    """The folder `name` of the cache, with the jars of these Maven coordinates (group:artifact:version) and all that they need."""
    require_java()
    fetch({name: coordinates})
    return cache_folder() / name


def fetch(wanted: Mapping[str, Sequence[str]]) -> None:
    """Fill folders of the cache, by name, with the jars of their coordinates: by one Maven those that are missing."""
    folders = {name: cache_folder() / name for name in sorted(wanted) if not _done(cache_folder() / name).exists()}
    if not folders:
        return
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed")
    with ExitStack() as locks:
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
            fcntl.flock(locks.enter_context((folder / ".lock").open("w")), fcntl.LOCK_EX)
        missing = [name for name, folder in folders.items() if not _done(folder).exists()]
        for name in missing:
            dependencies = "\n".join(_DEPENDENCY.format(*each.split(":")) for each in wanted[name])
            (folders[name] / "pom.xml").write_text(_POM.format(name=name, dependencies=dependencies))
        if missing:
            _run_maven(missing)
        for name in missing:
            _done(folders[name]).touch()


def _done(folder: Path) -> Path:
    return folder / ".done"


def _run_maven(names: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=cache_folder()) as together:
        modules = "".join(f"<module>../{name}</module>" for name in names)
        (Path(together) / "pom.xml").write_text(_TOGETHER.format(modules=modules))
        subprocess.run(["mvn", "-B", "-q", "dependency:copy-dependencies"], cwd=together, check=True)


def class_data(jars: Path) -> list[str]:
    """JVM options with which programs of these jars start in half the time, where tests/support/kafka_process.py has kept their classes.

    Their class path must begin with `jars/*`, as it did then.
    """
    archive = jars / CLASS_DATA
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"] if archive.exists() else []


def run_tool(tool: str, *arguments: str, stdin: str = "", timeout_s: float = 150, check: bool = True, with_stderr: bool = False) -> str:
    """Run one of Kafka's Java tools; its standard output, and with `with_stderr` or `check=False` its complaints behind it."""
    command = ["java", "-Xmx256m", *SHORT_LIVED, *class_data(kafka_jars())]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{kafka_jars()}/*", tool, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or not check, f"{tool} {' '.join(arguments)} ended with {done.returncode}:\n{said}"
    return said if with_stderr or not check else done.stdout
