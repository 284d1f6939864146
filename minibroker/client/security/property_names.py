"""Names of the properties of Java's clients (4.3.1) and of librdkafka that concern security: a misspelled one must not pass silently.

Some have no effect here, such as those of Kerberos and of Java's providers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from minibroker.errors import ConfigurationError

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
#: properties without which the connection would be another one than the user demands
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
        ConfigurationError: a property is not supported, and ignoring it would make the connection another one.
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
