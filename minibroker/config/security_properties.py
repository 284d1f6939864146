"""Properties of TLS, SASL and delegation tokens, and how those of one listener override those of all.

Types, defaults and sensitivity are Kafka's (SslConfigs, SaslConfigs, BrokerSecurityConfigs, DelegationTokenManagerConfigs). A name may
have the prefix `listener.name.<listener>.`, and after it `<mechanism>.`, both in lower case. The strongest is listener and mechanism,
then listener, then none (AbstractConfig.valuesWithPrefixOverride, ChannelBuilders.channelBuilderConfigs).

These properties are not attributes of `BrokerConfig`. A broker reads them by `ListenerProperties` when it opens a listener that needs
them, so that a broker with PLAINTEXT listeners does not import this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from minibroker.config.definition import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Check,
    Property,
    Row,
    Value,
    at_least,
    one_of,
)
from minibroker.config.secret import Secret
from minibroker.errors import InvalidConfig

PREFIX: Final = "listener.name."
JAAS_FILE: Final = "java.security.auth.login.config"  #: a system property of Java, which KAFKA_OPTS sets (sources.py)

_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer"


def known_class(*names: str) -> Check:
    """Accept only these Java classes, whose behaviour is built in."""

    def check(value: Value) -> str | None:
        return None if value in names else f"Class {value} could not be found."

    return Check("", check)


_TLS_READ_ONLY: tuple[Row, ...] = (
    ("ssl.allow.dn.changes", BOOLEAN, "false", None, "Whether a new certificate may have another distinguished name."),
    ("ssl.allow.san.changes", BOOLEAN, "false", None, "Whether a new certificate may lack alternative names of the old one."),
    (
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        None,
        "Rules that turn the distinguished name of a client certificate into a principal: RULE:pattern/replacement/[LU] or DEFAULT.",
    ),
)
_TLS_DYNAMIC: tuple[Row, ...] = (
    ("ssl.cipher.suites", LIST, "", None, "Cipher suites of TLS 1.2 by their IANA names; those of OpenSSL's defaults if it is empty."),
    (
        "ssl.client.auth",
        STRING,
        "none",
        one_of("required", "requested", "none"),
        "Whether clients must present a certificate. For a SASL_SSL listener, set it with the listener's prefix.",
    ),
    ("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", None, "Versions of TLS that are served."),
    ("ssl.key.password", PASSWORD, None, None, "Password of the private key."),
    ("ssl.keystore.certificate.chain", PASSWORD, None, None, "The certificate and its chain as PEM text, with ssl.keystore.type=PEM."),
    ("ssl.keystore.key", PASSWORD, None, None, "The private key as PEM text (PKCS#8), with ssl.keystore.type=PEM."),
    ("ssl.keystore.location", STRING, None, None, "File of the private key and its certificate chain."),
    ("ssl.keystore.password", PASSWORD, None, None, "Password of the key store file; not for PEM."),
    ("ssl.keystore.type", STRING, "JKS", None, "Format of the key store: JKS, PKCS12 or PEM."),
    ("ssl.protocol", STRING, "TLSv1.3", None, "Accepted; ssl.enabled.protocols lists the versions of TLS that are served."),
    ("ssl.truststore.certificates", PASSWORD, None, None, "Trusted certificates as PEM text, with ssl.truststore.type=PEM."),
    ("ssl.truststore.location", STRING, None, None, "File of the authorities that client certificates must come from."),
    ("ssl.truststore.password", PASSWORD, None, None, "Password of the trust store file; not for PEM."),
    ("ssl.truststore.type", STRING, "JKS", None, "Format of the trust store: JKS, PKCS12 or PEM."),
)
_SASL_READ_ONLY: tuple[Row, ...] = (
    (
        "connection.failed.authentication.delay.ms",
        INT,
        "100",
        at_least(0),
        "Time after a failed authentication until the connection is closed; below connections.max.idle.ms.",
    ),
    ("connections.max.reauth.ms", LONG, "0", None, "Longest time until a client must authenticate again (KIP-368); 0: never."),
    ("sasl.oauthbearer.clock.skew.seconds", INT, "30", None, "Difference of clocks that is allowed when the times of a token are checked."),
    (
        "sasl.oauthbearer.expected.audience",
        LIST,
        "",
        None,
        "A token must have one of these audiences. If empty, every audience is allowed.",
    ),
    (
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        None,
        "The issuer that a token must have. If it is not set, every issuer is allowed.",
    ),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, "3600000", None, "How often the keys of token issuers are read again."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, "10000", None, "Longest wait between attempts to read the keys."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, "100", None, "First wait between attempts to read the keys."),
    ("sasl.oauthbearer.jwks.endpoint.url", STRING, None, None, "URL of the keys of token issuers (http, https or file)."),
    (
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        f"{_OAUTHBEARER}.DefaultJwtValidator",
        known_class(f"{_OAUTHBEARER}.DefaultJwtValidator", f"{_OAUTHBEARER}.BrokerJwtValidator"),
        "Accepted; which tokens are valid depends on sasl.server.callback.handler.class.",
    ),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope", None, "The claim of a token that contains its scopes."),
    ("sasl.oauthbearer.sub.claim.name", STRING, "sub", None, "The claim of a token that contains the name of the principal."),
    (
        "sasl.server.callback.handler.class",
        CLASS,
        None,
        known_class(
            f"{_OAUTHBEARER}.OAuthBearerValidatorCallbackHandler",
            f"{_OAUTHBEARER}.secured.OAuthBearerValidatorCallbackHandler",
            f"{_OAUTHBEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
            "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
        ),
        "How a mechanism checks what clients send. Only with the prefix of a listener and a mechanism.",
    ),
    ("sasl.server.max.receive.size", INT, "524288", None, "Largest request before a client is authenticated."),
)
_SASL_DYNAMIC: tuple[Row, ...] = (
    (
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        known_class("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        "Only Kafka's default class is accepted; its behaviour is built in.",
    ),
    ("sasl.enabled.mechanisms", LIST, "GSSAPI", None, "SASL mechanisms that are served: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."),
    (
        "sasl.jaas.config",
        PASSWORD,
        None,
        None,
        "Login module of a mechanism and its options, such as users. Only with the prefix of a listener and a mechanism.",
    ),
)
_TOKENS: tuple[Row, ...] = (
    ("delegation.token.expiry.check.interval.ms", LONG, "3600000", at_least(1), "How often expired delegation tokens are removed."),
    ("delegation.token.expiry.time.ms", LONG, "86400000", at_least(1), "Time until a delegation token expires unless it is renewed."),
    ("delegation.token.max.lifetime.ms", LONG, "604800000", at_least(1), "Time after which a delegation token cannot be renewed."),
    ("delegation.token.secret.key", PASSWORD, None, None, "Key that signs delegation tokens. Without it, there are no tokens."),
)

SECURITY_PROPERTIES: dict[str, Property] = {
    row[0]: Property(row, is_dynamic=False) for row in (*_TLS_READ_ONLY, *_SASL_READ_ONLY, *_TOKENS)
}
SECURITY_PROPERTIES |= {row[0]: Property(row, is_dynamic=True) for row in (*_TLS_DYNAMIC, *_SASL_DYNAMIC)}

#: properties that may have a mechanism in their name, for example `listener.name.internal.plain.sasl.jaas.config`
_OF_A_MECHANISM: Final = ("connections.max.reauth.ms", "sasl.jaas.config", "sasl.server.callback.handler.class")
#: properties that hold for one mechanism of one listener only (JaasContext.loadServerContext, SaslChannelBuilder)
_ONLY_OF_A_MECHANISM: Final = frozenset({"sasl.jaas.config", "sasl.server.callback.handler.class"})
_OF_A_LISTENER: Final = re.compile(r"listener\.name\.([^.]+)\.(.+)")


def listener_in(name: str) -> str | None:
    """Return the lower-case listener in a name such as `listener.name.internal.ssl.client.auth`; None for other names."""
    found = _OF_A_LISTENER.fullmatch(name)
    return None if found is None else found[1]


def security_property(name: str) -> Property | None:
    """Return the property of a name with or without prefixes; None for one that is not in the table."""
    found = _OF_A_LISTENER.fullmatch(name)
    if found is None:
        return SECURITY_PROPERTIES.get(name)
    base = next((each for each in _OF_A_MECHANISM if found[2].endswith(f".{each}")), found[2])
    prop = SECURITY_PROPERTIES.get(base)
    if prop is None:
        return None
    return Property((name, prop.type, None, prop.check, prop.documentation), is_dynamic=prop.is_dynamic)


def check_security(given: Mapping[str, str]) -> None:
    """Raise InvalidConfig, which names the property, for the first value that is not of its type."""
    for name, text in given.items():
        prop = security_property(name)
        if prop is not None:
            prop.parse(text)


class ListenerProperties:
    """The security properties of one listener: its own, and those of all listeners where it has none.

    Args:
        properties: Texts by full name, dynamic ones included (`BrokerConfig.security_texts`).
        listener_name: The listener's name, in any case.
    """

    __slots__ = ("_prefix", "_texts", "name")

    def __init__(self, properties: Mapping[str, str], listener_name: str) -> None:
        self.name = listener_name
        self._prefix = f"{PREFIX}{listener_name.lower()}."
        self._texts = properties

    def full_name(self, name: str, mechanism: str | None = None) -> str | None:
        """Return the name, with prefixes, under which a property is set for this listener; None if it has its default."""
        return next((each for each in self._names(name, mechanism) if each in self._texts), None)

    def name_to_set(self, name: str, mechanism: str | None = None) -> str:
        """Return the name that an error should tell the operator to set: the one in force, else the strongest."""
        return self.full_name(name, mechanism) or self._names(name, mechanism)[0]

    def is_own(self, name: str) -> bool:
        """Whether the property is set for this listener, and not for all."""
        return f"{self._prefix}{name}" in self._texts

    def text(self, name: str, mechanism: str | None = None) -> str | None:
        """Return the text in force for a property that is not a secret.

        Raises:
            ValueError: The property is sensitive. Use `secret`.
        """
        if SECURITY_PROPERTIES[name].is_sensitive:
            raise ValueError(f"{name} is sensitive")
        return self._text(name, mechanism)

    def secret(self, name: str, mechanism: str | None = None) -> Secret | None:
        """Return the text in force for a property as a Secret."""
        text = self._text(name, mechanism)
        return None if text is None else Secret(text)

    def get(self, name: str, mechanism: str | None = None) -> Value | Secret:
        """Return the parsed value in force for a property: a Secret for a sensitive one, None if there is no value.

        Raises:
            InvalidConfig: The text is not valid. The message has the full name of the property.
        """
        prop = SECURITY_PROPERTIES[name]
        if prop.is_sensitive:
            return self.secret(name, mechanism)
        text = self._text(name, mechanism)
        full = Property((self.name_to_set(name, mechanism), prop.type, prop.default, prop.check, prop.documentation), is_dynamic=False)
        return full.parse(text)

    def integer(self, name: str, mechanism: str | None = None) -> int:
        """Return the number in force for a property that has a default."""
        value = self.get(name, mechanism)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidConfig(f"{self.name_to_set(name, mechanism)} needs a number")
        return value

    def items(self, name: str, mechanism: str | None = None) -> tuple[str, ...]:
        """Return the items of a list, without empty ones."""
        value = self.get(name, mechanism)
        return tuple(item for item in value if item) if isinstance(value, tuple) else ()

    @property
    def jaas_file(self) -> str | None:
        """The path of the JAAS file, for listeners without sasl.jaas.config."""
        return self._texts.get(JAAS_FILE)

    def is_true(self, name: str) -> bool:
        """Return the value of a property that is true or false."""
        return self.get(name) is True

    def _text(self, name: str, mechanism: str | None) -> str | None:
        found = self.full_name(name, mechanism)
        return SECURITY_PROPERTIES[name].default if found is None else self._texts[found]

    def _names(self, name: str, mechanism: str | None) -> list[str]:
        """Return the names of a property, strongest first."""
        of_mechanism = [] if mechanism is None else [f"{self._prefix}{mechanism.lower()}.{name}"]
        if name in _ONLY_OF_A_MECHANISM:
            return of_mechanism
        return [*of_mechanism, f"{self._prefix}{name}", name]
