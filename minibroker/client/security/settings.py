"""Read the settings of TLS and SASL from the client properties of Java or librdkafka.

Java's names are those of Apache Kafka's SslConfigs and SaslConfigs in 4.3.1. librdkafka's names are read if Java does not use the name
or both mean the same (`sasl.username`, `ssl.ca.location`). Properties that do not concern security are ignored. A misspelled property
is logged. Some properties have no effect here, such as those of Kerberos and of Java's providers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

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
    type: str | None  #: PEM, PKCS12 or JKS; None: found out from the content
    password: Secret | None
    option: str  #: the property that names the file, for errors
    certificates: str | None = None  #: PEM text
    key: Secret | None = None  #: PEM text

    @property
    def is_given(self) -> bool:
        """Whether there is a file or a text to read."""
        return bool(self.location or self.certificates)


class TlsSettings(NamedTuple):
    """The settings of TLS. Without a trust store, the client trusts the authorities of this system."""

    trust: StoreSettings
    identity: StoreSettings  #: the client's own certificate
    key_location: str | None = None  #: librdkafka keeps key and certificate in two files
    key_password: Secret | None = None
    checks_host: bool = True
    checks_certificate: bool = True  #: only librdkafka's properties can switch this off
    protocols: tuple[str, ...] = ()  #: TLSv1.2, TLSv1.3; empty: the library's defaults
    ciphers: tuple[str, ...] = ()  #: IANA names; empty: the library's defaults


class SaslSettings(NamedTuple):
    """The settings of a SASL mechanism."""

    mechanism: str
    user: str  #: for OAUTHBEARER the subject of an unsecured token; empty if the properties have a token
    password: Secret  #: for OAUTHBEARER the token; empty if the client creates an unsecured one
    is_delegation_token: bool = False  #: the user is the id of a token, the password its HMAC
    options: Mapping[str, str] = {}  #: of the OAUTHBEARER login module


class SecuritySettings(NamedTuple):
    """The security protocol, and its settings."""

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
    """Read Java's properties. If they name no file, read those of librdkafka, whose files are PEM."""
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
        problem = f"sasl.mechanism={mechanism} is not supported" if mechanism else "sasl.mechanism is missing"
        raise ConfigurationError(f"{problem}: give one of {', '.join(MECHANISMS)}")
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
    """Read where the token comes from: a property, a file, or options for an unsecured token."""
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


log = logging.getLogger(__name__)

_FAMILIES: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.")
#: names after a prefix
_JAVA: Final = {
    "sasl.": "client.callback.handler.class jaas.config login.callback.handler.class login.class login.connect.timeout.ms "
    "login.read.timeout.ms login.refresh.buffer.seconds login.refresh.min.period.seconds login.refresh.window.factor "
    "login.refresh.window.jitter login.retry.backoff.max.ms login.retry.backoff.ms mechanism",
    "sasl.kerberos.": "kinit.cmd min.time.before.relogin service.name ticket.renew.jitter ticket.renew.window.factor",
    "sasl.oauthbearer.": "assertion.algorithm assertion.claim.aud assertion.claim.exp.seconds assertion.claim.iss "
    "assertion.claim.jti.include assertion.claim.nbf.seconds assertion.claim.sub assertion.file assertion.private.key.file "
    "assertion.private.key.passphrase assertion.template.file client.credentials.client.id client.credentials.client.secret "
    "clock.skew.seconds expected.audience expected.issuer header.urlencode jwks.endpoint.refresh.ms "
    "jwks.endpoint.retry.backoff.max.ms jwks.endpoint.retry.backoff.ms jwks.endpoint.url jwt.retriever.class jwt.validator.class "
    "scope scope.claim.name sub.claim.name token.endpoint.url",
    "security.": "protocol providers",
    "ssl.": "cipher.suites enabled.protocols endpoint.identification.algorithm engine.factory.class key.password "
    "keymanager.algorithm protocol provider secure.random.implementation trustmanager.algorithm",
    "ssl.keystore.": "certificate.chain key location password type",
    "ssl.truststore.": "certificates location password type",
}
_LIBRDKAFKA: Final = {
    "enable.": "sasl.oauthbearer.unsecure.jwt ssl.certificate.verification",
    "sasl.": "mechanisms password username",
    "sasl.kerberos.": "keytab principal",
    "sasl.oauthbearer.": "client.id client.secret config extensions method",
    "ssl.": "ca.certificate.stores ca.location ca.pem certificate.location certificate.pem crl.location curves.list engine.id "
    "engine.location key.location key.pem providers sigalgs.list",
}
_KNOWN: Final = frozenset(f"{prefix}{name}" for table in (_JAVA, _LIBRDKAFKA) for prefix, names in table.items() for name in names.split())
#: properties that would change the connection, so that ignoring them would be wrong
_NOT_SUPPORTED: Final = (
    "sasl.client.callback.handler.class",
    "sasl.login.class",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.engine.factory.class",
    "ssl.engine.location",
    "ssl.sigalgs.list",
)
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_LOGIN_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")


def check_names(properties: Mapping[str, str]) -> None:
    """Warn of unknown properties of TLS and SASL.

    Raises:
        ConfigurationError: a property is not supported, and would change the connection.
    """
    for name in _NOT_SUPPORTED:
        if properties.get(name):
            raise ConfigurationError(f"{name} is not supported: leave it out")
    handler = properties.get(_LOGIN_HANDLER)
    if handler and handler.rpartition(".")[2] not in _LOGIN_HANDLERS:
        raise ConfigurationError(f"{_LOGIN_HANDLER}={handler} is not supported: the class must be Kafka's {_LOGIN_HANDLERS[0]}")
    for line in _unknown(properties):
        log.warning("%s", line)


def _unknown(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        if name.startswith(_FAMILIES) and name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, 1, 0.8)
            yield f"{name} is ignored: no client has this property" + (f"; did you mean {near[0]}?" if near else "")
