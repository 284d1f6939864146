"""Put certificates in the order that TLS wants: the owner's first, then its issuer, then the issuer of that one.

Files have them in any order. A certificate (X.509) begins with:

    SEQUENCE { SEQUENCE { [0] version (optional)   serial number   algorithm   issuer   validity   subject ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.security.der import content, items

_VERSION: Final = 0xA0  #: tag
_ISSUER, _SUBJECT = 2, 4  #: fields after the version


class _Names(NamedTuple):
    issuer: bytes
    subject: bytes

    @property
    def is_self_issued(self) -> bool:
        return self.issuer == self.subject


def in_order(certificates: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return DER certificates, each once: the owner's, its issuers, then those that are not part of its chain.

    The owner's certificate (leaf) is the first one that issued no other one; self-issued ones come last. Damaged certificates stay where
    they are, for OpenSSL to refuse.
    """
    different = list(dict.fromkeys(certificates))
    try:
        names = {each: _names(each) for each in different}
    except IndexError:
        return tuple(different)
    issuers = {name.issuer for name in names.values() if not name.is_self_issued}
    owners = [each for each in different if names[each].subject not in issuers]
    chain = [next((each for each in owners if not names[each].is_self_issued), (owners or different)[0])]
    in_chain = set(chain)
    by_subject = {names[each].subject: each for each in reversed(different)}
    while not names[chain[-1]].is_self_issued:
        issuer = by_subject.get(names[chain[-1]].issuer)
        if issuer is None or issuer in in_chain:
            break
        chain.append(issuer)
        in_chain.add(issuer)
    return (*chain, *(each for each in different if each not in in_chain))


def _names(certificate: bytes) -> _Names:
    """Return the encoded names of a certificate. Raise IndexError if it is damaged."""
    fields = items(content(items(content(certificate))[0]))
    if fields[0][0] == _VERSION:
        del fields[0]
    return _Names(fields[_ISSUER], fields[_SUBJECT])
