"""Read what a client needs to know to connect securely, from Java's client properties or librdkafka's.

Java's names are those of Apache Kafka's SslConfigs and SaslConfigs. Names of librdkafka are read where Java has none of that name or
both mean the same (`sasl.username`, `ssl.ca.location`). Properties that do not concern security are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from minibroker.client.security.property_names import check_names
from minibroker.config.secret import Secret
from minibroker.errors import ConfigurationError
from minibroker.security.jaas import OAUTHBEARER_LOGIN_MODULE, JaasEntry, JaasError, parse_property
from minibroker.security.sasl_session import MECHANISMS, OAUTHBEARER

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
UNSECURED_LIFETIME_S: Final = 3600  #: of tokens made for development (OAuthBearerUnsecuredLoginCallbackHandler)
_TOKEN_HANDLER: Final = "OAuthBearerLoginCallbackHandler"  # noqa: S105  a class
_JAAS: Final = "sasl.jaas.config"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  a property


class StoreSettings(NamedTuple):
    """A key store or trust store: a file, or PEM texts."""

    location: str | None
    type: str | None  #: PEM, PKCS12 or JKS; None: what the file looks like
    password: Secret | None
    option: str  #: the property that names the file, for errors
    certificates: str | None = None  #: PEM text
    key: Secret | None = None  #: PEM text

    @property
    def is_given(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.location or self.certificates)


class TlsSettings(NamedTuple):
    """What TLS needs. Without a trust store, the authorities of this system are trusted."""

    trust: StoreSettings
    identity: StoreSettings  #: the client's own certificate
    key_location: str | None = None  #: librdkafka keeps key and certificate in two files
    key_password: Secret | None = None
    checks_host: bool = True
    checks_certificate: bool = True  #: librdkafka alone can switch this off
    protocols: tuple[str, ...] = ()  #: TLSv1.2, TLSv1.3; none: the library's defaults
    ciphers: tuple[str, ...] = ()  #: IANA names; none: the library's defaults


class SaslSettings(NamedTuple):
    """What a SASL mechanism needs."""

    mechanism: str
    user: str  #: of OAUTHBEARER: the subject of an unsecured token, empty if a token is given
    password: Secret  #: of OAUTHBEARER: the token, empty if an unsecured one is to be made
    is_delegation_token: bool = False  #: the user is the id of a token, the password its HMAC
    options: Mapping[str, str] = {}  #: of the OAUTHBEARER login module


class SecuritySettings(NamedTuple):
    """The security protocol, and what it needs."""

    protocol: str
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


def read_settings(properties: Mapping[str, str]) -> SecuritySettings:
    """Return the settings of client properties.

    Raises:
        ConfigurationError: a property is missing or invalid. The message names it and contains no secret.
    """
    check_names(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigurationError(f"security.protocol={protocol} is invalid: give one of {', '.join(PROTOCOLS)}")
    return SecuritySettings(
        protocol,
        _tls(properties) if protocol.endswith("SSL") else None,
        _sasl(properties) if protocol.startswith("SASL") else None,
    )


def _tls(properties: Mapping[str, str]) -> TlsSettings:
    get = properties.get
    algorithm = get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", "none", ""):
        raise ConfigurationError(f"ssl.endpoint.identification.algorithm={algorithm} is invalid: give https, or nothing for no check")
    return TlsSettings(
        _store(properties, "truststore", ("ssl.truststore.certificates", "ssl.ca.pem"), "ssl.ca.location"),
        _store(properties, "keystore", ("ssl.keystore.certificate.chain", "ssl.certificate.pem"), "ssl.certificate.location"),
        get("ssl.key.location"),
        _secret(get("ssl.key.password")),
        checks_host=algorithm == "https",
        checks_certificate=_is_true(properties, "enable.ssl.certificate.verification", default=True),
        protocols=_items(get("ssl.enabled.protocols", "")),
        ciphers=_items(get("ssl.cipher.suites", "")),
    )


def _store(properties: Mapping[str, str], kind: str, texts: tuple[str, str], file: str) -> StoreSettings:
    """Read the properties of Java; where a file is not named by them, those of librdkafka, whose files are PEM."""
    get = properties.get
    name = f"ssl.{kind}.location"
    location, store_type = get(name), get(f"ssl.{kind}.type")
    certificates = next((text for each in texts if (text := get(each))), None)
    if location is None and get(file):
        name, location, store_type = file, get(file), "PEM"
    if location is not None and certificates is not None:
        raise ConfigurationError(f"{name} and {texts[0]} exclude each other: give a file or a text")
    key = get("ssl.keystore.key") or get("ssl.key.pem")
    is_keystore = kind == "keystore"
    if is_keystore and certificates is not None and not key:
        raise ConfigurationError(f"{texts[0]} needs ssl.keystore.key as well")
    if is_keystore and key and certificates is None and location is None:
        raise ConfigurationError(f"ssl.keystore.key needs {texts[0]} as well")
    password = _secret(get(f"ssl.{kind}.password"))
    return StoreSettings(location, store_type and store_type.upper(), password, name, certificates, _secret(key) if is_keystore else None)


def _sasl(properties: Mapping[str, str]) -> SaslSettings:
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "").strip()
    if mechanism not in MECHANISMS:
        given = f"sasl.mechanism={mechanism} is not supported" if mechanism else "sasl.mechanism is missing"
        raise ConfigurationError(f"{given}: give one of {', '.join(MECHANISMS)}")
    entry = _jaas(properties)
    if mechanism == OAUTHBEARER:
        return _oauthbearer(properties, entry)
    if properties.get("sasl.username") is not None:
        user, password = properties["sasl.username"], properties.get("sasl.password")
    elif entry is not None and entry.login_module != OAUTHBEARER_LOGIN_MODULE:
        user, password = entry.options.get("username", ""), entry.options.get("password")
    else:
        raise ConfigurationError(f"{mechanism} needs a user and a password: give {_JAAS} or sasl.username and sasl.password")
    if not user or not password:
        raise ConfigurationError(f"{mechanism} needs a {'password for user ' + user if user else 'user name'}: none is given")
    is_token = entry is not None and entry.options.get("tokenauth", "").lower() == "true"
    return SaslSettings(mechanism, user, Secret(password), is_token)


def _jaas(properties: Mapping[str, str]) -> JaasEntry | None:
    if not properties.get(_JAAS):
        return None
    try:
        return parse_property(properties[_JAAS])
    except JaasError as error:
        raise ConfigurationError(f"{_JAAS}: {error}") from None  # the cause's frames hold secrets


def _oauthbearer(properties: Mapping[str, str], entry: JaasEntry | None) -> SaslSettings:
    """Read where the token comes from: a file, a property, or a maker of unsecured tokens."""
    if properties.get("sasl.password"):
        return SaslSettings(OAUTHBEARER, "", Secret(properties["sasl.password"].strip()))
    if _TOKEN_URL in properties or properties.get("sasl.login.callback.handler.class", "").endswith(f".{_TOKEN_HANDLER}"):
        return SaslSettings(OAUTHBEARER, "", _token_of(properties.get(_TOKEN_URL, "")))
    options = dict(entry.options) if entry is not None else {}
    options |= {name: value for name, _, value in (part.partition("=") for part in properties.get("sasl.oauthbearer.config", "").split())}
    claim = options.get("unsecuredLoginPrincipalClaimName") or options.get("principalClaimName") or "sub"
    user = options.get(f"unsecuredLoginStringClaim_{claim}") or options.get("principal") or properties.get("sasl.username") or ""
    for name in options:
        if name.startswith(("unsecuredLoginNumberClaim_", "unsecuredLoginLifetimeSeconds", "lifeSeconds")) and not _is_number(
            options[name]
        ):
            raise ConfigurationError(f"{_JAAS}: {name} must be a number")
    if not user:
        raise ConfigurationError(
            f"OAUTHBEARER needs a token: name its file by {_TOKEN_URL}=file:///PATH, or, for development, "
            f'a user in {_JAAS}: ... required unsecuredLoginStringClaim_sub="NAME";'
        )
    return SaslSettings(OAUTHBEARER, user, Secret(""), options=options)


def _token_of(url: str) -> Secret:
    if not url.startswith("file:"):
        raise ConfigurationError(f"{_TOKEN_URL} must be a file: URL: fetch the token from its issuer first, and write it to a file")
    path = Path("/" + url.removeprefix("file:").lstrip("/"))
    try:
        return Secret(path.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{_TOKEN_URL}: {path}: {getattr(error, 'strerror', None) or 'not a token'}") from None


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _is_true(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = properties.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name}={text} is invalid: give true or false")
    return text == "true"
