"""Where properties come from: a .properties file, the environment, and `--set name=value`; each wins over the one before it.

Environment (as Kafka's container images do it): KAFKA_A_B means a.b, `__` means `_`, `___` means `-`; KAFKA_CFG_A_B means the same;
CLUSTER_ID means cluster.id. Variables that steer the JVM or the image are not properties, nor those that Kubernetes sets for a service.

Each value is a `Setting`, which remembers its place: a line of the file, a variable, an option. Errors name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self

from minibroker.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "KAFKA_"
LEGACY_PREFIX = "KAFKA_CFG_"
NOT_PROPERTIES = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_PORT",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_HOME",
        "KAFKA_CREATE_TOPICS",
    }
)
NOT_PROPERTY_PREFIXES = ("KAFKA_LOG4J_",)

#: what Kubernetes and Docker's links set beside a service or a container of the name `kafka`
_OF_LINKS = re.compile(r"KAFKA_(SERVICE_(HOST|PORT)(_.*)?|PORT_\d+_(TCP|UDP)(_.*)?)")


class Setting(str):
    """The text of a property, and the place that sets it, e.g. `server.properties, line 3`; empty where that is not known."""

    __slots__ = ("origin",)

    origin: str

    def __new__(cls, text: str, origin: str = "") -> Self:
        """A text; without an origin, for what copies texts."""
        setting = super().__new__(cls, text)
        setting.origin = origin
        return setting


def with_origins(message: str, given: Mapping[str, str]) -> str:
    """A message about bad properties, with the places where those that it names are to be changed."""
    places = []
    for name, text in given.items():
        origin = getattr(text, "origin", "")
        if origin and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w-]|\.\w)", message):
            places.append(f"{name} in {origin}")
    return f"{message.removesuffix('.')}. Change {' or '.join(places)}" if places else message


def from_file(path: Path) -> dict[str, str]:
    """Properties of a Java .properties file; raises ConfigurationError when it cannot be read."""
    import javaproperties  # noqa: PLC0415  start-up without a file must not pay for it

    found: dict[str, str] = {}
    line = 1
    try:
        with path.open("rb") as file:
            for item in javaproperties.parse(file):
                if isinstance(item, javaproperties.KeyValue):
                    found[item.key] = Setting(item.value, f"{path}, line {line}")
                line += len(item.source.splitlines())
            return found
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"config file {path}: {reason}") from error


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Properties of the environment; KAFKA_A_B wins over KAFKA_CFG_A_B."""
    return {name: Setting(environment[variable], f"environment variable {variable}") for name, variable in variables(environment).items()}


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Which variable of the environment says which property: {"log.dirs": "KAFKA_LOG_DIRS"}."""
    legacy: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in NOT_PROPERTIES or name.startswith(NOT_PROPERTY_PREFIXES):
            continue
        if _OF_LINKS.fullmatch(name) or (name == "KAFKA_PORT" and "://" in value):
            continue
        if name.startswith(LEGACY_PREFIX):
            legacy[property_name(name.removeprefix(LEGACY_PREFIX))] = name
        else:
            found[property_name(name.removeprefix(PREFIX))] = name
    if environment.get("CLUSTER_ID"):
        legacy.setdefault("cluster.id", "CLUSTER_ID")
    return legacy | found


def property_name(variable: str) -> str:
    """`LOG_DIRS` -> `log.dirs`, `A__B` -> `a_b`, `A___B` -> `a-b`."""
    separators = {1: ".", 2: "_", 3: "-"}
    return re.sub("_{1,3}", lambda run: separators[len(run.group())], variable.lower())


def from_arguments(assignments: Iterable[str]) -> dict[str, str]:
    """Properties of `--set name=value`; raises ConfigurationError for one without `=`."""
    found: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"--set {assignment}: write it as name=value, e.g. --set num.partitions=3")
        found[name.strip()] = Setting(value.strip(), f"--set {name.strip()}")
    return found
