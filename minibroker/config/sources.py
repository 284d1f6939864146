"""Read properties from a .properties file, the environment, and `--set name=value`; each overrides the one before it.

Environment (as Kafka's container images do it): KAFKA_A_B means a.b, `__` means `_`, `___` means `-`; KAFKA_CFG_A_B means the same;
CLUSTER_ID means cluster.id. Variables for the JVM or the image are not properties, nor those that Kubernetes sets for a service.

Each value is a `Setting`, which has its origin: a line of the file, a variable, an option. Errors name it.
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

#: set by Kubernetes and Docker links for a service or a container of the name `kafka`
_OF_LINKS = re.compile(r"KAFKA_(SERVICE_(HOST|PORT)(_.*)?|PORT_\d+_(TCP|UDP)(_.*)?)")

_SHELL_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_JAAS_OPTION = "-Djava.security.auth.login.config="


class Setting(str):
    """The text of a property, and its origin, for example `server.properties, line 3`; empty if that is unknown."""

    __slots__ = ("origin",)

    origin: str

    def __new__(cls, text: str, origin: str = "") -> Self:
        """Create a setting. The origin is optional, because copies of texts lose it."""
        setting = super().__new__(cls, text)
        setting.origin = origin
        return setting


def with_origins(message: str, given: Mapping[str, str]) -> str:
    """Add the origins of the properties that a message names."""
    places = []
    for name, text in given.items():
        origin = getattr(text, "origin", "")
        if origin and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w-]|\.\w)", message):
            places.append(f"{name} was set by {origin}")
    return f"{message.removesuffix('.')}. {', '.join(places)}" if places else message


def from_file(path: Path) -> dict[str, str]:
    """Read a Java .properties file. Raise ConfigurationError if it cannot be read."""
    import javaproperties  # noqa: PLC0415  a start without a file does not need it

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
    """Return the properties of the environment. KAFKA_A_B overrides KAFKA_CFG_A_B. Of KAFKA_OPTS, only the JAAS file is one."""
    options = [re.sub("[\"']", "", word) for word in _SHELL_WORD.findall(environment.get("KAFKA_OPTS", ""))]
    jaas_files = [each.removeprefix(_JAAS_OPTION).removeprefix("=") for each in options if each.startswith(_JAAS_OPTION)]
    of_java: dict[str, str] = {_JAAS_OPTION[2:-1]: Setting(each, "environment variable KAFKA_OPTS") for each in jaas_files}
    return of_java | {
        name: Setting(environment[variable], f"environment variable {variable}") for name, variable in variables(environment).items()
    }


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable that sets each property: {"log.dirs": "KAFKA_LOG_DIRS"}."""
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
    """Convert `LOG_DIRS` to `log.dirs`, `A__B` to `a_b`, `A___B` to `a-b`."""
    separators = {1: ".", 2: "_", 3: "-"}
    return re.sub("_{1,3}", lambda run: separators[len(run.group())], variable.lower())


def from_arguments(assignments: Iterable[str]) -> dict[str, str]:
    """Return the properties of `--set name=value`. Raise ConfigurationError for one without `=`."""
    found: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"--set {assignment}: write it as name=value, e.g. --set num.partitions=3")
        found[name.strip()] = Setting(value.strip(), f"--set {name.strip()}")
    return found
