"""The order of certificates: the owner's first, in circles, twice, damaged, and very many."""

from __future__ import annotations

import itertools
import ssl

import pytest

from minibroker.security.certificate_order import in_order
from minibroker.security.certificates import Authority


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([tag, 0x82]) + len(body).to_bytes(2, "big") + body


def certificate(subject: str, issuer: str, version: bytes = der(0xA0, b"\2\1\2")) -> bytes:
    """What `in_order` reads of a certificate."""
    names = [der(0x30, name.encode()) for name in (issuer, subject)]
    return der(0x30, der(0x30, version, der(2, b"\1"), der(0x30), names[0], der(0x30), names[1]), der(0x30), der(3))


LEAF, MIDDLE, ROOT, STRANGER = (certificate(*names) for names in ("lm", "mr", "rr", "ss"))


@pytest.mark.parametrize("given", [*itertools.permutations([LEAF, MIDDLE, ROOT])])
def test_every_order_becomes_the_right_one(given: tuple[bytes, ...]) -> None:
    assert in_order(given) == (LEAF, MIDDLE, ROOT)
    assert in_order([STRANGER, *given, given[0]]) == (LEAF, MIDDLE, ROOT, STRANGER)


def test_certificates_without_a_complete_chain() -> None:
    assert in_order([ROOT]) == (ROOT,)
    assert in_order([ROOT, LEAF]) == (LEAF, ROOT)
    assert in_order([STRANGER, ROOT]) == (STRANGER, ROOT)
    first_version = certificate("l", "m", version=b"")
    assert in_order([MIDDLE, first_version]) == (first_version, MIDDLE)
    circle = [certificate("a", "b"), certificate("b", "a")]
    assert in_order(circle) == tuple(circle)


def test_damaged_certificates_stay_where_they_are() -> None:
    for end in range(len(LEAF)):
        assert set(in_order([MIDDLE, LEAF[:end]])) == {MIDDLE, LEAF[:end]}
    assert in_order([MIDDLE, b"", LEAF]) == (MIDDLE, b"", LEAF)


def test_a_long_chain_costs_little() -> None:
    chain = [certificate(str(number), str(number + 1)) for number in range(20_000)]
    assert in_order(chain[::-1]) == tuple(chain)


def test_real_certificates() -> None:
    authority = Authority.create()
    root, leaf = (ssl.PEM_cert_to_DER_cert(each.certificate_pem) for each in (authority.issued, authority.issue("broker")))
    assert in_order([root, leaf]) == (leaf, root)
