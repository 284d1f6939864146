"""TLS of one listener of a running broker. A changed certificate is for new connections; open ones keep theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import ConfigurationError, InvalidConfig
from minibroker.security.certificate_changes import changed_texts, check_change
from minibroker.security.tls import ListenerTls, tls_of
from minibroker.server.listener import Listener
from minibroker.server.tls_transport import Handshakes, TlsProtocol

log = logging.getLogger(__name__)


def _same(tls: ListenerTls) -> ListenerTls:
    return tls


class SecuredListener:
    """Puts TLS before each connection of a listener, with a certificate that may change (Kafka's SslFactory)."""

    def __init__(self, listener: Listener, texts: Mapping[str, str], open_listeners: Iterable[Listener] = ()) -> None:
        """Read the stores.

        Args:
            listener: one whose protocol is SSL or SASL_SSL.
            texts: properties by full name (`BrokerConfig.security_texts`).
            open_listeners: listeners of the same broker, which share the time for handshakes with it.

        Raises:
            ConfigurationError: The properties cannot be used.
        """
        self._listener = listener
        self._first = dict(texts)
        self._texts = changed_texts(self._first, texts, listener.name)  #: in force
        self._times = self._times_of(self._texts)
        self.tls = tls_of(self._properties(texts), listener.security_protocol)  #: of connections from now on
        self.choose: Callable[[ListenerTls], ListenerTls] = _same  #: returns the TLS of the next connection; the test kit replaces it
        shared = (each.secured._handshakes for each in open_listeners if isinstance(each.secured, SecuredListener))  # noqa: SLF001  of this class
        self._handshakes: Handshakes = next(shared, None) or Handshakes(listener.at_end_of_turn, listener.now_ms, listener.login_memory)
        listener.secured = self

    def __call__(self, connection: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """Put TLS before a connection."""
        inner = cast("asyncio.BufferedProtocol", connection)
        return TlsProtocol(inner, self.choose(self.tls), self._handshakes, self._listener.after, self._listener.at_end_of_turn)

    def validate(self, texts: Mapping[str, str]) -> None:
        """Check properties before they are stored. Files are only read again if a property of a store changes.

        Raises:
            InvalidConfig: The listener cannot use them.
        """
        changed = changed_texts(self._first, texts, self._listener.name)
        if changed == self._texts:
            return
        try:
            self._changed(changed)
        except InvalidConfig as error:
            raise InvalidConfig(f"org.apache.kafka.common.config.ConfigException: {error}") from error
        except ConfigurationError as error:
            raise InvalidConfig(f"org.apache.kafka.common.errors.InvalidConfigurationException: {error}") from error

    def reconfigure(self, texts: Mapping[str, str]) -> None:
        """Follow properties that were stored, and files that were replaced. If they cannot be used, the listener stays as it is."""
        changed = changed_texts(self._first, texts, self._listener.name)
        times = self._times_of(changed)
        if (changed, times) == (self._texts, self._times):
            return
        self._times = times
        try:
            self.tls = self._changed(changed)
        except (ConfigurationError, InvalidConfig) as error:
            log.error("listener %s keeps its certificate: %s", self._listener.name, error)  # noqa: TRY400  the message is the whole problem
            return
        self._texts = changed
        log.info("listener %s read its key and trust stores again", self._listener.name)

    def _changed(self, texts: Mapping[str, str]) -> ListenerTls:
        properties = self._properties(texts)
        found = tls_of(properties, self._listener.security_protocol)
        check_change(self.tls, found, self._properties(self._first), properties)
        return found

    def _properties(self, texts: Mapping[str, str]) -> ListenerProperties:
        return ListenerProperties(texts, self._listener.name)

    def _times_of(self, texts: Mapping[str, str]) -> list[int | None]:
        """Return when the files of the stores were modified; None for one that does not exist."""
        properties = self._properties(texts)
        paths = (properties.text("ssl.keystore.location"), properties.text("ssl.truststore.location"))
        return [None if path is None else _modified_ns(path) for path in paths]


def _modified_ns(path: str) -> int | None:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None
