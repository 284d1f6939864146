"""The principal of a client certificate: its distinguished name as Java spells it, changed by `ssl.principal.mapping.rules`.

The name is that of X500Principal.getName() (RFC 2253): the last part first, nine keywords, other types as `OID=#DER`.
Rules are those of SslPrincipalMapper: `DEFAULT` or `RULE:pattern/replacement/[LU]`. The first whose pattern matches the whole name applies.
Patterns are matched by RE2, which has no look-ahead and no back-references in patterns.
"""

from __future__ import annotations

import re
from typing import Any, Final

from minibroker.config.definition import refuse
from minibroker.security import needs_extra
from minibroker.security.der import content, items

_KEYWORDS: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_ESCAPED: Final = frozenset(',+"\\<>;#=')
#: encodings of the strings that Java shows as text, by their tags: UTF8, Printable, T61, IA5, General, Universal, BMP
_ENCODINGS: Final = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 27: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_DN_MAX: Final = 4_096  #: bytes of a name that is matched with rules

_NAME: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_GROUP: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoPrincipal(Exception):  # noqa: N818  what happened
    """No rule matches the name of a certificate."""


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a DER certificate as Java's X500Principal.getName() spells it.

    Raises:
        ConfigurationError: `cryptography` is not installed.
    """
    try:
        from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415  optional
    except ImportError:
        raise needs_extra("the name of a client certificate") from None
    return name_of_der(load_der_x509_certificate(certificate).subject.public_bytes())


def name_of_der(der: bytes) -> str:
    """Return the text of a DER Name: SEQUENCE OF SET OF SEQUENCE { OID, value }."""
    parts = []
    for part in items(content(der)):
        pairs = []
        for pair in items(content(part)):
            oid, value = items(content(pair))
            pairs.append(_pair(_dotted(content(oid)), value))
        parts.append("+".join(pairs))
    return ",".join(reversed(parts))


def _pair(oid: str, value: bytes) -> str:
    if oid not in _KEYWORDS or value[0] not in _ENCODINGS:
        return f"{_KEYWORDS.get(oid, oid)}=#{value.hex()}"
    letters = list(content(value).decode(_ENCODINGS[value[0]], "replace"))
    lead = next((place for place, letter in enumerate(letters) if letter not in " \r"), len(letters))
    trail = next((place for place in range(len(letters) - 1, -1, -1) if letters[place] not in " \r"), -1)
    shown = []
    for place, letter in enumerate(letters):
        if letter == "\0":
            shown.append("\\00")
        else:
            shown.append(f"\\{letter}" if letter in _ESCAPED or not lead <= place <= trail else letter)
    return f"{_KEYWORDS[oid]}={''.join(shown)}"


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


class MappingRules:
    """The rules of a listener, compiled."""

    def __init__(self, text: str, name: str = _NAME) -> None:
        """Parse rules. Raise InvalidConfig, which names the property `name`, for an invalid one."""
        self._rules: list[tuple[Any, str, str] | None] = []  # None: DEFAULT
        for found in _SPLITTER.finditer(text.strip()):
            rule = found[1]
            parsed = _PARSER.match(rule)
            if parsed is None or parsed.end() != len(rule):
                end = 0 if parsed is None else parsed.end()
                refuse(name, text, f"Invalid rule: `{rule}`, unmatched substring: `{rule[end:]}`")
            if parsed[1] is not None:
                self._rules.append(None)
            elif parsed[2] is not None:
                self._rules.append((_compiled(parsed[2], name, text), parsed[3], parsed[4]))

    def principal(self, distinguished_name: str) -> str:
        """Return the name of the principal. Raise NoPrincipal if no rule matches."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            pattern, replacement, case = rule
            if len(distinguished_name) <= _DN_MAX and pattern.fullmatch(distinguished_name):
                result = "".join(_replaced(pattern, replacement, distinguished_name))
                return result.lower() if case == "L" else result.upper() if case == "U" else result
        raise NoPrincipal(f"No rules apply to {distinguished_name}")


def _compiled(pattern: str, name: str, text: str) -> Any:
    import re2  # noqa: PLC0415  most listeners have no rules

    try:
        return re2.compile(pattern)
    except re2.error as error:
        refuse(name, text, f"the pattern {pattern!r} is not a regular expression of RE2: {error}")


def _replaced(pattern: Any, replacement: str, text: str) -> list[str]:
    """Replace all matches, as String.replaceAll does: a pattern such as `.*` also matches the empty end."""
    pieces, position, last = [], 0, 0
    while position <= len(text):
        found = pattern.search(text, position)
        if found is None:
            break
        pieces += [text[last : found.start()], _GROUP.sub(lambda part, found=found: _part(part, found), replacement)]  # type: ignore[misc]
        last = found.end()
        position = last + (1 if found.end() == found.start() else 0)
    return [*pieces, text[last:]]


def _part(part: re.Match[str], found: Any) -> str:
    r"""Return the text for `\c` or `$n` of a replacement. A number without a group stands for itself."""
    if part[1] is not None:
        return part[1]
    digits = part[2]
    for size in range(len(digits), 0, -1):  # Java takes as many digits as make the number of a group
        if int(digits[:size]) <= found.re.groups:
            return f"{found[int(digits[:size])] or ''}{digits[size:]}"
    return part[0]
