"""Every message and version against kio and kafka-python, byte for byte in both directions, by both of our codecs.

Who covers what: kio every version of every API and the control records, kafka-python every version of the APIs that it knows, which
are all but those of delegation tokens, of KIP-848, of share and of streams groups; the records of the metadata log and versions that
Kafka 4 dropped are known to neither, `test_kafka_itself.py` holds them against Kafka's own classes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.schemas.codecs import CODECS, Codec
from tests.schemas.declared import Message, messages
from tests.schemas.kafka_itself import read_records
from tests.schemas.peers import KafkaPython, Kio, Peer
from tests.schemas.values import samples
from tests.support.soak import times

KINDS = {"kio": {"request", "response", "data"}, "kafka-python": {"request", "response"}}
#: keys of APIs that a peer knows nothing of
UNKNOWN: dict[str, set[int | None]] = {"kio": set(), "kafka-python": {*range(38, 42), 68, 69, 71, 72, *range(76, 80), *range(83, 93)}}


def known_to(peer: str) -> dict[str, Message]:
    """What a peer is to judge."""
    return {
        name: message
        for name, message in messages().items()
        if message.kafka.kind in KINDS[peer] and message.kafka.key not in UNKNOWN[peer]
    }


CASES = [(peer, name) for peer in KINDS for name in known_to(peer)]

pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")  # kafka-python, when it is imported


@cache
def peer_named(name: str) -> Peer:
    return Kio() if name == "kio" else KafkaPython()


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("peer_name, name", CASES)
def test_peers_encode_and_decode_the_same_bytes(peer_name: str, name: str, codec: Codec) -> None:
    peer, message = peer_named(peer_name), messages()[name]
    for version in message.current_versions:
        for value in samples(message.struct, version, random_ones=times(8, soak=40)):
            check(peer, message, version, value, codec)


def check(peer: Peer, message: Message, version: int, value: Any, codec: Codec) -> None:
    name, flexible = message.kafka.name, message.flexible(version)
    theirs = peer.build(name, version, value)
    data = peer.encode(theirs, name, version)
    assert codec.encode(value, version, flexible).hex() == data.hex(), f"{name} v{version}: {value}"
    assert peer.decode(data, name, version) == theirs, f"{name} v{version}"
    decoded = codec.decode(message.struct, data, version, flexible)
    assert decoded == value, f"{name} v{version}"
    assert codec.encode(decoded, version, flexible) == data


@pytest.mark.parametrize("peer_name", KINDS)
def test_each_peer_knows_every_version_of_its_messages(peer_name: str) -> None:
    peer = peer_named(peer_name)
    every = [(name, version) for name, message in known_to(peer_name).items() for version in message.current_versions]
    assert [case for case in every if not peer.has(*case)] == []
    unknown = [(name, message) for name, message in messages().items() if message.kafka.key in UNKNOWN[peer_name]]
    assert not any(peer.has(name, version) for name, message in unknown for version in message.current_versions)


def test_every_version_of_every_message_has_a_peer() -> None:
    covered = {(sample.message, sample.version) for sample in read_records()}
    covered |= {(name, version) for _, name in CASES for version in messages()[name].current_versions}
    assert {(name, version) for name, message in messages().items() for version in message.versions} == covered
