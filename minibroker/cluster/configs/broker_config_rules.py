"""Which changes of a broker's configs Kafka takes, with its checks and messages (DynamicBrokerConfig, DynamicThreadPool of 4.3.1).

Names that Kafka does not know are taken and stored, for plugins. So are configs that have no effect here, such as those of TLS and SASL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minibroker.cluster.metadata.metadata_image import ALL_BROKERS
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.kafka_table import ONLY_OF_A_LISTENER, check_value, is_fixed, is_per_broker, property_of
from minibroker.errors import InvalidConfig

_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
_CLEANER_THREADS = "log.cleaner.threads"
_REPORTERS = "metric.reporters"
_CORDONED = "cordoned.log.dirs"


def check_changes(config: BrokerConfig, broker: str, values: Mapping[str, str]) -> None:
    """Check the configs that are set for a broker (its id) or for all brokers ("").

    Raises:
        InvalidConfig: one of them is fixed, has a bad value, or cannot be set for all brokers.
    """
    _refuse("Cannot update these configs dynamically", [name for name in values if is_fixed(name)])
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in values if name in ONLY_OF_A_LISTENER],
    )
    for name, text in values.items():
        check_value(name, text)
    if broker == ALL_BROKERS:
        _refuse("Cannot update these configs at default cluster level, broker id must be specified", filter(is_per_broker, values))
    if _CORDONED in values:
        _check_cordoned(config, values[_CORDONED])
    if _REPORTERS in values and values[_REPORTERS].strip() not in {"", property_of(_REPORTERS).default}:
        _refuse_dynamic(
            f"Validation of dynamic config update of Set({_REPORTERS}) failed with class class kafka.server.DynamicMetricsReporters"
        )


def thread_counts(config: BrokerConfig) -> dict[str, int]:
    """The numbers of threads in force, before a change."""
    counts = {name: config.value(name) for name in (*_THREADS, _CLEANER_THREADS)}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def check_thread_counts(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Check that no number of threads is more than doubled or halved at one time.

    Raises:
        InvalidConfig: one of them is.
    """
    for name, count in after.items():
        current = before[name]
        if name == _CLEANER_THREADS and count < 1:
            _refuse_dynamic("Log cleaner threads should be at least 1")
        if current // 2 <= count <= current * 2:
            continue
        if name == _CLEANER_THREADS:
            way = "increased to more than double" if count > current else "reduced to less than half"
            _refuse_dynamic(f"Log cleaner threads cannot be {way} the current value {current}")
        limit = "should not be greater than double" if count > current else "should be at least half"
        _refuse_dynamic(f"Dynamic thread count update validation failed for {name}={count}, value {limit} the current value {current}")


def _check_cordoned(config: BrokerConfig, text: str) -> None:
    missing = [each for each in (item.strip() for item in text.split(",")) if each and each not in config.log_dirs]
    if missing:
        raise InvalidConfig(
            f"requirement failed: All entries in {_CORDONED} must be present in log.dirs or log.dir. Missing entries : {', '.join(missing)}"
        )


def _refuse(problem: str, names: Sequence[str] | filter[str]) -> None:
    if found := list(names):
        raise InvalidConfig(f"{problem}: [{', '.join(found)}]")


def _refuse_dynamic(problem: str) -> None:
    """In the words of a ConfigException that has another one as its value."""
    exception = f"org.apache.kafka.common.config.ConfigException: {problem}"
    raise InvalidConfig(f"Invalid value {exception} for configuration Invalid dynamic configuration")
