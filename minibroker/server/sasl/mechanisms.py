"""The SASL mechanisms of a listener, made from its properties.

Properties that Apache Kafka rejects at start are rejected here, with one line that names the property to change (SaslChannelBuilder,
JaasContext, BrokerSecurityConfigs).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.config.security_properties import JAAS_FILE, ListenerProperties
from minibroker.errors import ConfigurationError, InvalidConfig
from minibroker.extras import install_command
from minibroker.security.jaas import OAUTHBEARER_LOGIN_MODULE, JaasEntry, JaasError, parse_file, parse_property, section_of
from minibroker.security.oauthbearer import OAuthBearerServer, UnsecuredValidator, Validator
from minibroker.security.plain import PlainServer, users_of
from minibroker.security.sasl_session import MECHANISMS, OAUTHBEARER, PLAIN, Offer, SaslMechanism
from minibroker.security.scram import ScramCredential, ScramServer, ScramToken, UnknownUsers

if TYPE_CHECKING:
    from minibroker.security.signed_tokens import SignedValidator
    from minibroker.server.sasl.jwks import KeySource

log = logging.getLogger(__name__)

_HANDLER: Final = "sasl.server.callback.handler.class"
_SIGNED_HANDLER: Final = "OAuthBearerValidatorCallbackHandler"  #: the last part of the name, which has had two packages
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_JAAS_MAX: Final = 1024 * 1024  #: bytes of a JAAS file


class Accounts(NamedTuple):
    """Where SCRAM credentials and delegation tokens are; both are looked up at every login, by mechanism and name."""

    find_credential: Callable[[str, str], ScramCredential | None]
    find_token: Callable[[str, str], ScramToken | None]


class TokenKeys:
    """The key sets that verify the signed tokens of a listener, by URL.

    A key set is read when its URL is first configured, which is at the start (jwks.py), and then in the background. It stays when other
    properties of the listener change.
    """

    def __init__(self, clock: Clock, background: Background) -> None:
        self.clock = clock
        self._background = background
        self._sources: dict[str, KeySource] = {}

    def validator(self, properties: ListenerProperties, url: str) -> SignedValidator:
        """Return the validator of the signed tokens of a listener.

        Raises:
            ConfigurationError: the keys cannot be read.
            ImportError: the extra `security` is missing.
            InvalidConfig: a property is invalid.
        """
        from minibroker.server.sasl.jwks import KeySource, key_times, signed_validator  # noqa: PLC0415  needs the extra `security`

        times = key_times(properties)
        source = self._sources.get(url)
        if source is None:
            source = self._sources[url] = KeySource(url, times, self.clock, self._background)
        source.times = times
        return signed_validator(properties, source, self.clock)

    def close(self) -> None:
        """Read no more keys."""
        for each in self._sources.values():
            each.close()


def offers_of(properties: ListenerProperties, accounts: Accounts, keys: TokenKeys, unknown: UnknownUsers) -> dict[str, Offer]:
    """Return the mechanisms that a listener enables, by name.

    Raises:
        ConfigurationError: a property is missing or invalid; the message is one line without secrets.
    """
    try:
        names = properties.items("sasl.enabled.mechanisms")
        _check_names(properties, names)
        found: dict[str, Offer] = {}
        for name in names:
            begin = _begin(properties, name, _entries(properties, name), accounts, keys, unknown)
            found[name] = Offer(begin, properties.integer("connections.max.reauth.ms", name))
    except InvalidConfig as error:
        raise ConfigurationError(str(error)) from None
    return found


def _check_names(properties: ListenerProperties, names: tuple[str, ...]) -> None:
    prop = properties.name_to_set("sasl.enabled.mechanisms")
    hint = f"set it to some of {', '.join(MECHANISMS)}, e.g. {prop}=PLAIN"
    if not names:
        raise ConfigurationError(f"{prop}: No SASL mechanisms are enabled: {hint}")
    for name in names:
        if name not in MECHANISMS:
            problem = "needs Kerberos, which minibroker does not serve" if name == "GSSAPI" else "is not a mechanism that minibroker serves"
            default = "" if properties.full_name("sasl.enabled.mechanisms") else " (the default)"
            raise ConfigurationError(f"{prop}: {name}{default} {problem}: {hint}")


def _entries(properties: ListenerProperties, mechanism: str) -> list[JaasEntry]:
    """Return the login modules of a mechanism: of the listener's property, else of the JAAS file (JaasContext.loadServerContext)."""
    prop = properties.name_to_set("sasl.jaas.config", mechanism)
    secret = properties.secret("sasl.jaas.config", mechanism)
    if secret is not None:
        try:
            return [parse_property(secret.reveal())]
        except JaasError as error:
            raise ConfigurationError(f"{prop}: {error}") from None
    path = properties.jaas_file
    if path is None:
        raise ConfigurationError(
            f"{prop} is missing: mechanism {mechanism} of listener {properties.name} needs a login module "
            f"(or a JAAS file with a section KafkaServer, which KAFKA_OPTS names with -D{JAAS_FILE}=FILE)"
        )
    section = section_of(_jaas_file(path), properties.name)
    if section is None:
        raise ConfigurationError(
            f"{JAAS_FILE}: {path} has neither a section KafkaServer nor {properties.name.lower()}.KafkaServer; add one, or set {prop}"
        )
    return section


def _jaas_file(path: str) -> dict[str, list[JaasEntry]]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            return parse_file(file.read(_JAAS_MAX))
    except OSError as error:
        raise ConfigurationError(f"{JAAS_FILE}: cannot read {path}: {error.strerror or error}") from None
    except (JaasError, UnicodeDecodeError) as error:
        problem = error if isinstance(error, JaasError) else "it is not UTF-8"
        raise ConfigurationError(f"{JAAS_FILE}: {path}: {problem}") from None


def _begin(  # noqa: PLR0917  each is used by some mechanism
    properties: ListenerProperties,
    name: str,
    entries: list[JaasEntry],
    accounts: Accounts,
    keys: TokenKeys,
    unknown: UnknownUsers,
) -> Callable[[], SaslMechanism]:
    """Return a function that creates the server side of an exchange."""
    handler = properties.get(_HANDLER, name)
    if handler is not None and ("OAuthBearer" in str(handler)) != (name == OAUTHBEARER):
        raise ConfigurationError(f"{properties.name_to_set(_HANDLER, name)}: {handler} does not serve mechanism {name}")
    if name == PLAIN:
        users = users_of(entries)
        return lambda: PlainServer(users)
    if name != OAUTHBEARER:
        find, find_token = partial(accounts.find_credential, name), partial(accounts.find_token, name)
        return lambda: ScramServer(name, find, find_token, unknown)
    validate = _validator(properties, entries, str(handler or ""), keys)
    return lambda: OAuthBearerServer(validate)


def _validator(properties: ListenerProperties, entries: list[JaasEntry], handler: str, keys: TokenKeys) -> Validator:
    jaas = properties.name_to_set("sasl.jaas.config", OAUTHBEARER)
    own = [entry for entry in entries if entry.login_module == OAUTHBEARER_LOGIN_MODULE]
    if len(own) != 1:
        raise ConfigurationError(f"{jaas}: mechanism OAUTHBEARER needs exactly one login module, {OAUTHBEARER_LOGIN_MODULE}")
    if not handler.endswith(f".{_SIGNED_HANDLER}"):
        log.warning(
            "listener %s accepts unsecured OAUTHBEARER tokens, which any client can write: set %s to %s for signed ones",
            properties.name, properties.name_to_set(_HANDLER, OAUTHBEARER),
            f"org.apache.kafka.common.security.oauthbearer.{_SIGNED_HANDLER}",
        )  # fmt: skip
        try:
            return UnsecuredValidator(own[0].options, keys.clock.now_ms)
        except ValueError as error:
            raise ConfigurationError(f"{jaas}: {error}") from None
    return _signed_validator(properties, keys)


def _signed_validator(properties: ListenerProperties, keys: TokenKeys) -> Validator:
    prop = properties.name_to_set(_URL)
    url = properties.text(_URL)
    if not url:
        raise ConfigurationError(f"{prop} is missing: {_SIGNED_HANDLER} checks tokens with the keys at this URL")
    try:
        return keys.validator(properties, url)
    except ImportError as error:
        raise ConfigurationError(f"{prop}: signed tokens need the extra security: {install_command('security')} ({error})") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{prop}: {error}") from None
