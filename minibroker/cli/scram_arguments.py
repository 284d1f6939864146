"""Parse the SCRAM users of `kafka-storage format --add-scram`.

    SCRAM-SHA-256=[name=alice,password=secret]
    SCRAM-SHA-512=[name="alice",iterations=8192,salt="BASE64",saltedpassword="BASE64"]

Quotes are optional. A password wins over a salted password. Source: ScramParser of Apache Kafka.
"""

from __future__ import annotations

import base64
import binascii

from minibroker.cluster.metadata.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramUpsertion
from minibroker.errors import ConfigurationError
from minibroker.security.scram import NUMBERS, new_salt, salted_password


def parse_scram(text: str) -> ScramUpsertion:
    """Parse one argument. Errors have Kafka's messages and never contain a password.

    Raises:
        ConfigurationError: The text is not of the form above, or an iteration count is out of range.
    """
    mechanism, equals, configuration = text.partition("=")
    if not equals:
        raise ConfigurationError("Failed to find equals sign in SCRAM argument")
    if mechanism not in NUMBERS:
        raise ConfigurationError(f"The add-scram mechanism {mechanism} is not supported.")
    parts = _parts(configuration.strip())
    name = parts.pop("name", None)
    if name is None:
        raise ConfigurationError("You must supply 'name' to add-scram")
    salt = _decoded(parts.pop("salt", None), "salt")
    iterations = _iterations(parts.pop("iterations", None), mechanism)
    password, salted = parts.pop("password", None), _decoded(parts.pop("saltedpassword", None), "saltedpassword")
    if parts:
        raise ConfigurationError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    if password is not None:
        salt = salt or new_salt()
        salted = salted_password(mechanism, password.encode(), salt, iterations)
    elif salted is None:
        raise ConfigurationError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt is None:
        raise ConfigurationError("You must supply 'salt' with 'saltedpassword' to add-scram")
    return ScramUpsertion(name, NUMBERS[mechanism], iterations, salt, salted)


def _parts(configuration: str) -> dict[str, str]:
    if not configuration.startswith("["):
        raise ConfigurationError("Expected configuration string to start with [")
    if not configuration.endswith("]"):
        raise ConfigurationError("Expected configuration string to end with ]")
    parts = {}
    for part in configuration[1:-1].split(","):
        key, equals, value = part.strip().partition("=")
        if not equals:
            raise ConfigurationError("No equals sign found in a SCRAM component; a password cannot contain a comma")
        value = value.strip()
        parts[key.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return parts


def _iterations(text: str | None, mechanism: str) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigurationError(f"Failed to parse iterations count: {text}")
    name = mechanism.replace("-", "_")
    if int(text) < ITERATIONS_MIN:
        raise ConfigurationError(f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {name}")
    if int(text) > ITERATIONS_MAX:
        raise ConfigurationError(f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {name}")
    return int(text)


def _decoded(text: str | None, name: str) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(f"Failed to decode given {name}") from None
