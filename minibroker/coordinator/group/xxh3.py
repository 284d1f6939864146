"""XXH3 with 64 bits, seed 0: the hash that Apache Kafka's coordinators keep of the topics of a group.

    size of the data    how it is hashed
    0 ... 16            mixed as a whole, with parts of the secret that depend on the size
    17 ... 240          in pairs of 8 bytes, from both ends, each with another part of the secret
    241 ...             in stripes of 64 bytes, 8 lanes wide; the lanes are scrambled after each 1024 bytes

All numbers are little-endian and wrap at 64 bits. Source: the specification of XXH3 in xxHash 0.8.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 2**64 - 1
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE_SIZE: Final = 64
_STRIPES_A_BLOCK: Final = 16
_LANES: Final = (_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1)


def xxh3_64(data: bytes) -> int:
    """The hash, without a sign."""
    size = len(data)
    if size > 240:
        return _of_stripes(data)
    if size > 128:
        return _of_many_pairs(data)
    if size > 16:
        return _of_few_pairs(data)
    if size > 8:
        return _of_9_to_16(data)
    if size > 3:
        return _of_4_to_8(data)
    return _of_1_to_3(data) if size else _avalanche_64(_secret(56) ^ _secret(64))


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")


def _half(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")


def _secret(position: int) -> int:
    return _word(_SECRET, position)


def _folded(left: int, right: int) -> int:
    """Both halves of a product of 128 bits as one."""
    product = left * right
    return (product ^ product >> 64) & _MASK


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    """That of XXH64."""
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _of_1_to_3(data: bytes) -> int:
    size = len(data)
    combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
    return _avalanche_64(combined ^ _half(_SECRET, 0) ^ _half(_SECRET, 4))


def _of_4_to_8(data: bytes) -> int:
    size = len(data)
    value = _half(data, size - 4) + (_half(data, 0) << 32) ^ _secret(8) ^ _secret(16)
    value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
    value = value * _PRIME_MX2 & _MASK
    value ^= (value >> 35) + size
    value = value * _PRIME_MX2 & _MASK
    return value ^ value >> 28


def _of_9_to_16(data: bytes) -> int:
    size = len(data)
    low = _word(data, 0) ^ _secret(24) ^ _secret(32)
    high = _word(data, size - 8) ^ _secret(40) ^ _secret(48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche((size + swapped + high + _folded(low, high)) & _MASK)


def _mixed(data: bytes, position: int, secret_position: int) -> int:
    """16 bytes of the data."""
    return _folded(_word(data, position) ^ _secret(secret_position), _word(data, position + 8) ^ _secret(secret_position + 8))


def _of_few_pairs(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    for index in range((size - 1) // 32 + 1):
        total += _mixed(data, 16 * index, 32 * index) + _mixed(data, size - 16 * (index + 1), 32 * index + 16)
    return _avalanche(total & _MASK)


def _of_many_pairs(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1 + sum(_mixed(data, 16 * index, 16 * index) for index in range(8))
    total = _avalanche(total & _MASK)
    total += sum(_mixed(data, 16 * index, 16 * (index - 8) + 3) for index in range(8, size // 16))
    total += _mixed(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _of_stripes(data: bytes) -> int:
    size = len(data)
    lanes = list(_LANES)
    stripe_count = (size - 1) // _STRIPE_SIZE  # without the last 64 bytes, which may be of the stripe before, too
    for stripe in range(stripe_count):
        _accumulate(lanes, data, _STRIPE_SIZE * stripe, 8 * (stripe % _STRIPES_A_BLOCK))
        if stripe % _STRIPES_A_BLOCK == _STRIPES_A_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, size - _STRIPE_SIZE, len(_SECRET) - _STRIPE_SIZE - 7)
    total = size * _PRIME64_1
    for index in range(4):
        total += _folded(lanes[2 * index] ^ _secret(11 + 16 * index), lanes[2 * index + 1] ^ _secret(19 + 16 * index))
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, position: int, secret_position: int) -> None:
    words = struct.unpack_from("<8Q", data, position)
    secrets = struct.unpack_from("<8Q", _SECRET, secret_position)
    for index, (word, secret) in enumerate(zip(words, secrets, strict=True)):
        keyed = word ^ secret
        lanes[index ^ 1] = lanes[index ^ 1] + word & _MASK
        lanes[index] = lanes[index] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    secrets = struct.unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE_SIZE)
    for index, secret in enumerate(secrets):
        lanes[index] = (lanes[index] ^ lanes[index] >> 47 ^ secret) * _PRIME32_1 & _MASK
