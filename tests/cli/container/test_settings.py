"""The image's defaults: only where nobody says anything, and never more than was left open."""

from __future__ import annotations

import pytest

from minibroker.cli.container.settings import DATA_DIR, advertised_by_old_names, image_environment
from minibroker.config.broker_config import BrokerConfig

ADDRESS = "10.88.0.7"


def config_of(environment: dict[str, str], from_file: dict[str, str] | None = None, address: str | None = ADDRESS) -> BrokerConfig:
    """What `serve` makes of it; a file's properties are the weakest."""
    added = image_environment(environment, from_file or {}, address)
    return BrokerConfig.load(environment=environment | added) if not from_file else _with_file(environment | added, from_file)


def _with_file(environment: dict[str, str], from_file: dict[str, str]) -> BrokerConfig:
    from minibroker.config import sources

    return BrokerConfig(from_file | sources.from_environment(environment))


def told(config: BrokerConfig) -> list[str]:
    return [str(each) for each in config.advertised_listeners]


def test_the_host_and_other_containers_have_a_listener_each() -> None:
    config = config_of({})
    assert [(each.name, each.port) for each in config.listeners] == [("PLAINTEXT", 9092), ("DOCKER", 19092)]
    assert told(config) == ["PLAINTEXT://localhost:9092", f"DOCKER://{ADDRESS}:19092"]
    assert config.log_dirs == (DATA_DIR,)


def test_without_a_network_there_is_the_ordinary_listener() -> None:
    assert [str(each) for each in config_of({}, address=None).listeners] == ["PLAINTEXT://:9092"]


@pytest.mark.parametrize("name", ["KAFKA_LISTENERS", "KAFKA_CFG_LISTENERS"])
def test_nothing_is_added_to_listeners_that_were_given(name: str) -> None:
    config = config_of({name: "PLAINTEXT://:7000", "KAFKA_LOG_DIRS": "/data/a,/data/b"})
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:7000"]
    assert told(config) == []
    assert config.log_dirs == ("/data/a", "/data/b")


def test_listeners_from_the_properties_file() -> None:
    config = config_of({}, {"listeners": "PLAINTEXT://:7000", "log.dir": "/data/file"})
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:7000"]
    assert config.log_dirs == ("/data/file",)


def test_ports_are_derived_from_advertised_listeners() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    }
    config = config_of(environment)
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:29092", "PLAINTEXT_HOST://:9092"]
    assert told(config) == ["PLAINTEXT://broker:29092", "PLAINTEXT_HOST://localhost:9092"]


def test_an_old_host_name_and_port_are_an_advertised_listener() -> None:
    config = config_of({"KAFKA_ADVERTISED_HOST_NAME": "broker", "KAFKA_ADVERTISED_PORT": "7000"})
    assert told(config) == ["PLAINTEXT://broker:7000"]
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:7000"]
    newer = {"KAFKA_ADVERTISED_HOST_NAME": "broker", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://newer:7001"}
    assert told(config_of(newer)) == ["PLAINTEXT://newer:7001"]
    assert advertised_by_old_names(newer, {}) is None
    assert advertised_by_old_names({"KAFKA_ADVERTISED_HOST_NAME": "broker"}, {}) == "PLAINTEXT://broker:9092"
    assert advertised_by_old_names({"KAFKA_ADVERTISED_PORT": "7000"}, {}) is None


def test_empty_items_of_lists_are_dropped() -> None:
    config = config_of({"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:40000,"})
    assert told(config) == ["PLAINTEXT://localhost:40000"]
