"""An error about a property names the place that sets it: line of the file, variable, option, or the test kit's `config=`."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.sources import Setting, from_arguments, from_environment, from_file, with_origins
from minibroker.errors import ConfigurationError
from minibroker.testing.options import BrokerOptions


def problem(**sources: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        BrokerConfig.load(**sources)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_errors_contain_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\r\n\nbroker.rack=a\\\n  b\\\n  c\nnum.partitions = many\n")
    assert problem(file=file) == (
        "Invalid value many for configuration num.partitions: Not a number of type INT (default: 1). "
        f"num.partitions was set by {file}, line 6"
    )
    file.write_text("num.partitions=1\nnum.partitions=0\n")  # the last one counts
    assert problem(file=file).endswith(f"(default: 1). num.partitions was set by {file}, line 2")


def test_error_names_the_effective_source(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=x\n")
    environment = {"KAFKA_NUM_PARTITIONS": "y"}
    assert problem(file=file, environment=environment).endswith("num.partitions was set by environment variable KAFKA_NUM_PARTITIONS")
    assert problem(file=file, environment=environment, assignments=["num.partitions=z"]).endswith(
        "num.partitions was set by --set num.partitions"
    )
    assert problem(environment={"KAFKA_CFG_NUM_PARTITIONS": "y"}).endswith("environment variable KAFKA_CFG_NUM_PARTITIONS")


@pytest.mark.parametrize(
    ("assignments", "line", "named"),
    [
        (["node.id=1", "broker.id=2"], "node.id=1 and broker.id=2 differ: give one of them", ["node.id", "broker.id"]),
        (["log.dirs=a,,b", "log.dir=c"], "log.dirs: 'a,,b' has an empty or a doubled directory", ["log.dirs"]),
        (
            ["log.retention.hours=0"],
            "log.retention.hours: 0 is not a time: use -1 to keep everything, or 1 or more",
            ["log.retention.hours"],
        ),
        (
            ["group.consumer.assignors=range,range"],
            "Configuration 'group.consumer.assignors' values must not be duplicated",
            ["group.consumer.assignors"],
        ),
    ],
)
def test_errors_about_several_properties_name_each_source(assignments: list[str], line: str, named: list[str]) -> None:
    assert problem(assignments=assignments) == f"{line}. {', '.join(f'{name} was set by --set {name}' for name in named)}"


def test_errors_of_the_test_kit_have_no_source() -> None:
    with pytest.raises(ConfigurationError, match=r"\(default: 1\)\. num\.partitions was set by config=$"):
        BrokerConfig(BrokerOptions(config={"num.partitions": "many"}).config)


def test_error_without_a_known_source_is_unchanged() -> None:
    assert with_origins("num.partitions: bad.", {"num.partitions": "x"}) == "num.partitions: bad."
    assert with_origins("num.partitions: bad", {"num.partition": Setting("x", "there")}) == "num.partitions: bad"


def test_setting_is_a_str(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("a=1")
    for found in (from_file(file), from_environment({"KAFKA_A": "1"}), from_arguments(["a=1"])):
        assert found == {"a": "1"}
        copy = pickle.loads(pickle.dumps(found["a"]))  # noqa: S301  our own
        assert (copy, copy.origin) == ("1", found["a"].origin)  # type: ignore[attr-defined]
