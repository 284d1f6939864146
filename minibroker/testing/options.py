"""Options of a broker under test: one set of keyword arguments for all its forms.

Errors of such a broker, in one line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from minibroker.config import sources
from minibroker.config.listeners import NODES_MAX
from minibroker.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from minibroker.registry.schema_files import Schemas
    from minibroker.testing.access import Access


class BrokerError(Exception):
    """The broker did not start, is not running, or did not react in time.

    Kafka's own errors are KafkaError.
    """


class Unsupported(BrokerError):  # noqa: N818  named for what happened
    """Only minibroker can do it, and this is another cluster (`--minibroker-bootstrap`)."""


@contextmanager
def one_line_error(what: str) -> Iterator[None]:
    """Raise errors of Kafka, of the configuration and of the file system as a BrokerError of one line that starts with `what`."""
    try:
        yield
    except KafkaError as error:
        text = str(error)
        raise BrokerError(f"{what}: {type(error).name}{f': {text}' if text else ''}") from error
    except (ConfigurationError, OSError) as error:  # data that cannot be emptied, copied or opened
        raise BrokerError(f"{what}: {error}") from error


HOST: Final = "127.0.0.1"  #: not "localhost", which some clients resolve to ::1 first


class DataDir(Enum):
    """Where the data are, if not in a folder of the test."""

    MEMORY = "memory"  #: in the memory of the broker's process
    TEMPORARY = "temporary"  #: in a temporary folder, which is removed at the end


MEMORY: Final = DataDir.MEMORY
TEMPORARY: Final = DataDir.TEMPORARY

Setting = str | int | float | bool

#: Differences from Kafka's defaults: internal topics of 50 partitions are for clusters.
TEST_CONFIG: Final = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "minibroker.telemetry.interval.ms": "1000",
}


class BrokerOptions:
    """Checked arguments of a broker under test; `BrokerThread` documents them."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | Iterable[str] = (),
        config: Mapping[str, Setting] | None = None,
        data_dir: DataDir | str | os.PathLike[str] = MEMORY,
        port: int = 0,
        brokers: int = 1,
        racks: Iterable[str] = (),
        like_kafka: bool = False,
        users: Mapping[str, str] | None = None,
        super_users: Iterable[str] = (),
        acls: Iterable[str] = (),
        tls: bool = False,
        mtls: bool = False,
        schemas: Schemas | str | os.PathLike[str] | None = None,
        ports: Iterable[int] = (),
    ) -> None:
        """`ports`: of all brokers, if they are known from an earlier start."""
        if isinstance(topics, str):
            raise BrokerError(f"topics must not be a string: use topics=[{topics!r}], or topics={{{topics!r}: 3}} for 3 partitions")
        self.topics: dict[str, int] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self.schemas = [] if schemas is None else schemas_of(schemas)
        self.data_dir = data_dir if isinstance(data_dir, DataDir) else os.path.abspath(os.fspath(data_dir))  # noqa: PTH100  a text for storage
        self.brokers = brokers
        self.racks = [*racks]
        self.ports = [*ports] or [port + number if port else 0 for number in range(brokers)]  #: of each broker; 0: a free one
        if not 1 <= brokers <= NODES_MAX:
            raise BrokerError(f"brokers must be from 1 to {NODES_MAX}, got {brokers}")
        if isinstance(racks, str):
            raise BrokerError(f"racks must not be a string: use racks=[{racks!r}, ...]")
        defaults = {"minibroker.like.kafka": "true"} if like_kafka else TEST_CONFIG
        self.config: dict[str, str] = defaults | {
            name: sources.Setting(text_of(value), "config=") for name, value in (config or {}).items()
        }
        rules = [*super_users], [*acls]
        self.access: Access | None = None  #: None: every client may do everything without a login
        if users or tls or mtls or any(rules):
            self.access = _access_of(users or {}, *rules, {"is_mutual": mtls} if tls or mtls else None)
            self.config |= self.access.broker_properties()
        for name in ("log.dirs", "log.dir", "metadata.log.dir"):
            if name in self.config:
                raise BrokerError(f"config: use data_dir={self.config[name]!r} in place of {name}")
        if config:
            _warn_of_unknown(self.config, "PLAINTEXT" if self.access is None else self.access.protocol)


def schemas_of(source: Schemas | str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the schemas of a folder, or of files by subject, as the fields of SchemaFile. Raises BrokerError."""
    from minibroker.registry.schema_files import read_schema_files  # noqa: PLC0415  most tests have no schemas

    try:
        return [each._asdict() for each in read_schema_files(source)]
    except ConfigurationError as error:
        raise BrokerError(str(error)) from None


def _access_of(
    users: Mapping[str, str], super_users: list[str], acls: list[str], tls: Mapping[str, Any] | None = None, kit_password: str = ""
) -> Access:
    """`tls` has `is_mutual`, and the authority if another process made it."""
    from minibroker.testing.access import Access  # noqa: PLC0415  most tests have no users

    try:
        if tls is None:
            return Access(users, super_users, acls, None, kit_password)
        from minibroker.testing.certificates import Certificates  # noqa: PLC0415  needs the package cryptography

        certificates = Certificates(tls if "key" in tls else None, is_mutual=tls["is_mutual"])
        return Access(users, super_users, acls, certificates, kit_password)
    except ConfigurationError as error:
        raise BrokerError(str(error)) from None


def _warn_of_unknown(config: Mapping[str, str], protocol: str) -> None:
    """Warn of misspelled properties: the broker only logs them, and pytest shows no log of a test that passes."""
    from minibroker.config.broker_properties import BROKER_PROPERTIES  # noqa: PLC0415  most tests have no config
    from minibroker.config.kafka_only import warnings_of  # noqa: PLC0415  as above

    unknown = {name: value for name, value in config.items() if name not in BROKER_PROPERTIES}
    for line in warnings_of(unknown, listeners={protocol.lower(): protocol}):
        warnings.warn(f"config: {line}", stacklevel=4)  # the line that creates the broker


def text_of(value: Setting) -> str:
    """Return a property's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def topic_config(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return keyword arguments as properties of a topic: cleanup_policy="compact" means cleanup.policy=compact."""
    return {name.replace("_", "."): text_of(value) for name, value in settings.items()}


def options_to_json(options: BrokerOptions) -> dict[str, Any]:
    """Encode options for the process of the broker (child.py)."""
    data_dir = options.data_dir.value if isinstance(options.data_dir, DataDir) else None
    return {
        "topics": options.topics,
        "config": options.config,
        "brokers": options.brokers,
        "racks": options.racks,
        "ports": options.ports,
        "data_dir": data_dir,
        "folder": None if data_dir else options.data_dir,
        "access": None if options.access is None else options.access.to_json(),
        "schemas": options.schemas,
    }


def options_from_json(encoded: dict[str, Any]) -> BrokerOptions:
    """Decode what `options_to_json` encoded."""
    options = BrokerOptions(
        topics=encoded["topics"],
        brokers=encoded["brokers"],
        racks=encoded["racks"],
        ports=encoded["ports"],
        data_dir=DataDir(encoded["data_dir"]) if encoded["data_dir"] else encoded["folder"],
    )
    options.config = encoded["config"]  # already checked
    options.schemas = encoded["schemas"]
    if encoded["access"] is not None:
        options.access = _access_of(**encoded["access"])  # the certificates of the broker are in the configuration
    return options
