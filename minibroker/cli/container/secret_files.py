"""Variables that name files in /etc/kafka/secrets, as those of Apache Kafka's and Confluent's images.

    KAFKA_SSL_KEYSTORE_FILENAME       a key store                             ssl.keystore.location
    KAFKA_SSL_KEYSTORE_CREDENTIALS    a file whose content is a password      ssl.keystore.password
    KAFKA_SSL_KEY_CREDENTIALS         the same                                ssl.key.password
    KAFKA_SSL_TRUSTSTORE_FILENAME     a trust store                           ssl.truststore.location
    KAFKA_SSL_TRUSTSTORE_CREDENTIALS  a file whose content is a password      ssl.truststore.password

Apache Kafka's image reads them only if a listener of KAFKA_ADVERTISED_LISTENERS is called SSL or SASL_SSL. It then demands the first three,
and the others if clients may show certificates. Here each variable has its effect, and the broker says which property is missing.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from minibroker.errors import ConfigurationError

SECRETS_DIR: Final = "/etc/kafka/secrets"
_FILES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "KAFKA_SSL_KEYSTORE_LOCATION",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "KAFKA_SSL_TRUSTSTORE_LOCATION",
}
_PASSWORDS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "KAFKA_SSL_KEYSTORE_PASSWORD",
    "KAFKA_SSL_KEY_CREDENTIALS": "KAFKA_SSL_KEY_PASSWORD",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "KAFKA_SSL_TRUSTSTORE_PASSWORD",
}
_PASSWORD_MAX: Final = 64 * 1024  #: bytes; a key store that is named by mistake is not read whole


def take_secret_files(environment: MutableMapping[str, str], folder: str) -> None:
    """Replace the variables by those of the properties that they stand for.

    Raises:
        ConfigurationError: a file does not exist, cannot be read, or is not a text.
    """
    for names in (_FILES, _PASSWORDS):
        for name, target in names.items():
            file_name = environment.pop(name, "")
            if not file_name:
                continue
            path = Path(f"{folder}/{file_name}")  # also for a name that begins with /, as in a shell script
            if not path.exists():
                raise ConfigurationError(f"{name}: {path} file does not exist")
            environment[target] = str(path) if names is _FILES else _password(name, path)


def _password(name: str, path: Path) -> str:
    """Return the text of a file without the line ends after it."""
    try:
        with path.open("rb") as file:
            data = file.read(_PASSWORD_MAX + 1)
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name}: {path} is not a text file with a password") from None
    if len(data) > _PASSWORD_MAX or "\0" in text:
        raise ConfigurationError(f"{name}: {path} is not a text file with a password")
    return text
