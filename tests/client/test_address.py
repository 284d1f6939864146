"""Bootstrap lists as users write them."""

from __future__ import annotations

import pytest

from minibroker.client.errors import ClientError
from minibroker.client.transport import Address, parse_bootstrap


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [Address("localhost", 9092)]),
        ("a:1, b:2 ,c", [Address("a", 1), Address("b", 2), Address("c", 9092)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
        ("host:", [Address("host", 9092)]),
        ("PLAINTEXT://broker:19092", [Address("broker", 19092)]),
    ],
)
def test_reads(text: str, expected: list[Address]) -> None:
    assert parse_bootstrap(text) == expected


@pytest.mark.parametrize("text", ["", ",", ":9092", "host:port", "host:0", "host:65536", "::1", "[::1", "[::1]9", "a:1:2", "host:-1"])
def test_refuses(text: str) -> None:
    with pytest.raises(ClientError):
        parse_bootstrap(text)


def test_an_address_reads_as_it_is_written() -> None:
    assert [str(address) for address in parse_bootstrap("a:1,[::1]:2")] == ["a:1", "[::1]:2"]
