"""Values and their texts, and that reading them costs no import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.config.definition import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING, Property, Value, format_value
from minibroker.errors import InvalidConfig


def prop(kind: int) -> Property:
    return Property(("x", kind, None, None, "a property"), is_dynamic=False)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, " True ", True),
        (INT, "+5", 5),
        (INT, "-" + "0" * 5_000 + "7", -7),
        (LONG, "-9223372036854775808", -(2**63)),
        (DOUBLE, "1e3", 1000.0),
        (LIST, " a , b,c ", ("a", "b", "c")),
        (LIST, " ", ()),
        (STRING, " text ", "text"),
    ],
)
def test_values_are_stripped(kind: int, text: str, value: Value) -> None:
    assert prop(kind).parse(text) == value


@pytest.mark.parametrize("text", ["", "x", "1_0", "nan", "NaN", "inf", "Infinity", ".", "1e", "0x1p3"])
def test_invalid_double(text: str) -> None:
    """What Java does not read either, or what no limit holds."""
    with pytest.raises(InvalidConfig, match="Not a number of type DOUBLE"):
        prop(DOUBLE).parse(text)


@pytest.mark.parametrize("text", ["", "1.0", "0x1", "1_000", "٣", "--1", "2147483648", "-2147483649", "9" * 5_000])
def test_invalid_int(text: str) -> None:
    with pytest.raises(InvalidConfig, match="Not a number of type INT"):
        prop(INT).parse(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integer_round_trip(number: int) -> None:
    assert prop(LONG).parse(format_value(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_round_trip(number: float) -> None:
    assert prop(DOUBLE).parse(format_value(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.5, "0.5"), (1.0, "1.0"), (2147483647.0, "2.147483647E9"), (1.7976931348623157e308, "1.7976931348623157E308"), (1e7, "1.0E7")],
)
def test_doubles_are_formatted_like_java(number: float, text: str) -> None:
    assert format_value(number) == text


def test_configuration_imports_nothing_heavy() -> None:
    # from Python 3.14 on, logging imports some of them itself
    code = "import logging, sys; before = {*sys.modules}; import minibroker.config.broker_config as b; b.BrokerConfig()"
    code += "; print(*({*sys.modules} - before))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    for_users = {f"minibroker.config.{name}" for name in ("reference", "differences", "kafka_only", "kafka_table", "unknown")}
    assert not for_users & set(modules)
    assert not {"javaproperties", "difflib", "yaml", "asyncio", "inspect", "dataclasses", "minibroker.wire"} & set(modules)
